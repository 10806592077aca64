"""GO-UCB (Liu and Wang 2023): optimism over a ball of parameters of a known family of functions.

`algorithm` reads like the paper; its parts stand beside it. What another method needs as well moves to `gp`, `grid` or
`tangent`; no other method imports this folder.
"""
