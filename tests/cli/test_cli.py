"""The command: what it prints, one-line errors with exit code 2, and files whose names belong to other modules."""

import importlib.metadata
import os
import pickle
import signal
import subprocess
import sys
import time
import types

import pytest
from click.testing import CliRunner

from regretless.basics.extras import masked
from regretless.classics import CLASSICS
from regretless.cli import extensions, load_function, main
from regretless.methods import METHODS

OBJECTIVE = """
def cost(a, n):
    return (a - 2.2) ** 2 + 0.1 * (n - 4) ** 2

def broken(a, n):
    raise ValueError("the objective is broken")

def divided(a, n):
    return a / 0

def nothing(a, n):
    pass

constant = 3
"""
SPACE = '[a]\ntype = "float"\nlow = 1\nhigh = 4\n[n]\ntype = "int"\nlow = 1\nhigh = 9\n'


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(OBJECTIVE)
    (tmp_path / "space.toml").write_text(SPACE)
    (tmp_path / "syntax.py").write_text("def f(a n): pass")
    (tmp_path / "imports.py").write_text("import no_such_module")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str):
    return CliRunner().invoke(main, arguments)


def test_the_command_is_a_module_too() -> None:
    said = subprocess.run([sys.executable, "-m", "regretless", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("regretless, version")


def test_list_names_everything_and_the_defaults_first() -> None:
    result = call("list")
    assert result.exit_code == 0
    for name in (*METHODS, *CLASSICS, "optuna-tpe", "branin", "hartmann6"):
        assert result.output.count(f"\n  {name} ") == 1
    lines = result.output.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["auto", "gp-ucb", "gp-ei"]
    assert lines[0] == "methods, and when to use them"
    assert {line.split()[0] for line in lines[1 : lines.index("classics, and what the papers print")]} >= {
        name for name in METHODS if not name.endswith(("-printed", "-authors"))
    }


@pytest.fixture
def without_bench(monkeypatch):
    extensions.cache_clear()
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
    yield
    extensions.cache_clear()


@pytest.mark.parametrize("name", ["bench", "reproduce", "data"])
def test_commands_of_the_bench_say_what_to_install_where_it_is_missing(name, without_bench) -> None:
    result = call(name, "--help")
    assert result.exit_code == 2
    assert result.output.startswith(f"regretless: `regretless {name}` belongs to the distribution regretless-bench")
    assert result.output.endswith("pip install ./bench\n")
    assert name not in call("--help").output.split("Commands:")[1].split()
    assert "peers" not in call("list").output
    assert "No such command 'benhc'" in call("benhc").output


@pytest.mark.parametrize(
    ("path", "words"), [("page.pdf", "report writes an HTML page"), ("train.py/x", "cannot write")]
)
def test_a_report_that_cannot_be_written_costs_no_evaluation(files, path: str, words: str) -> None:
    (files / "train.py").write_text("def cost(a, n):\n    open('called', 'w')\n    return a\n")
    said = call("tune", "train.py:cost", "--space", "space.toml", "--trials", "2", "--report", path)
    assert (said.exit_code, (files / "called").exists()) == (2, False)
    assert words in said.output


def test_tune_stops_by_what_is_asked_and_says_what_is_proven(files) -> None:
    tune = ("tune", "train.py:cost", "--space", "space.toml", "--trials", "60", "--method", "random", "--seed", "1")
    good = call(*tune, "--floor", "0", "--exact", "--until-gap", "0.4")
    assert "because no value lies below floor=0" in good.output
    share = call(*tune, "--until-share", "0.4", "--until-stalled", "50")
    assert "stopped after 40 evaluations: With probability 0.95 at most 38 % of the search space" in share.output
    assert "the target 1.5 was reached" in call(*tune, "--until-value", "1.5").output
    assert "improved nothing" in call(*tune, "--until-stalled", "3").output
    assert "gain 4 or more with a chance of only" in call(*tune, "--until-gain", "4", "--chance", "0.8").output
    noise = call(*tune, "--exact", "--until-noise", "--in-trials", "5")
    assert "the values show no measurement error yet" in noise.output
    assert "no other number of them from 5 on pays" in call(*tune, "--per-unit", "0.1", "--per-trial", "5").output
    for words in (["--per-unit", "3"], ["--per-hour", "3"], ["--per-unit", "3", "--per-trial", "1", "--per-hour", "1"]):
        refused = call(*tune, *words)
        assert (refused.exit_code, "goes with --per-trial or --per-hour" in refused.output) == (2, True)
    assert "the target 0 was reached" in call(*tune, "--until-value", "0", "--maximize").output
    assert "12 independent uniform probes" in call(*tune, "--probes", "0.2").output
    wrong = call(*tune, "--maximize", "--floor", "0")
    assert wrong.exit_code == 2
    assert "--ceiling goes with --maximize" in wrong.output


def test_tune_resumes_and_reports(files) -> None:
    tune = [
        "tune",
        "train.py:cost",
        "--space",
        "space.toml",
        "--method",
        "gp-ei",
        "--seed",
        "1",
        "--checkpoint",
        "run.npz",
    ]
    assert call(*tune, "--trials", "6").exit_code == 0
    result = call(*tune, "--trials", "9", "--report", "page.html")
    assert result.exit_code == 0
    assert "9 evaluations" in result.output
    assert (files / "page.html").exists()


def test_a_page_of_a_checkpoint(files) -> None:
    tune = ["tune", "train.py:cost", "--space", "space.toml", "--method", "sobol", "--trials", "6"]
    assert call(*tune, "--checkpoint", "run.npz").exit_code == 0
    result = call("report", "run.npz")
    assert (result.exit_code, result.output) == (0, "run.html\n")
    page = (files / "run.html").read_text()
    assert "<dt>Objective</dt><dd>cost</dd>" in page
    assert "<dt>So far</dt><dd>6 of 6 evaluations</dd>" in page


@pytest.mark.parametrize("source", ["sqlite:///s.db", "s.db"])
def test_a_page_of_a_study_of_any_sampler(files, source) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for name in ("mine", "yours"):
        study = optuna.create_study(
            study_name=name, storage="sqlite:///s.db", sampler=optuna.samplers.TPESampler(seed=1)
        )
        study.optimize(lambda t: t.suggest_float("rate", 1e-3, 7.0, log=True) + t.suggest_int("n", 2, 5), n_trials=7)
    result = call("report", source, "--study", "mine")
    assert (result.exit_code, result.output) == (0, "mine.html\n")
    page = (files / "mine.html").read_text()
    assert "<dt>Method</dt><dd>the study&#x27;s own sampler</dd>" in page
    assert "<dt>Ran</dt>" in page
    result = call("report", source)
    assert result.exit_code == 2
    assert "the storage has 2 studies; name one of them: mine, yours" in result.output


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["nothing.npz"], "there is no file, folder or storage nothing.npz"),
        (["space.toml"], "space.toml is not a readable state file"),
        (["space.toml", "--study", "mine"], "--study names a study of a storage"),
        ([".", "--out", "page.html"], "a folder has its page inside"),
        (["sqlite:///nothing.db"], "the file nothing.db does not exist"),
    ],
)
def test_what_has_no_page_is_answered_in_a_line(files, words, answer) -> None:
    result = call("report", *words)
    assert result.exit_code == 2
    assert answer in result.output
    assert len(result.output.splitlines()) == 1


