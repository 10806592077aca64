"""What every door to Optuna asks of a study: that it has one objective, and all of its trials."""

from __future__ import annotations

from optuna.study import Study


def check_one_objective(study: Study) -> None:
    """Raises ValueError for a study with several objectives."""
    if len(study.directions) > 1:
        raise ValueError(
            f"study {study.study_name!r} has {len(study.directions)} objectives and regretless searches one: use "
            "optuna.samplers.NSGAIISampler or TPESampler for the front, or return one weighted sum of them"
        )


def whole_study(study: Study) -> Study:
    """The study itself, where Hyperband shows a sampler only the trials of one bracket."""
    whole: Study = getattr(study, "_study", study)
    return whole
