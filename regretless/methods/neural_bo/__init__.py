"""NeuralBO (Phan-Trong et al. 2023): Thompson sampling with a neural net and its tangent kernel."""
