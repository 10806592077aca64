"""The exact Gaussian-process engine: kernels, fits, posteriors, acquisitions and the maximiser that finds the next
point.

Arrays in, arrays out: nothing here knows trials, storages or users. A module lives here when two methods or more build
on it; what serves one paper alone stands in the folder of that paper.
"""
