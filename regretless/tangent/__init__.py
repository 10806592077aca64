"""Neural-tangent features: networks seen through the gradient of their output, and the training of plain ones.

NeuralBO and the neural baselines build on these modules; what only NeuralBO needs stands in its own folder. Arrays are
NumPy's, or torch's where a GPU or a user's module is at work.
"""
