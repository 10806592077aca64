"""Ray's door: a searcher for Ray Tune."""
