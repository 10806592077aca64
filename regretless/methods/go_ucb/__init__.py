"""GO-UCB (Liu and Wang 2023): optimism over a ball of parameters of a known family of functions."""
