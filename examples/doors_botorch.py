"""BoTorch both ways: its acquisition function drives our optimizer, and our model serves its acquisition. Run: python
examples/doors_botorch.py"""

from __future__ import annotations

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement, UpperConfidenceBound

import regretless as rg
from regretless.doors.botorch import BoTorchAcquisition, SurrogateModel


def log_ei(model: SurrogateModel) -> AcquisitionFunction:
    return LogExpectedImprovement(model, best_f=model.best)


if __name__ == "__main__":
    optimizer = rg.Optimizer(
        {"x": rg.Float(-5, 10), "k": rg.Int(1, 9)}, method=BoTorchAcquisition(acquisition=log_ei), seed=0
    )
    for _ in range(18):
        trial = optimizer.ask()
        optimizer.tell(trial, (trial.params["x"] - 3) ** 2 + abs(trial.params["k"] - 4))
    print(f"driven by BoTorch's LogEI: best {optimizer.best.value:.4g} at {optimizer.best.params}")

    model = SurrogateModel.of(optimizer)  # on the unit cube, values turned so that more is better
    settings = [{"x": x, "k": 4} for x in (-4.0, 0.0, 3.0, 6.0, 9.0)]
    points = torch.from_numpy(np.array([optimizer.space.encode(setting) for setting in settings]))
    with torch.no_grad():
        bounds = -UpperConfidenceBound(model, beta=4.0)(points[:, None])
    for setting, bound in zip(settings, bounds.tolist(), strict=True):
        print(
            f"at {setting} our model, asked by BoTorch's UCB, expects no less than {bound:.2f}; it is "
            f"{(setting['x'] - 3) ** 2:.2f}"
        )
