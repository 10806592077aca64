"""The service: the points of `minimize` for one client, nothing lost or doubled when it is killed, and strangers kept
out."""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import regretless as rg
from regretless.client import RemoteStudy, ServiceError
from regretless.doors.optuna.log import run_of
from regretless.optimizer import Optimizer
from regretless.serve.verify import verify

pytest.importorskip("fastapi")
pytest.importorskip("optuna")
pytest.importorskip("uvicorn")

from service import Service
from starlette.testclient import TestClient

from regretless.serve.folder import Folder
from regretless.serve.http import MOST_BYTES, Rules, app_of

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


def cost(lr: float, width: int, act: str) -> float:
    return abs(lr - 0.01) + width / 900 + len(act) / 10


@pytest.fixture
def web(tmp_path):
    folder = Folder(tmp_path / "studies")
    with TestClient(app_of(folder), base_url="http://127.0.0.1") as client:
        yield client
    folder.close()


def begun(web: TestClient, name: str = "m", **options) -> None:
    assert web.post("/studies", json={"name": name, "space": TABLES, "seed": 3, **options}).status_code == 200


def test_one_client_gets_the_points_of_minimize_however_often_the_service_is_killed(tmp_path) -> None:
    with Service(tmp_path / "s") as service:
        study, kills = RemoteStudy(service.url, "m", client="only"), random.Random(1)
        study.create(TABLES, seed=3, budget=16)
        stop = threading.Event()

        def murder() -> None:
            for _ in range(5):  # the first proposal after a start imports and fits a model: that takes its time
                if stop.wait(kills.uniform(0.5, 4.0)):
                    return
                service.kill()
                service.start()

        killer = threading.Thread(target=murder)
        killer.start()
        try:
            for trial in study.work(16):
                time.sleep(kills.uniform(0, 0.8))
                study.tell(trial["number"], cost(**trial["params"]))
        finally:
            stop.set()
            killer.join()
        service.kill()
    whole = rg.minimize(cost, OWN, trials=16, seed=3, progress=False)
    trials = Optimizer.load(tmp_path / "s" / "m.npz").trials
    assert [t.params for t in trials[:16]] == [t.params for t in whole.trials]
    assert [t.value for t in trials[:16]] == [t.value for t in whole.trials]
    assert len(trials) == 17  # the one that told the client that there are enough, which it gave back
    assert verify(tmp_path / "s" / "m.npz").equal == 17


def crowd_killed(folder: Path, clients: int, kills: int, *, method: str = "random", storage: str = "") -> None:
    """Clients work while the service is killed so often; then everything that was answered must be in the log."""
    asked: dict[int, dict] = {}
    told: dict[int, float] = {}
    lock, stop, errors = threading.Lock(), threading.Event(), []

    def work(url: str, k: int) -> None:
        study, draws = RemoteStudy(url, "m", client=f"client {k}"), random.Random(k)
        try:
            while not stop.is_set():
                for trial in study.ask(1 + k % 2):
                    with lock:
                        assert asked.setdefault(trial["number"], trial["params"]) == trial["params"]
                    time.sleep(draws.uniform(0, 0.05))
                    value = draws.random()
                    study.tell(trial["number"], value)
                    with lock:
                        assert told.setdefault(trial["number"], value) == value
        except BaseException as error:
            errors.append(error)

    with Service(folder, storage=storage) as service:
        RemoteStudy(service.url, "m").create(TABLES, seed=3, method=method)
        threads = [threading.Thread(target=work, args=(service.url, k)) for k in range(clients)]
        for thread in threads:
            thread.start()
        draws = random.Random(0)
        for kill in range(kills):
            known, until = len(told), time.monotonic() + 30
            while kill % 4 and len(told) < known + 5 and time.monotonic() < until:  # every fourth comes at the start
                time.sleep(0.01)
            time.sleep(draws.uniform(0.0, 0.5))
            service.kill()
            service.start()
        stop.set()
        for thread in threads:
            thread.join()
        service.kill()
    assert not errors
    optimizer = run_of(storage, "m") if storage else Optimizer.load(folder / "m.npz")
    assert len(told) > 10 * kills / 5
    for number, params in asked.items():
        assert optimizer.trials[number].params == params
    for number, value in told.items():
        assert optimizer.trials[number].value == value
    assert {t.number for t in optimizer.trials if t.value is not None} == set(told)
    assert len(set(optimizer.book.ended)) == len(optimizer.book.ended)
    units = [t.unit.tobytes() for t in optimizer.trials]
    # auto asks one setting again on purpose, to see whether it gives the same value
    assert len(units) - len(set(units)) <= (method == "auto")
    found = verify(optimizer)
    print(f"{kills} kills, {len(asked)} trials asked, {len(told)} told; {found}")
    assert (found.different, found.given) == ((), 0)


