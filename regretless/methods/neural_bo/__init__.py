"""NeuralBO (Phan-Trong et al. 2023): Thompson sampling with neural-tangent uncertainty.

`algorithm` reads like the paper; its parts stand beside it. What another method needs as well moves to `gp`, `grid` or
`tangent`; no other method imports this folder.
"""
