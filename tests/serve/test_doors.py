"""The two doors to a service from Python: `Optimizer.remote`, and `Sampler(service=)` for studies of Optuna."""

from __future__ import annotations

import math
import pickle
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import regretless as rg
from regretless.client import RemoteStudy, ServiceError

pytest.importorskip("fastapi")
pytest.importorskip("optuna")

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution
from processes import running_service

from regretless.serve.http import Rules

SPACE = {"lr": rg.Float(3e-5, 0.7, log=True), "width": rg.Int(17, 900, step=7), "act": rg.Choice(["relu", None, True])}


def objective(trial: optuna.Trial) -> float:
    lr, width = trial.suggest_float("lr", 3e-5, 0.7, log=True), trial.suggest_int("width", 17, 899, step=7)
    return abs(math.log(lr / 0.01)) + width / 900 + (trial.suggest_categorical("act", ["relu", None, True]) is None)


def run_of(url: str, name: str) -> rg.Optimizer:
    return rg.Optimizer.load(RemoteStudy(url, name).export())


def test_what_was_told_through_optuna_is_in_the_service(tmp_path: Path) -> None:
    with running_service(tmp_path) as url:
        sampler = rg.Sampler("gp-ei", service=url, search_space=SPACE, budget=12, probes=0.2)
        study = optuna.create_study(study_name="m", sampler=sampler)
        study.optimize(objective, n_trials=8)
        study.sampler = pickle.loads(pickle.dumps(sampler))
        study.optimize(objective, n_trials=4, n_jobs=2)
        kept = run_of(url, "m")
        assert sorted(map(repr, (t.params for t in kept.trials))) == sorted(map(repr, (t.params for t in study.trials)))
        assert sorted(t.value for t in kept.trials) == sorted(study.get_trials()[n].value for n in range(12))
        assert (str(kept.recipe), kept.task.budget, kept.task.probes) == ("gp-ei", 12, 0.2)
        assert study.sampler.recommend(study) == kept.recommend()
        assert str(study.sampler.certificate(study)) == str(kept.certificate)
        assert study.sampler.certificate(study).share == kept.certificate.share
        outlooks = study.sampler.outlooks(study, [20])
        assert outlooks is not None
        assert outlooks[0].forecast == kept.forecast(20)


def test_optuna_s_own_distributions_and_other_studies_join(tmp_path: Path) -> None:
    labels = CategoricalDistribution(("b", "x", 1.5))
    space = {"x": FloatDistribution(1e3, 1e3 + 7), "c": labels, "k": CategoricalDistribution(("only",))}
    with running_service(tmp_path) as url:
        for _ in range(2):  # two storages, as two machines have, with one study of the service
            sampler = rg.Sampler(service=url, search_space=space)
            study = optuna.create_study(study_name="m", direction="maximize", sampler=sampler)
            study.optimize(
                lambda t: t.suggest_float("x", 1e3, 1e3 + 7) + (t.suggest_categorical("c", labels.choices) == "b"), 4
            )
        assert [t.number for t in study.trials] == list(range(4))
        kept = run_of(url, "m")
        assert [t.value for t in kept.trials[4:]] == [t.value for t in study.trials]
        assert kept.task.direction == "maximize"
        best = study.sampler.recommend(study)
        assert best["c"] in labels.choices
        assert kept.recommend()["x"] == best["x"]


@pytest.mark.parametrize(("pruned", "told"), [("extrapolate", 5.5), ("last", 8.0), ("ignore", None)])
def test_failed_and_pruned_trials(tmp_path: Path, pruned: str, told: float | None) -> None:
    def run(trial: optuna.Trial) -> float:
        trial.suggest_float("x", -5.0, 11.0)
        trial.report(4.0 + 2 * trial.number, 3)
        if trial.number == 2:
            raise optuna.TrialPruned
        if trial.number == 3:
            raise ArithmeticError
        trial.set_user_attr("regretless:var", 0.25)
        return math.inf if trial.number == 4 else 4.0

    with running_service(tmp_path) as url:
        sampler = rg.Sampler("random", service=url, search_space={"x": rg.Float(-5.0, 11.0)}, pruned=pruned)
        study = optuna.create_study(study_name="m", sampler=sampler)
        study.optimize(run, n_trials=5, catch=(ArithmeticError,))
        trials = run_of(url, "m").trials
    pending = "pending" if told is None else "done"
    assert [t.state for t in trials] == ["done", "done", pending, "failed", "failed"]
    assert [t.value for t in trials] == [4.0, 4.0, told, None, None]
    assert trials[0].var == 0.25