def test_nothing_is_lost_doubled_or_changed_by_kills(tmp_path) -> None:
    crowd_killed(tmp_path / "s", clients=6, kills=4)


def test_the_same_holds_for_a_study_of_optuna(tmp_path) -> None:
    crowd_killed(tmp_path / "s", clients=4, kills=3, storage=f"sqlite:///{tmp_path}/s.db")


@pytest.mark.hostile
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("method", "storage", "kills"), [("auto", "", 200), ("random", "sqlite:///s.db", 60)])
def test_nothing_is_lost_doubled_or_changed_by_many_kills(
    tmp_path, monkeypatch, method: str, storage: str, kills: int
) -> None:
    monkeypatch.chdir(tmp_path)
    crowd_killed(tmp_path / "s", clients=8, kills=kills, method=method, storage=storage)


def test_a_stand_by_takes_over_and_a_second_owner_is_refused(tmp_path) -> None:
    with Service(tmp_path / "s") as first:
        study = RemoteStudy(first.url, "m", client="c")
        study.create(TABLES, seed=3)
        (trial,) = study.ask()
        second = Service(tmp_path / "s")
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
    assert b"is in use by process" in (tmp_path / f"s-{second.port}.log").read_bytes()


def test_asks_and_tells_may_be_sent_again(web) -> None:
    begun(web)
    first = web.post("/studies/m/ask", json={"client": "a", "n": 2}).json()
    assert web.post("/studies/m/ask", json={"client": "a", "n": 2}).json() == first
    assert web.post("/studies/m/ask", json={"client": "a"}).json() == first[:1]
    told = [web.post("/studies/m/tell", json={"number": 0, "value": 2.5}) for _ in range(2)]
    assert [t.status_code for t in told] == [200, 200]
    again = web.post("/studies/m/tell", json={"number": 0, "value": 2.0})
    assert (again.status_code, again.json()["detail"][:24]) == (409, "trial 0 was told before,")
    assert [t["number"] for t in web.post("/studies/m/ask", json={"client": "a", "n": 2}).json()] == [1, 2]
    assert web.post("/studies/m/heartbeat", json={"client": "a"}).json() == [1, 2]
    for _ in range(2):
        assert web.post("/studies/m/forget", json={"number": 1}).status_code == 200
    assert web.post("/studies/m/tell", json={"number": 2, "error": "it broke"}).json()["state"] == "failed"
    best = web.get("/studies/m/best").json()
    assert (best["value"], best["failed"], best["forgotten"], best["pending"]) == (2.5, 1, 1, 0)
    assert web.get("/studies/m/state").json()["html"].count("it broke") == 1
    begun(web)  # the same again is the same study
    other = web.post("/studies", json={"name": "m", "space": TABLES, "seed": 4})
    assert other.status_code == 409
    assert "it holds seed = 3, this run asks for 4" in other.json()["detail"]


