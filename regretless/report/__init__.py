"""Pages: one self-contained HTML file each, with charts and tables that work without a network."""
