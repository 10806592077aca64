"""MS-UCB (Tran-The et al. 2020): an upper confidence bound maximised on many low-dimensional subspaces.

`algorithm` reads like the paper and says what the default preset does instead; its parts stand beside it. What another
method needs as well moves to `gp`, `grid` or `tangent`; no other method imports this folder.
"""
