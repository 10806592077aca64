"""A run in a file, asked and told from outside: by shell commands, on sheets, by several processes at once."""

import csv
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import regretless as rg
from regretless.cli import main
from regretless.optimizer import Optimizer
from regretless.serve.lease import Lease
from regretless.serve.logs import FileLog
from regretless.serve.study import Study, begin
from regretless.serve.verify import verify

SPACE = ("--float", "lr:3e-5:0.7:log", "--int", "value:17:900:log", "--choice", 'act=re lu,"a,b",$(x)')
OWN = {
    "lr": rg.Float(3e-5, 0.7, log=True),
    "value": rg.Int(17, 900, log=True),
    "act": rg.Choice(["re lu", "a,b", "$(x)"]),
}


def cost(lr: float, value: int, act: str) -> float:
    return abs(lr - 0.01) + value / 900 + len(act) / 10


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def call(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.output


def test_a_shell_gets_the_points_of_minimize() -> None:
    call("ask", "run.npz", *SPACE, "--seed", "3", "--budget", "10")
    call("tell", "run.npz", "0", cost(**Optimizer.load("run.npz").trials[0].params))
    for _ in range(9):
        trial = json.loads(call("ask", "run.npz", "--json"))
        said = json.loads(call("tell", "run.npz", trial["number"], cost(**trial["params"]), "--json"))
        assert said["value"] == cost(**trial["params"])
    whole = rg.minimize(cost, OWN, trials=10, seed=3, progress=False)
    assert [t.params for t in Optimizer.load("run.npz").trials] == [t.params for t in whole.trials]
    found = json.loads(call("best", "run.npz", "--json"))
    assert (found["params"], found["value"]) == (whole.params, whole.value)
    assert "10 of 10 proposals are equal" in call("verify", "run.npz")
    assert json.loads(call("outlook", "run.npz", "--json"))["words"] == " ".join(whole.said)


def test_a_sheet_goes_to_the_laboratory_and_back() -> None:
    sheet = call("ask", "lab.npz", *SPACE, "--seed", "1", "-n", "6", "--csv")
    rows = list(csv.DictReader(sheet.splitlines()))
    assert [int(row["number"]) for row in rows] == list(range(6))
    assert list(rows[0]) == ["number", "lr", "params_value", "act", "value", "var", "error"]
    for row, value in zip(rows, ["0.5", "", "-2e-3", "", "1", "7"], strict=True):
        row["value"] = value
    rows[3]["error"] = "it boiled over"
    rows[4]["lr"] = f"{float(rows[4]['lr']):.17e}"  # a spreadsheet writes numbers its own way
    write(rows)
    assert call("tell", "lab.npz", "--csv", "sheet.csv").count("\n") == 5
    trials = Optimizer.load("lab.npz").trials
    assert [t.value for t in trials] == [0.5, None, -2e-3, None, 1.0, 7.0]
    assert [t.state for t in trials][1:4] == ["pending", "done", "failed"]
    rows[1]["value"] = "3"
    write(rows)
    assert call("tell", "lab.npz", "--csv", "sheet.csv") == "1: value 3.0\n"  # the others are no news
    rows[1]["value"] = "4"
    write(rows)
    assert "line 3" not in call("tell", "lab.npz", "--csv", "sheet.csv", code=2)


def test_sheets_of_several_objectives_with_limits_and_costs() -> None:
    begun = ("--objective", "loss", "--objective", "acc:max", "--constraints", "1", "--cost", "told", "-n", "3")
    rows = list(csv.DictReader(call("ask", "lab.npz", "--float", "x:1:9", "--seed", "1", *begun, "--csv").splitlines()))
    assert list(rows[0]) == ["number", "x", "loss", "acc", "constraint_0", "cost", "error"]
    rows[0] |= {"loss": "2", "acc": "0.5", "constraint_0": "-1", "cost": "3"}
    rows[1] |= {"error": "it broke", "cost": "1"}
    write(rows)
    call("tell", "lab.npz", "--csv", "sheet.csv")
    call("tell", "lab.npz", "2", "3", "0.75", "--constraint", "-2", "--cost", "4")
    trials = Optimizer.load("lab.npz").trials
    assert [t.values for t in trials] == [(2.0, 0.5), (), (3.0, 0.75)]
    assert (trials[0].constraints, trials[0].cost, trials[1].error) == ((-1.0,), 3.0, "it broke")
    found = json.loads(call("best", "lab.npz", "--json"))
    assert sorted(member["number"] for member in found["front"]) == [0, 2]
    assert set(found["values"]) == {"loss", "acc"}
    assert json.loads(call("outlook", "lab.npz", "--json"))["words"]
    rows[2] |= {"loss": "3"}
    write(rows)
    assert "line 4: acc is missing" in call("tell", "lab.npz", "--csv", "sheet.csv", code=2)


@pytest.mark.parametrize(
    ("column", "text", "words"),
    [
        ("act", "other", "act is 'other' and was"),
        ("number", "77", "there is no trial 77"),
        ("value", "1,5", "value is '1,5', which is no number"),
    ],
)
def test_a_wrong_row_tells_nothing_at_all(column: str, text: str, words: str) -> None:
    rows = list(csv.DictReader(call("ask", "lab.npz", *SPACE, "--seed", "1", "-n", "3", "--csv").splitlines()))
    for row in rows:
        row["value"] = "1"
    rows[2][column] = text
    write(rows)
    said = call("tell", "lab.npz", "--csv", "sheet.csv", code=2)
    assert "sheet.csv, line 4" in said
    assert words in said
    assert [t.state for t in Optimizer.load("lab.npz").trials] == ["pending"] * 3


def test_a_sheet_that_a_spreadsheet_saved_with_semicolons_and_fewer_digits() -> None:
    parameters = ("--float", "lr:3e-5:0.7:log", "--float", "heat:-20:-10", "--choice", "act=a,b")
    sheet = call("ask", "lab.npz", *parameters, "--seed", "1", "-n", "3", "--csv")
    rows = list(csv.reader(sheet.splitlines()))
    for i, row in enumerate(rows[1:]):
        row[1], row[2] = f"{float(row[1]):.9g}".replace(".", ","), f"{float(row[2]):.6g}".replace(".", ",")
        row[4:6] = [f"-1,{i}5", "2,5e-1"]
    Path("sheet.csv").write_text("\ufeff" + "\r\n".join(";".join(row) for row in rows), encoding="utf-8")
    call("tell", "lab.npz", "--csv", "sheet.csv")
    trials = Optimizer.load("lab.npz").trials
    assert [(t.value, t.var) for t in trials] == [(-1.05, 0.25), (-1.15, 0.25), (-1.25, 0.25)]


def test_a_setting_that_was_changed_on_the_sheet_is_refused() -> None:
    rows = list(csv.DictReader(call("ask", "lab.npz", *SPACE, "--seed", "1", "-n", "2", "--csv").splitlines()))
    rows[1] |= {"lr": f"{float(rows[1]['lr']) * 1.001:.9g}", "value": "1"}
    write(rows)
    assert "lr is" in call("tell", "lab.npz", "--csv", "sheet.csv", code=2)


def test_a_decimal_comma_between_commas_is_refused() -> None:
    sheet = call("ask", "lab.npz", "--float", "x:1:9", "--seed", "1", "--csv")
    Path("sheet.csv").write_text(sheet.replace(",,,", ",1,035,,"))
    assert "more cells than columns" in call("tell", "lab.npz", "--csv", "sheet.csv", code=2)


def write(rows: list[dict[str, str]]) -> None:
    with open("sheet.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_replicates_edits_and_withdrawals() -> None:
    call("ask", "run.npz", *SPACE, "--seed", "3", "-n", "4")
    for number, value in enumerate([1.0, 0.3, 2.0, 4.0]):
        call("tell", "run.npz", number, value)
    call("ask", "run.npz")
    call("tell", "run.npz", "0", "1.25", "--again")
    call("tell", "run.npz", "1", "-0.5", "--correct")
    call("tell", "run.npz", "2", "--withdraw")
    call("tell", "run.npz", "4", "--withdraw")
    call("tell", "run.npz", "--params", "lr=0.01", "--params", "value=20", "--params", "act=a,b", "0.25")
    optimizer = Optimizer.load("run.npz")
    assert [t.value for t in optimizer.trials] == [1.0, -0.5, None, 4.0, None, 1.25, 0.25]
    assert optimizer.trials[5].params == optimizer.trials[0].params
    assert optimizer.trials[6].params == {"lr": 0.01, "value": 20, "act": "a,b"}
    assert (len(optimizer.history), len(optimizer.history.failed), len(optimizer.history.pending)) == (5, 0, 0)
    same = Optimizer(OWN, seed=3)
    for trial in optimizer.trials:
        same.adopt(trial.params)
    for number in optimizer.book.ended:
        if optimizer.trials[number].value is None:
            same.forget(number)
        else:
            same.tell(number, optimizer.trials[number].value)
    assert json.loads(call("ask", "run.npz", "--json"))["params"] == same.ask().params
    found = verify("run.npz")
    assert (found.different, found.equal) == ((), 5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tell", "run.npz", "0"), "tell takes the number of a setting and its value"),
        (("tell", "run.npz", "0", "1", "--failed"), "tell takes the number"),
        (("tell", "run.npz", "9", "1"), "there is no trial 9"),
        (("tell", "run.npz", "1", "3"), "(value 2.0): --correct replaces it, --again adds a second value"),
        (("tell", "run.npz", "0", "3", "--again", "--correct"), "exclude each other"),
        (("tell", "run.npz", "--params", "no=1", "3"), "write NAME=VALUE with one of the parameters lr, value, act"),
        (("ask", "none.npz"), "there is no run none.npz"),
        (("ask", "run.npz", "--int", "n:0:3"), "belongs to another run"),
    ],
)
def test_slips_are_one_sentence_and_change_nothing(arguments: tuple, words: str) -> None:
    call("ask", "run.npz", *SPACE, "--seed", "3", "-n", "2")
    call("tell", "run.npz", "1", "2")
    before = Path("run.npz").read_bytes()
    said = call(*arguments, code=2)
    assert words in said
    assert said.count("\n") == 1
    assert Path("run.npz").read_bytes() == before


def test_a_client_is_given_its_open_setting_again_and_nobody_else_is() -> None:
    first = json.loads(call("ask", "run.npz", *SPACE, "--seed", "3", "--client", "a", "--json"))
    assert json.loads(call("ask", "run.npz", "--client", "a", "--json")) == first
    other = json.loads(call("ask", "run.npz", "--client", "b", "--json"))
    nobody = [json.loads(call("ask", "run.npz", "--json"))["number"] for _ in range(2)]
    assert [first["number"], other["number"], *nobody] == [0, 1, 2, 3]
    call("tell", "run.npz", "0", "1")
    assert json.loads(call("ask", "run.npz", "--client", "a", "--json"))["number"] == 4


def test_shells_at_once_share_a_file_without_losing_anything(tmp_path) -> None:
    call("ask", "run.npz", "--float", "x:0:1", "--seed", "3", "--method", "random")
    number = f"{sys.executable} -c 'import json, sys; print(json.load(sys.stdin)[\"number\"])'"
    line = f"n=$({sys.executable} -m regretless ask run.npz --json | {number}); "
    line += f"{sys.executable} -m regretless tell run.npz $n $n"
    shells = [subprocess.Popen(["sh", "-c", line], stdout=subprocess.DEVNULL) for _ in range(4)]
    assert [shell.wait(120) for shell in shells] == [0] * 4
    trials = Optimizer.load("run.npz").trials
    assert [t.value for t in trials] == [None, 1.0, 2.0, 3.0, 4.0]
    assert verify("run.npz").equal == 5


def test_a_file_has_one_owner_and_the_next_takes_over_when_it_dies(tmp_path) -> None:
    Optimizer(OWN, seed=1).save("run.npz")
    hold = "from regretless.serve.lease import Lease; import time; own = Lease('run.npz'); "
    hold += "print(1, flush=True); time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE)
    assert other.stdout is not None
    other.stdout.readline()
    with pytest.raises(BlockingIOError, match=f"run.npz is in use by process {other.pid}"):
        FileLog("run.npz", seconds=0.2)
    other.kill()
    other.wait()
    with Study(FileLog("run.npz", seconds=5)):
        pass
    Lease("run.npz").close()


def test_a_lock_of_windows_is_one_byte_of_the_file_whatever_it_holds(tmp_path, monkeypatch) -> None:
    """A stand-in for Windows, where `locking` locks from the place at which a file is."""
    held: list[tuple[int, int]] = []

    def locking(descriptor: int, mode: int, count: int) -> None:
        place = os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR)
        if place in held:
            raise PermissionError
        held.append(place)

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    with Lease(tmp_path / "run.npz"), pytest.raises(BlockingIOError, match=f"in use by process {os.getpid()}"):
        Lease(tmp_path / "run.npz")


