"""GP-ThreDS (Salgia, Vakili and Zhao 2021): thresholded domain shrinking on a tree.

`algorithm` reads like the paper; its parts stand beside it. What another method needs as well moves to `gp`, `grid` or
`tangent`; no other method imports this folder.
"""