def test_what_was_evaluated_elsewhere_is_not_told(tmp_path: Path) -> None:
    with running_service(tmp_path) as url:
        sampler = rg.Sampler(service=url, search_space={"x": rg.Float(-5.0, 11.0)})
        study = optuna.create_study(study_name="m", sampler=sampler)
        study.enqueue_trial({"x": 7.25})
        with pytest.warns(RuntimeWarning, match="trial 0 was evaluated at another setting"):
            study.optimize(lambda trial: trial.suggest_float("x", -5.0, 11.0), n_trials=1)
        trial = study.ask()
        trial.suggest_float("x", -5.0, 11.0)
        other = RemoteStudy(url, "m")
        other.tell(0, 2.5)  # as a client does that was given the trial of a lost one
        with pytest.warns(RuntimeWarning, match="trial 1 came too late: trial 0 was told before"):
            study.tell(trial, 3.5)
        run = run_of(url, "m")
    assert study.trials[0].value == 7.25
    assert [t.value for t in run.trials] == [2.5]


def test_several_objectives(tmp_path: Path) -> None:
    with running_service(tmp_path) as url:
        sampler = rg.Sampler(service=url, search_space={"x": rg.Float(-5.0, 11.0)}, seed=1, reference=[None, -3.0])
        study = optuna.create_study(study_name="m", sampler=sampler, directions=["minimize", "maximize"])

        def run(trial: optuna.Trial) -> tuple[float, float]:
            x = trial.suggest_float("x", -5.0, 11.0)
            trial.set_user_attr("regretless:var", [0.5, 0.25] if trial.number else None)
            return x * x, -abs(x - 1)

        study.optimize(run, n_trials=3)
        kept = run_of(url, "m")
    assert kept.task.directions == ("minimize", "maximize")
    assert kept.task.reference == (None, -3.0)
    assert [t.values for t in kept.trials] == [tuple(t.values) for t in study.trials]
    assert (kept.trials[1].var, kept.trials[1].further_var) == (0.5, (0.25,))


def test_wrong_calls_are_refused_in_a_sentence(tmp_path: Path) -> None:
    space = {"x": rg.Float(-5.0, 11.0)}
    with running_service(tmp_path, Rules({"a-good-token-0123456789": "", "for-m-alone-0123456789": "m"})) as url:
        for token in ("", "wrong"):
            with pytest.raises(ServiceError, match="a token that opens this is needed") as found:
                rg.Optimizer.remote(url, "m", space, token=token)
            assert found.value.status == 401
        good = "a-good-token-0123456789"
        with pytest.raises(ServiceError, match="there is no study 'm'"):
            rg.Optimizer.remote(url, "m", token=good)
        rg.Optimizer.remote(url, "m", space, token=good, seed=3)
        assert rg.Optimizer.remote(url, "m", token="for-m-alone-0123456789").ask()[0]["number"] == 0
        with pytest.raises(ServiceError, match="it holds seed = 3, this run asks for 4"):
            rg.Optimizer.remote(url, "m", space, token=good, seed=4)
        with pytest.raises(ServiceError, match="a study is called by up to 64 letters"):
            rg.Optimizer.remote(url, "m/../ü", space, token=good)
        with pytest.raises(ServiceError, match="Not Found"):
            RemoteStudy(url, "m/../ü", token=good).best()
        with pytest.raises(ValueError, match=r"by name, without options; got gp-ucb\(kappa=2"):
            rg.Optimizer.remote(url, "n", space, rg.GPUCB(kappa=2.0), token=good)
        with pytest.raises(ValueError, match=r"parameter 'c': labels .* cannot be written"):
            rg.Optimizer.remote(url, "n", {"c": rg.Choice([(1, 2), "a"])}, token=good)
        with pytest.raises(ServiceError, match="no-such"):
            RemoteStudy(url, "n", token=good).create({"x": {"type": "float", "low": 0, "high": 1}}, method="no-such")
        sampler = rg.Sampler(service=url, search_space=space)
        with pytest.raises(ServiceError, match="a token that opens this is needed"):
            optuna.create_study(study_name="m", sampler=sampler).ask().suggest_float("x", -5.0, 11.0)
    with pytest.raises(ServiceError, match="does not answer"):
        RemoteStudy(url, "m", patience=0.1).ask()
    with pytest.raises(ValueError, match="service= needs search_space="):
        rg.Sampler(service=url)
    with pytest.raises(ValueError, match="service= excludes certify="):
        rg.Sampler(service=url, search_space=space, certify=True)


def test_a_client_says_what_stands_before_the_service() -> None:
    """A proxy whose service is away answers with a page."""

    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(int(self.path.split("/")[2]))
            self.end_headers()
            self.wfile.write(b"<html>Bad Gateway</html>")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever).start()
        try:
            for status, patience in ((502, 0.4), (403, 60.0)):
                begun = time.monotonic()
                with pytest.raises(ServiceError) as found:
                    RemoteStudy(f"http://127.0.0.1:{proxy.server_port}", str(status), patience=patience).ask()
                assert found.value.status == status
                assert (time.monotonic() - begun > 0.4) == (status == 502)
        finally:
            proxy.shutdown()
