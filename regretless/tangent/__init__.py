"""Fully connected nets and their tangent features: what NeuralBO and the neural baselines share.

`ntk` has the nets and their gradients, `training` trains them, `values` brings told values to the units they are
trained in. Arrays are NumPy's, or torch's where a device is named; what only NeuralBO needs stands in its own folder.
"""
