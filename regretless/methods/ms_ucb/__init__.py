"""MS-UCB (Tran-The et al. 2020): upper confidence bounds over many low-dimensional subspaces."""
