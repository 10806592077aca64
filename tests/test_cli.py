"""The command: what it prints, and one-line errors with exit code 2."""

import pytest
from click.testing import CliRunner

from regretless.baselines import BASELINES
from regretless.cli import main
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


def test_list_names_everything() -> None:
    result = call("list")
    assert result.exit_code == 0
    for name in (*METHODS, *BASELINES, "branin", "hartmann6"):
        assert f"  {name} " in result.output


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
            ["train.py:broken", "--space", "space.toml", "--trials", "3", "--method", "random"],
            "train.py:broken raised ValueError: the objective is broken",
        ),
        (
            ["train.py:divided", "--space", "space.toml", "--trials", "3"],
            "train.py:divided raised ZeroDivisionError: float division by zero",
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
            ["train.py:divided", "--space", "space.toml", "--trials", "3", "--storage", "sqlite:///s.db"],
            "train.py:divided raised ZeroDivisionError",
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
    result = call("tune", "train.py:divided", "--space", "space.toml", "--trials", "3")
    assert f'File "{files / "train.py"}", line 9, in divided\n    return a / 0\n' in result.output
    assert "regretless/optimize.py" not in result.output


def test_runs_that_fail_are_named_and_the_others_kept(files) -> None:
    result = call(
        "bench",
        "run",
        "--methods",
        "random,gp-ucb:preset=papre",
        "--problems",
        "branin",
        "--seeds",
        "2",
        "--budget",
        "3",
        "--jobs",
        "1",
    )
    assert result.exit_code == 1
    line = "failed: gp-ucb:preset=papre on branin, 2 of 2 runs: ValueError: preset must be 'default' or 'paper', got 'papre'"
    assert line in result.output.splitlines()
    assert "failed: random" not in result.output


@pytest.mark.parametrize(
    "command", [[], ["tune"], ["bench"], ["bench", "run"], ["bench", "plot"], ["report"], ["list"]]
)
def test_help_reads_well(command) -> None:
    result = call(*command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output
