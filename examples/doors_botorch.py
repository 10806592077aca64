"""BoTorch both ways: its acquisition function drives our optimizer, and our model serves its acquisition. Run: python examples/doors_botorch.py"""

from __future__ import annotations

import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement, UpperConfidenceBound

import regretless as rg
from regretless.doors.botorch import BoTorchAcquisition, SurrogateModel


def log_ei(model: SurrogateModel) -> AcquisitionFunction:
    return LogExpectedImprovement(model, best_f=model.best)


if __name__ == "__main__":
    optimizer = rg.Optimizer({"x": rg.Float(-5, 10), "k": rg.Int(1, 9)}, method=BoTorchAcquisition(acquisition=log_ei), seed=0)
    for _ in range(18):
        trial = optimizer.ask()
        optimizer.tell(trial, (trial.params["x"] - 3) ** 2 + abs(trial.params["k"] - 4))
    print(f"driven by BoTorch's LogEI: best {optimizer.best.value:.4g} at {optimizer.best.params}")

    model = SurrogateModel.of(optimizer)  # on the unit cube, values turned so that more is better
    bound = UpperConfidenceBound(model, beta=4.0)(torch.rand(5, 1, 2, dtype=torch.float64))
    print(f"BoTorch's UCB on our model at five points: {[round(v, 2) for v in bound.tolist()]}")
