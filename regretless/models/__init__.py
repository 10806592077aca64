"""Models: arrays in, arrays out. They do not know methods."""
