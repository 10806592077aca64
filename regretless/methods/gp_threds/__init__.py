"""GP-ThreDS (Salgia, Vakili and Zhao 2021): thresholded domain shrinking on a tree.

`printed` reads like the paper; its parts stand beside it.
"""
