"""Fully connected nets (`ntk`), their training and the units of its values: for NeuralBO and the neural baselines."""
