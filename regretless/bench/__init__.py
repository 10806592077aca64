"""Comparisons: `runner` runs them, `record` keeps them, `stats`, `plots` and `report` read them; `peers` are other libraries as methods."""