def test_a_failure_that_is_told_keeps_what_it_cost_and_took() -> None:
    fresh = Optimizer(OWN, "random", seed=0)
    with Study("run.npz", fresh) as study:
        (trial,) = study.ask(client="")
        study.tell(trial.number, None, error="no", cost=2.0, seconds=7.0)
        study.commit()
    (trial,) = Optimizer.load("run.npz").trials
    assert (trial.state, trial.error, trial.cost, trial.seconds) == ("failed", "no", 2.0, 7.0)


def test_plain_values_describe_a_run_and_nothing_else() -> None:
    made = begin(
        {"x": {"type": "float", "low": 1, "high": 9}, "y": {"type": "float", "low": 1, "high": 9}, "where": ["x < y"]}
    )
    assert list(made.space.names) == ["x", "y"]
    assert made.ask().params["x"] < 9
    for space in (
        {"x": {"type": "os.system"}},
        {"x": [1, 2]},
        {"x": {"type": "float", "low": 0, "high": 1, "prior": "f"}},
    ):
        with pytest.raises((ValueError, TypeError)):
            begin(space)
    with pytest.raises(ValueError, match="method"):
        begin({"x": {"type": "float", "low": 1, "high": 9}}, method="os:system")


def test_a_lock_that_is_given_back_leaves_nothing_and_one_owner_at_a_time(tmp_path: Path) -> None:
    owners: list[int] = []

    def own(k: int) -> None:
        for _ in range(40):
            with Lease(tmp_path / "run", 20.0):
                owners.append(k)
                assert owners.count(k) == 1
                time.sleep(0.0002)
                assert owners == [k]
                owners.clear()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(own, range(4)))
    assert list(tmp_path.iterdir()) == []