def test_what_is_known_is_what_the_file_says(web, tmp_path) -> None:
    begun(web, budget=12)
    for _ in range(12):
        (trial,) = web.post("/studies/m/ask", json={"client": "a"}).json()
        web.post("/studies/m/tell", json={"number": trial["number"], "value": cost(**trial["params"])})
    (tmp_path / "copy.npz").write_bytes(web.get("/studies/m/export").content)
    optimizer = Optimizer.load(tmp_path / "copy.npz")
    assert web.get("/studies/m/best").json()["params"] == optimizer.recommend()
    assert web.get("/studies/m/certificate").json() == optimizer.certificate.to_json()
    assert web.get("/studies/m/outlook").json()["words"] == " ".join(rg.Result.of(optimizer).said)
    assert web.get("/studies").json() == ["m"]
    state = web.get("/studies/m/state").json()
    assert (state["done"], state["planned"], state["best"]) == (12, 12, optimizer.best.value)


def test_several_objectives_have_a_front(web) -> None:
    begun(web, objectives={"loss": "minimize", "acc": "maximize"})
    for value in ({"loss": 2.0, "acc": 0.5}, [3.0, 0.75], [4.0, 0.25]):
        (trial,) = web.post("/studies/m/ask", json={"client": "a"}).json()
        told = [web.post("/studies/m/tell", json={"number": trial["number"], "value": value}) for _ in range(2)]
        assert [t.status_code for t in told] == [200, 200], told[1].json()
    assert told[0].json()["values"] == {"loss": 4.0, "acc": 0.25}
    assert sorted(member["number"] for member in web.get("/studies/m/front").json()["front"]) == [0, 1]
    assert web.get("/studies/m/best").json()["values"]["loss"] in (2.0, 3.0)
    assert web.post("/studies/m/tell", json={"number": 0, "value": [2.0, 0.6]}).status_code == 409
    (trial,) = web.post("/studies/m/ask", json={"client": "a"}).json()
    assert web.post("/studies/m/tell", json={"number": trial["number"], "value": 1.0}).status_code == 422
    assert web.get("/studies/m/state").json()["done"] == 3


def test_a_lost_client_s_trial_goes_to_the_next_one_and_its_own_word_still_counts(tmp_path) -> None:
    folder = Folder(tmp_path / "studies", lost_after=0.6)
    with TestClient(app_of(folder), base_url="http://127.0.0.1") as web:
        begun(web)
        (trial,) = web.post("/studies/m/ask", json={"client": "a"}).json()
        assert web.post("/studies/m/ask", json={"client": "b"}).json()[0]["number"] == 1
        time.sleep(1.8)
        web.post("/studies/m/heartbeat", json={"client": "b"})
        (same,) = web.post("/studies/m/ask", json={"client": "c"}).json()
        assert (same["number"], same["params"], same["client"]) == (0, trial["params"], "c")
        assert web.post("/studies/m/tell", json={"number": 0, "value": 1.0, "client": "a"}).status_code == 200
        assert web.post("/studies/m/tell", json={"number": 0, "value": 1.5, "client": "c"}).status_code == 409
    folder.close()


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/studies", {"name": "../up", "space": TABLES}, 422, "a study is called by up to 64 letters"),
        ("/studies", {"name": ".x", "space": TABLES}, 422, "a study is called"),
        ("/studies", {"name": "a" * 65, "space": TABLES}, 422, "a study is called"),
        ("/studies", {"name": "n", "space": {}}, 422, ""),
        ("/studies", {"name": "n", "space": {"x": {"type": "__import__"}}}, 422, "type must be one of"),
        ("/studies", {"name": "n", "space": {"x": {"type": "float", "low": 1, "high": 0}}}, 422, "x"),
        ("/studies", {"name": "n", "space": TABLES, "method": "os:system"}, 422, "method"),
        ("/studies", {"name": "n", "space": TABLES, "storage": "/etc/passwd"}, 422, "storage: Extra inputs"),
        ("/studies", {"name": "n", "space": {**TABLES, "where": ["__import__('os').system('ls')"]}}, 422, ""),
        (
            "/studies",
            {"name": "n", "space": {f"x{i}": TABLES["lr"] for i in range(2001)}},
            422,
            "at most 2000 parameters",
        ),
        ("/studies/none/ask", {}, 404, "there is no study 'none'"),
        ("/studies/%2e%2e%2fm/ask", {}, 404, ""),
        ("/studies/m/ask", {"n": 10**9}, 422, "n: Input should be less than or equal to 1000"),
        ("/studies/m/tell", {"number": 99, "value": 1}, 422, "there is no trial 99"),
        ("/studies/m/tell", {"number": 0, "value": "x"}, 422, "value"),
        ("/studies/m/tell", {"number": 0, "value": 1, "var": -1}, 422, "var"),
        ("/studies/m/tell", {"number": 0, "value": 1, "constraints": [1]}, 422, "this run has 0 constraints"),
        ("/studies/m/tell", [], 422, ""),
        ("/studies/m/tell", {"number": False, "value": 1.0}, 422, "number: Input should be a valid integer"),
        ("/studies/m/tell", {"number": 0, "value": True}, 422, "value"),
        ("/studies/m/forget", {"number": False}, 422, "number"),
        ("/studies/m/forget", {"number": "0"}, 422, "number"),
        ("/studies", {"name": "n", "space": {**TABLES, "where": ["lr < 1"] * 1001}}, 422, "at most 1000 rules"),
        ("/studies", {"name": "n", "space": {"\ud800": TABLES["lr"]}}, 422, "surrogates not allowed"),
        ("/studies", {"name": "n", "space": {"x": {"type": "choice", "labels": ["a", "\udfff"]}}}, 422, "surrogates"),
        ("/studies/m/front", None, 405, ""),
    ],
)
def test_wrong_calls_get_a_sentence_and_change_nothing(web, tmp_path, path, body, status: int, words: str) -> None:
    begun(web)
    web.post("/studies/m/ask", json={})
    before = web.get("/studies/m/export").content
    said = web.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert said.status_code == status
    assert words in said.json()["detail"]
    assert str(tmp_path) not in said.text
    assert "Traceback" not in said.text
    assert web.get("/studies/m/export").content == before
    assert sorted(p.name for p in (tmp_path / "studies").iterdir() if not p.name.startswith(".")) == ["m.npz"]


