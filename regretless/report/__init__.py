"""Pages: one self-contained HTML file each, with charts and tables that work without a network.

`page` is the page itself (curves, scatters, tables); the other modules say what stands on the page of a run. Whoever
has something to show imports from here; nothing here imports a method.
"""
