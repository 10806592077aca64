"""The contest of Gaussian processes: this project's method for 20 to 5000 dimensions."""