def test_refused_names_leave_no_files(web, tmp_path) -> None:
    impossible = {"x": {"type": "float", "low": 0.5, "high": 1.5}, "where": ["x > 2"]}
    for k in range(3):
        assert web.post("/studies", json={"name": f"n{k}", "space": impossible}).status_code == 422
    assert [path.name for path in (tmp_path / "studies").iterdir()] == [".lock"]


def test_too_much_is_refused(tmp_path) -> None:
    folder = Folder(tmp_path / "studies")
    with TestClient(app_of(folder, Rules(rate=5.0)), base_url="http://127.0.0.1") as web:
        big = web.post("/studies", content=b" " * (MOST_BYTES + 1), headers={"Content-Type": "application/json"})
        assert big.status_code == 413
        chunked = web.post("/studies", content=iter([b"{}"]))
        assert chunked.status_code == 413
        assert [web.get("/studies").status_code for _ in range(8)].count(429) >= 3
        time.sleep(1.1)
        assert web.get("/studies").status_code == 200
    folder.close()


def test_trials_under_way_are_limited_and_a_client_still_gets_its_own(web) -> None:
    begun(web, method="random")
    for k in range(10):
        assert web.post("/studies/m/ask", json={"client": f"c{k}", "n": 1000}).status_code == 200
    said = web.post("/studies/m/ask", json={"client": "more"})
    assert (said.status_code, said.json()["detail"][:28]) == (422, "10000 trials are under way: ")
    assert len(web.post("/studies/m/ask", json={"client": "c3", "n": 1000}).json()) == 1000
    assert web.post("/studies/m/forget", json={"number": 3}).status_code == 200
    assert web.post("/studies/m/ask", json={"client": "more"}).status_code == 200


