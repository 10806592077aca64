"""A service whose studies are Optuna studies: the same points, nothing lost by kills, one owner over all machines, and
Optuna reads and continues what is there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("optuna")
pytest.importorskip("fastapi")

import optuna
from click.testing import CliRunner
from service import Service
from starlette.testclient import TestClient

import regretless as rg
from regretless.cli import main
from regretless.client import RemoteStudy
from regretless.doors.optuna import log as studies
from regretless.doors.optuna.export import export_study
from regretless.doors.optuna.log import LEASE, Storage, read_study
from regretless.doors.optuna.runner import tune_in_storage
from regretless.serve.folder import Folder
from regretless.serve.http import app_of
from regretless.serve.study import Study, begin
from regretless.serve.verify import verify

TABLES = {
    "lr": {"type": "float", "low": 3e-5, "high": 0.7, "log": True},
    "width": {"type": "int", "low": 17, "high": 900, "log": True},
    "act": {"type": "choice", "labels": ["relu", 'a "b" $(c)']},
}
OWN = {
    "lr": rg.Float(3e-5, 0.7, log=True),
    "width": rg.Int(17, 900, log=True),
    "act": rg.Choice(["relu", 'a "b" $(c)']),
}
optuna.logging.set_verbosity(optuna.logging.ERROR)
KINDS = ("sqlite", "journal")


def cost(lr: float, width: int, act: str) -> float:
    return abs(lr - 0.01) + width / 900 + len(act) / 10


@pytest.fixture
def url(tmp_path: Path) -> Callable[[str], str]:
    """kind -> the URL of a storage."""
    return lambda kind: {"sqlite": f"sqlite:///{tmp_path}/s.db", "journal": f"journal:{tmp_path}/s.log"}[kind]


def loaded(url: str, name: str = "m") -> optuna.Study:
    return optuna.load_study(study_name=name, storage=studies.open_storage(url))


@pytest.mark.parametrize("kind", KINDS)
def test_the_study_has_the_points_of_minimize_and_is_an_optuna_study(url, tmp_path, kind: str) -> None:
    folder = Folder(url(kind))
    with TestClient(app_of(folder), base_url="http://127.0.0.1") as web:
        assert web.post("/studies", json={"name": "m", "space": TABLES, "seed": 3, "budget": 9}).status_code == 200
        for k in range(9):
            (trial,) = web.post("/studies/m/ask", json={"client": "a"}).json()
            body = {"number": k, "value": cost(**trial["params"])} if k != 4 else {"number": k, "error": "it broke"}
            assert web.post("/studies/m/tell", json=body).status_code == 200
        assert web.get("/studies").json() == ["m"]
        (tmp_path / "copy.npz").write_bytes(web.get("/studies/m/export").content)
        assert web.get(f"/studies/{LEASE}/state").status_code == 404
    folder.close()

    def failing(**params) -> float:
        failing.calls += 1
        if failing.calls == 5:
            raise ValueError("it broke")
        return cost(**params)

    failing.calls = 0
    with pytest.warns(RuntimeWarning, match="trial 4 failed"):
        whole = rg.minimize(failing, OWN, trials=9, seed=3, progress=False)
    study = loaded(url(kind))
    assert [t.params for t in study.trials] == [t.params for t in whole.trials]
    assert [t.value for t in study.trials] == [t.value for t in whole.trials]
    assert [t.state.name for t in study.trials] == ["COMPLETE"] * 4 + ["FAIL"] + ["COMPLETE"] * 4
    assert study.best_value == whole.best.value
    assert study.trials[4].user_attrs == {"regretless:error": "it broke"}
    assert (verify(read_study(study)).equal, verify(tmp_path / "copy.npz").equal) == (9, 9)
    assert {path.name for path in export_study(url(kind), "m", tmp_path / "out")} >= {"trials.csv"}
    assert json.loads((tmp_path / "out" / "study.json").read_text())["trials"][4]["state"] == "FAIL"


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_that_breaks_off_anywhere_is_read_as_a_run_that_goes_on(url, kind: str, monkeypatch) -> None:
    """Every write to the storage fails in turn; the run that is read then is the one that was written, up to there."""
    monkeypatch.setattr(studies, "BEAT_SECONDS", 1000.0)

    class Killed(BaseException):
        pass

    fresh = begin(TABLES, seed=3, method="random", constraints=1)
    shelf, left = Storage(url(kind)), 0
    writes = ("create_new_trial", "set_trial_system_attr", "set_trial_user_attr", "set_trial_state_values")
    for name in writes:
        original = getattr(shelf.storage, name)

        def killing(*args, _call=original, **options):
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return _call(*args, **options)

        monkeypatch.setattr(shelf.storage, name, killing)
    told: dict[int, float] = {}
    Study(shelf.log("m"), fresh)
    seen: list = []
    for kill in [*range(1, 12), 0]:
        run = Study(shelf.log("m"))
        assert [t.params for t in run.optimizer.trials[: len(seen)]] == seen
        assert {n: run.optimizer.trials[n].value for n in told} == told
        left = kill
        try:
            for _ in range(3):
                (trial,) = run.ask(client="c")
                run.commit()
                value = trial.number / 7
                run.tell(trial.number, value, var=0.25, constraints=[-1.0])
                run.commit()
                told[trial.number] = value
            run.ask(2)
            run.commit()
        except Killed:
            pass
        left = 0
        seen = [t.params for t in read_study(loaded(url(kind))).trials]
    again = Study(shelf.log("m")).optimizer
    assert verify(again).equal == len(again.trials) > 10
    assert verify(again).different == ()
    finished = [t for t in loaded(url(kind)).trials if t.state.name == "COMPLETE"]
    assert {t.number for t in again.trials if t.value is not None} == {t.number for t in finished}
    shelf.close()


@pytest.mark.parametrize("kind", KINDS)
def test_others_may_add_and_end_trials_between_two_services(url, kind: str) -> None:
    with_space = optuna.create_study(storage=studies.open_storage(url(kind)), study_name="m")
    with_space.optimize(lambda t: t.suggest_float("x", 2, 9, log=True), n_trials=3)
    tables = {"x": {"type": "float", "low": 2, "high": 9, "log": True}}

    def served(asks: int) -> list:
        folder = Folder(url(kind))
        try:
            owner = folder.create("m", begin(tables, seed=1), seeded=True)
            for _ in range(asks):
                (trial,) = owner.ask("a").result()
                owner.tell(trial["number"], trial["params"]["x"]).result()
            owner.ask("b").result()
            return [t.value for t in owner.study.optimizer.trials]
        finally:
            folder.close()

    values = served(2)
    assert (len(values), sum(v is not None for v in values)) == (6, 5)
    study = loaded(url(kind))
    study.tell(5, 7.5)  # somebody ends the trial of client b
    study.sampler = rg.Sampler(seed=1)
    study.optimize(lambda t: t.suggest_float("x", 2, 9, log=True), n_trials=2)
    assert served(2)[:8] == [t.value for t in study.trials[:8]]
    found = verify(read_study(loaded(url(kind))))
    assert (found.different, found.equal) == ((), 6)
    assert found.given == 5
    with_space.optimize(lambda t: t.suggest_float("y", 0, 1), n_trials=1)
    with pytest.raises(ValueError, match="trial 11 of the study is of another space"):
        served(0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stand_by_takes_over_and_a_second_owner_is_refused(url, tmp_path, kind: str) -> None:
    with Service(tmp_path / "a", storage=url(kind)) as first:
        study = RemoteStudy(first.url, "m", client="c")
        study.create(TABLES, seed=3)
        (trial,) = study.ask()
        second = Service(tmp_path / "b", storage=url(kind))
        second.start(wait=False)
        assert second.process.wait(60) == 2
        second.start("--standby", wait=False)
        time.sleep(1.0)
        assert not second.answers()
        first.kill()
        until = time.monotonic() + 60
        while not second.answers() and time.monotonic() < until:
            time.sleep(0.05)
        assert RemoteStudy(second.url, "m", client="c").ask() == [trial]
        second.kill()
        second.log.close()
    assert b"is in use by process" in (tmp_path / f"b-{second.port}.log").read_bytes()


def test_an_owner_that_was_held_up_writes_nothing_once_another_has_taken_over(url, monkeypatch) -> None:
    monkeypatch.setattr(studies, "BEAT_SECONDS", 1000.0)
    monkeypatch.setattr(studies, "LEASE_SECONDS", 0.2)
    monkeypatch.setattr(studies, "is_dead", lambda signed: None)
    first = Storage(url("sqlite"))
    run = Study(first.log("m"), begin(TABLES, seed=3))
    monkeypatch.setattr(studies, "BEAT_SECONDS", 0.2)
    second = Storage(url("sqlite"), seconds=30.0)
    run.ask(client="late")
    with pytest.raises(BlockingIOError, match="another process has taken"):
        run.commit()
    taken = Study(second.log("m"))
    assert taken.optimizer.trials == []
    taken.ask(client="next")
    taken.commit()
    second.close()


def call(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.output


@pytest.mark.parametrize("kind", KINDS)
def test_shell_commands_work_on_a_storage(url, kind: str) -> None:
    there = ("--storage", url(kind))
    spaces = ("--float", "lr:3e-5:0.7:log", "--int", "width:17:900:log", "--choice", "act=relu,tanh")
    call("ask", "m", *spaces, "--seed", 3, "--budget", 4, *there)
    call("tell", "m", 0, 0.5, *there)
    for value in (0.25, 0.75, 0.125):
        trial = json.loads(call("ask", "m", "--json", *there))
        call("tell", "m", trial["number"], value, *there)
    call("tell", "m", 2, 0.875, "--again", *there)
    space = {**OWN, "act": rg.Choice(["relu", "tanh"])}
    values = iter([0.5, 0.25, 0.75, 0.125])
    same = rg.minimize(lambda **p: next(values), space, trials=4, seed=3, progress=False)
    found = json.loads(call("best", "m", "--json", *there))
    assert found["best"]["params"] == same.best.params
    assert [t.params for t in loaded(url(kind)).trials[:4]] == [t.params for t in same.trials]
    assert "4 of 4 proposals are equal bit for bit; 1 setting" in call("verify", "m", *there)
    assert json.loads(call("outlook", "m", "--json", *there))["value"] is not None
    assert "an Optuna study keeps what was told" in call("tell", "m", 2, 1, "--correct", *there, code=2)
    assert call("watch", "m", "--once", *there).startswith("m: 5 of 4 ended, 0 under way, best 0.125")
    assert "there is no run n" in call("ask", "n", *there, code=2)


@pytest.mark.parametrize("kind", KINDS)
def test_studies_of_tune_are_verified_and_a_changed_value_is_noticed(url, kind: str) -> None:
    space = {"lr": rg.Float(3e-5, 0.7, log=True), "z": rg.Int(17, 900, log=True), "a": rg.Choice(["relu", 'b "c"'])}
    for trials in (7, 12):
        tune_in_storage(
            lambda lr, z, a: abs(lr - 0.01) + z / 900 + len(a), space, storage=studies.open_storage(url(kind)),
            study="t", trials=trials, seed=5, progress=False, method="gp-ei",
        )  # fmt: skip
    assert "12 of 12 proposals are equal" in call("verify", "t", "--storage", url(kind))
    study = loaded(url(kind), "t")
    other = optuna.create_study(storage=studies.open_storage(url(kind)), study_name="u")
    for name, value in study._storage.get_study_system_attrs(study._study_id).items():
        other._storage.set_study_system_attr(other._study_id, name, value)
    for trial in study.trials:
        trial.values = [trial.value - 3.0] if trial.number == 4 else trial.values
        other.add_trial(trial)
    assert "different are those of the trials" in call("verify", "u", "--storage", url(kind), code=1)
    assert call("watch", "t", "--once", "--storage", url(kind)).startswith("t: 12 of 7 ended")
    assert json.loads(call("best", "t", "--storage", url(kind), "--json"))["value"] == study.best_value
