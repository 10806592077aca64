"""Expected hypervolume improvement."""
