"""Certificates for studies of other samplers, and the package for OptunaHub."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import optuna
import pytest

import regretless as rg
from regretless.doors.optuna.export import result_of_study
from regretless.outlook.probes import most_better
from regretless.report.run_data import certificates_of

HUB = Path(__file__).parents[2] / "optunahub" / "package" / "samplers" / "regretless"


def bowl(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -5.0, 10.0)
    return (x - 3) ** 2 / 25 + 0.02 * (trial.suggest_int("k", 1, 9) - 4) ** 2


def test_a_study_of_another_sampler_gets_a_certificate() -> None:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    assert "no trial has completed" in rg.certify(study).reason
    study.optimize(bowl, n_trials=30)
    before = [(t.params, t.user_attrs, t.system_attrs) for t in study.trials]
    found = rg.certify(study, delta=0.1)
    assert found.certified
    assert found.delta == 0.1
    assert 0.0 <= study.best_value <= found.gap  # the optimum is 0
    assert found == rg.certify(study, delta=0.1)
    assert [(t.params, t.user_attrs, t.system_attrs) for t in study.trials] == before
    assert rg.certify(study, floor=0.0, noisy=False).gap <= study.best_value + 1e-12
    assert not rg.certify(study, method="random").certified
    plain = rg.Sampler("gp-ucb", seed=0, inside=False).certificate(study, 0.1)
    assert found.gap == pytest.approx(2 * plain.gap)  # other samplers leave places unseen
    assert found.upper - found.lower == pytest.approx(found.gap)
    assert found.upper == plain.upper


def test_the_page_of_a_study_of_another_sampler_says_the_same(tmp_path: Path) -> None:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(bowl, n_trials=30)
    result = result_of_study(study, method="gp-ucb")
    assert result.certificate.certified
    optimizer = result.optimizer
    assert result.certificate.gap == pytest.approx(2 * optimizer.method.certificate(optimizer.history).gap)
    assert "another sampler may have chosen" in result.certificate.assumptions[-1]
    assert certificates_of(result.optimizer, result.trials)[1][-1] == result.certificate
    assert rg.Result.from_json(result.to_json(tmp_path / "study.json")).certificate == result.certificate


def test_the_probes_of_a_sampler_of_ours_count_on_the_page_and_for_others() -> None:
    study = optuna.create_study(sampler=rg.Sampler("gp-ei", seed=5, probes=0.2))
    study.optimize(bowl, n_trials=20)
    own = study.sampler.certificate(study)  # type: ignore[attr-defined]
    assert own.probes == 4
    assert own.share is not None
    for found in (result_of_study(study).certificate, rg.certify(study)):
        assert (found.share, found.probes) == (own.share, own.probes)


def test_probes_of_another_seed_are_left_out() -> None:
    study = optuna.create_study(sampler=rg.Sampler("gp-ei", seed=5, probes=0.5))
    study.optimize(bowl, n_trials=8)
    study.sampler = rg.Sampler("gp-ei", seed=6, probes=0.5)
    study.optimize(bowl, n_trials=8)
    found = study.sampler.certificate(study)
    assert found.probes == 4
    assert found.share == pytest.approx(most_better(4, 0, 0.05))


def test_what_is_no_study_is_refused() -> None:
    with pytest.raises(TypeError, match=r"optuna\.load_study"):
        rg.certify("sqlite:///study.db")  # type: ignore[arg-type]


def test_a_maximisation_is_bounded_from_above() -> None:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0), direction="maximize")
    study.optimize(lambda trial: -bowl(trial), n_trials=30)
    found = rg.certify(study)
    assert found.lower <= 0.0 <= found.upper
    assert found.gap == pytest.approx(found.upper - found.lower)
    assert rg.certify(study, ceiling=1e-3).upper == pytest.approx(1e-3)


def test_uniform_draws_prove_a_share() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))

    def sometimes(trial: optuna.Trial) -> float:
        value = bowl(trial)
        if trial.number == 4:
            raise optuna.TrialPruned
        return value

    study.optimize(sometimes, n_trials=30)
    found = rg.certify(study, uniform=True)
    assert found.share == pytest.approx(most_better(30, 1, 0.05))
    assert found.probes == 30
    assert rg.certify(study).share is None


def test_a_certificate_is_that_of_one_objective() -> None:
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=rg.Sampler("random", seed=0))
    with pytest.raises(ValueError, match="has 2 objectives, and this is for studies with one"):
        rg.certify(study)


def test_the_package_for_optunahub() -> None:
    """As `optunahub.load_local_module` does: a folder with a sampler class, and a README that names it."""
    spec = importlib.util.spec_from_file_location("hub_package", HUB / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    study = optuna.create_study(sampler=package.RegretlessSampler("random", seed=0))
    study.optimize(bowl, n_trials=2)
    readme = (HUB / "README.md").read_text()
    head = re.match(r"---\n(.*?)\n---\n", readme, re.S)
    assert head is not None
    keys = {line.split(":")[0] for line in head[1].splitlines()}
    assert keys == {"author", "title", "description", "tags", "optuna_versions", "license"}
    for section in ("Abstract", "APIs", "Installation", "Example"):
        assert f"## {section}\n" in readme
    assert "- `RegretlessSampler(" in readme
    assert (HUB / "LICENSE").read_text() == (HUB.parents[3] / "LICENSE").read_text()