def test_a_header_does_not_change_whose_requests_are_counted(tmp_path) -> None:
    with Service(tmp_path / "s", "--rate", "5") as service:
        time.sleep(1.1)
        codes = []
        for k in range(12):
            request = urllib.request.Request(f"{service.url}/studies", headers={"X-Forwarded-For": f"10.0.0.{k}"})
            try:
                codes.append(urllib.request.urlopen(request).status)
            except urllib.error.HTTPError as error:
                codes.append(error.code)
        assert 429 in codes


def test_all_refusals_are_described(web) -> None:
    begun(web)
    paths = web.get("/openapi.json").json()["paths"]
    for calls in paths.values():
        for call in calls.values():
            assert {"401", "404", "409", "413", "422", "429", "503"} <= set(call["responses"])


def test_tokens_open_all_studies_or_one(tmp_path) -> None:
    folder = Folder(tmp_path / "studies")
    rules = Rules({"all-of-them-0123456789": "", "only-m-0123456789abcdef": "m"}, hosts=("127.0.0.1",))
    with TestClient(app_of(folder, rules), base_url="http://127.0.0.1") as web:
        every, one = ({"Authorization": f"Bearer {token}"} for token in rules.tokens)
        for name in ("m", "n"):
            assert web.post("/studies", json={"name": name, "space": TABLES}, headers=every).status_code == 200
        assert web.post("/studies/m/ask", json={}, headers=one).status_code == 200
        for path, headers in (("/studies/n/ask", one), ("/studies/m/ask", {}), ("/studies", one), ("/docs", {})):
            assert web.post(path, json={}, headers=headers).status_code == 401
        for wrong in ("Bearer x", "Bearer", "Basic all-of-them-0123456789", "Bearer ünï"):
            assert web.get("/studies", headers={"Authorization": wrong.encode()}).status_code == 401
        assert web.get("/studies", headers={**every, "Host": "evil.example"}).status_code == 400
    folder.close()


def test_a_disk_that_fails_answers_nothing_that_it_does_not_hold(tmp_path, monkeypatch) -> None:
    folder = Folder(tmp_path / "studies")
    with TestClient(app_of(folder), base_url="http://127.0.0.1") as web:
        begun(web)
        (trial,) = web.post("/studies/m/ask", json={"client": "a"}).json()
        from regretless.files import checkpoint

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device", "/secret/place")

        monkeypatch.setattr(checkpoint, "append", full)
        for body, path in (({"number": 0, "value": 1.0}, "tell"), ({"client": "b"}, "ask")):
            said = web.post(f"/studies/m/{path}", json=body)
            assert (said.status_code, "secret" in said.text) == (503, False)
        monkeypatch.undo()
        assert web.post("/studies/m/ask", json={"client": "a"}).json() == [trial]
        assert web.post("/studies/m/tell", json={"number": 0, "value": 2.0}).json()["value"] == 2.0
    folder.close()


def test_what_breaks_inside_is_no_stranger_s_business(tmp_path, monkeypatch) -> None:
    folder = Folder(tmp_path / "studies")
    app = app_of(folder)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as web:
        begun(web)
        monkeypatch.setattr(Optimizer, "recommend", lambda self: 1 / 0)
        web.post("/studies/m/ask", json={})
        web.post("/studies/m/tell", json={"number": 0, "value": 2.0})
        said = web.get("/studies/m/best")
        assert said.status_code == 500
        assert said.json() == {"detail": "the service failed; its log says why"}
    folder.close()


def test_calls_are_described_and_a_client_says_what_was_wrong(tmp_path) -> None:
    with Service(tmp_path / "s") as service:
        with urllib.request.urlopen(f"{service.url}/openapi.json") as answer:
            paths = json.load(answer)["paths"]
        assert {"/studies", "/studies/{name}/ask", "/studies/{name}/tell", "/studies/{name}/best"} <= set(paths)
        with pytest.raises(ServiceError, match="there is no study 'none'"):
            RemoteStudy(service.url, "none").ask()
        request = urllib.request.Request(f"{service.url}/studies", b'{"name": "x"}', {"Content-Type": "text/plain"})
        with pytest.raises(urllib.error.HTTPError, match="422"):  # a form of another page
            urllib.request.urlopen(request)
