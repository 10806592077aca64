"""Exact Gaussian-process posteriors on grids: what the methods of the GP-ThreDS paper and its rivals share.

A grid's kernel matrix is built once, so a posterior costs little per evaluation and runs of many thousand evaluations
are affordable. A module lives here when two methods or more build on it.
"""
