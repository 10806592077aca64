"""The exact Gaussian-process engine: kernels, fits, posteriors, acquisitions and the maximiser of the next point.

Arrays in, arrays out. A module lives here when two methods or more build on it.
"""
