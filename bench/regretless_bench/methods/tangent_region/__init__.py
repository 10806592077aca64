"""The tangent kernel of a net in a trust region: this project's method for thousands of evaluations."""
