"""Exact Gaussian-process posteriors on grids, at little cost per value: runs of many thousand are affordable."""
