"""The sampler of `regretless` under the name that OptunaHub loads."""

from regretless.doors.optuna.sampler import Sampler as RegretlessSampler


__all__ = ["RegretlessSampler"]
