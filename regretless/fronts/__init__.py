"""Fronts: what is left of several objectives when everything that is worse in all of them is taken away. Arrays in,
arrays out; every objective is to be maximised."""