def test_a_page_of_a_folder_needs_the_bench(files, without_bench) -> None:
    result = call("report", ".")
    assert result.exit_code == 2
    assert "pages of folders need the distribution regretless-bench" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train.py:cost", "--space", "absent.toml", "--trials", "3"], "absent.toml"),
        (["train.py:missing", "--space", "space.toml", "--trials", "3"], "no function 'missing'"),
        (["train.py:constant", "--space", "space.toml", "--trials", "3"], "no function 'constant'"),
        (["train.py", "--space", "space.toml", "--trials", "3"], "FILE.py:FUNCTION"),
        (["absent.py:cost", "--space", "space.toml", "--trials", "3"], "no file absent.py"),
        (["train.py:cost", "--space", "space.toml", "--trials", "0"], "--trials"),
        (["train.py:cost", "--space", "space.toml", "--trials", "3", "--method", "magic"], "unknown method 'magic'"),
        (["train.py:cost", "--space", "train.py", "--trials", "3"], "not valid TOML"),
        (
            ["train.py:broken", "--space", "space.toml", "--trials", "9", "--method", "random"],
            "train.py:broken: all of the first 5 evaluations failed; the last one with: ValueError: the objective is "
            "broken",
        ),
        (
            ["train.py:divided", "--space", "space.toml", "--trials", "9"],
            "train.py:divided: all of the first 5 evaluations failed; the last one with: ZeroDivisionError",
        ),
        (
            ["train.py:nothing", "--space", "space.toml", "--trials", "3"],
            "the objective returned None at {'a': 2.5, 'n': 5}; it must return a number",
        ),
        (
            ["train.py:nothing", "--space", "space.toml", "--trials", "3", "--storage", "sqlite:///s.db"],
            "the objective returned None at {",
        ),
        (
            ["train.py:divided", "--space", "space.toml", "--trials", "9", "--storage", "sqlite:///s.db"],
            "train.py:divided: all of the first 5 evaluations failed; the last one with: ZeroDivisionError",
        ),
        (
            ["syntax.py:f", "--space", "space.toml", "--trials", "3"],
            "syntax.py is not valid Python: invalid syntax (syntax.py, line 1)",
        ),
        (
            ["imports.py:f", "--space", "space.toml", "--trials", "3"],
            "imports.py:f raised ModuleNotFoundError: No module named 'no_such_module'",
        ),
    ],
)
def test_errors_are_one_line(files, arguments, words) -> None:
    result = call("tune", *arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert result.output.splitlines()[-1].startswith("regretless: ")
    assert "Usage" not in result.output
    assert "Traceback" not in result.output


def test_errors_of_the_objective_say_where(files) -> None:
    result = call("tune", "train.py:divided", "--space", "space.toml", "--trials", "9")
    assert f'File "{files / "train.py"}", line 9, in divided\n    return a / 0\n' in result.output
    assert "regretless/run.py" not in result.output
    assert "regretless: trial 0 failed: ZeroDivisionError" in result.output


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://bob:s3cr@t/x@host:5432/db", "postgresql://bob:***@host:5432/db"),
        ("mysql+pymysql://bob:x@host/db?ssl=1", "mysql+pymysql://bob:***@host/db?ssl=1"),
        ("postgresql://host/db?user=bob&password=s3cr&a=1", "postgresql://host/db?user=bob&password=***&a=1"),
        ("postgresql://bob@host/db", "postgresql://bob@host/db"),
        ("sqlite:///a@b.db", "sqlite:///a@b.db"),
        ("journal:file and postgresql://a:b@c/d", "journal:file and postgresql://a:***@c/d"),
        ("bob:s3cr@host/db", "bob:***@host/db"),
        ("journal:bob:s3cr@host", "journal:bob:***@host"),
        ("postgresql://bob:my s3cr et@host/db", "postgresql://bob:***@host/db"),
        ("trial 3 failed: see docs, or ask me@there.org", "trial 3 failed: see docs, or ask me@there.org"),
        ("postgresql://host:5432/db is away; ask me@there.org", "postgresql://host:5432/db is away; ask me@there.org"),
    ],
)
def test_passwords_are_masked(url, shown) -> None:
    assert masked(url) == shown


