"""Optuna's door: `Sampler` proposes the trials of a study; its trials may lie in any storage."""

from regretless.doors.optuna.sampler import Sampler

__all__ = ["Sampler"]