def test_errors_show_no_password(files) -> None:
    storage = ["--storage", "postgresql+psycopg://bob:s3cret@localhost:1/db"]
    for words in (["tune", "train.py:cost", "--space", "space.toml", "--trials", "2"], ["export", "mine"]):
        result = call(*words, *storage)
        assert result.exit_code == 2
        assert "s3cret" not in result.output
        assert "bob:***@localhost" in result.output


STANDARD = """
import helper

def cost(a, n):
    import types
    return helper.SHIFT + a + n + (not hasattr(types, "SimpleNamespace"))
"""


def test_a_file_named_like_a_module_replaces_nothing(files, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    (files / "types.py").write_text(STANDARD)
    (files / "helper.py").write_text("SHIFT = 0.5\n")
    path = list(sys.path)
    try:
        function = load_function("types.py:cost")
        assert sys.modules["types"] is types
        assert os.environ["PYTHONSAFEPATH"] == "1"  # a worker that starts in this folder would import its types.py
        assert function(a=1, n=2) == 3.5
        assert pickle.loads(pickle.dumps(function))(a=1, n=2) == 3.5
        tune = ["tune", "types.py:cost", "--space", "space.toml", "--trials", "4", "--method", "random"]
        for more in ([], ["--storage", "sqlite:///s.db", "--workers", "2"]):
            result = call(*tune, *more)
            assert result.exit_code == 0, result.output
        assert "4 evaluations" in result.output
    finally:
        sys.path[:] = path
        sys.modules.pop("helper", None)


def test_two_files_of_one_name_are_two_modules(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    path = list(sys.path)
    try:
        for number in (1, 2):
            (tmp_path / str(number)).mkdir()
            (tmp_path / str(number) / "sample_objective.py").write_text(f"def f():\n    return {number}\n")
        first, second = (load_function(f"{tmp_path}/{number}/sample_objective.py:f") for number in (1, 2))
        assert (first(), second()) == (1, 2)
        assert [pickle.loads(pickle.dumps(function))() for function in (first, second)] == [1, 2]
    finally:
        sys.path[:] = path
        sys.modules.pop("sample_objective", None)


SLOW = """
import time

def cost(a, n):
    open("started", "w").close()
    time.sleep(0.2)
    return a + n
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of another kind")
def test_an_interrupted_run_shows_its_result_and_ends_with_130(files) -> None:
    (files / "slow.py").write_text(SLOW)
    command = "from regretless.cli import main; main()"
    words = ["tune", "slow.py:cost", "--space", "space.toml", "--trials", "500", "--method", "random"]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *words], stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background have it ignored
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (files / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in output
    assert "value" in output


def test_runs_that_fail_are_named_and_the_others_kept(files) -> None:
    words = [
        "bench",
        "run",
        "--methods",
        "random,gp-ucb:kappa=-2",
        "--problems",
        "branin",
        "--seeds",
        "2",
        "--budget",
        "3",
        "--jobs",
        "1",
    ]
    result = call(*words)
    assert result.exit_code == 1
    (line,) = [line for line in result.output.splitlines() if line.startswith("failed:")]
    assert line.startswith("failed: gp-ucb:kappa=-2 on branin, 2 of 2 runs: ValueError: kappa must be")
    assert line.endswith("got -2")


def test_a_comparison_ends_with_its_ranking_and_the_next_command(files) -> None:
    words = [
        "bench",
        "run",
        "--methods",
        "random,sobol",
        "--problems",
        "branin,sphere",
        "--seeds",
        "2",
        "--budget",
        "4",
        "--jobs",
        "1",
        "--out",
    ]
    result = call(*words, "runs/a b")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    at = lines.index("mean rank by the best value found (1 is best; 2 problems, 4 cases):")
    assert sorted(line.split()[0] for line in lines[at + 1 : at + 3]) == ["random", "sobol"]
    assert float(lines[at + 1].split()[1]) <= float(lines[at + 2].split()[1])
    assert lines[at + 3] == "for the curves: regretless report 'runs/a b'"


COMMANDS = [
    "tune",
    "ask",
    "tell",
    "best",
    "outlook",
    "verify",
    "serve",
    "watch",
    "mcp",
    "export",
    "list",
    "bench",
    "bench run",
    "bench plot",
    "report",
    "reproduce",
    "data",
    "data list",
    "data check",
    "data fetch",
]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_an_example(command) -> None:
    result = call(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output
    examples = result.output.split("Example")[1].splitlines()[1:]
    assert examples[0].strip().startswith(f"regretless {command}".strip())


def test_the_space_in_the_help_is_one(files) -> None:
    text = call("tune", "--help").output.split("one table per parameter:")[1].split("Examples:")[0]
    (files / "shown.toml").write_text("\n".join(line.strip() for line in text.splitlines()))
    (files / "shown.py").write_text("def f(lr, layers, act):\n    return layers\n")
    result = call("tune", "shown.py:f", "--space", "shown.toml", "--trials", "2", "--method", "random")
    assert result.exit_code == 0, result.output
