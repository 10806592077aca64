"""Any command is an objective: values reach it as they are, and what it says, or how it ends, is the value."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import regretless as rg
from regretless.cli import main
from regretless.optimizer import Optimizer
from regretless.run.evaluation import EvaluationError
from regretless.serve.command import filled, steps_of
from regretless.serve.program import Program

LABELS = ["plain", "with blanks  two", "it's", 'a "quote"', "$(touch made)", "`touch made`", "; touch made", "-n", "*",
          "{b}", "\\", "ünï", "a\nb", "&& touch made", "$HOME"]  # fmt: skip
SHOW = (
    f'{sys.executable} -c "import sys, json; '
    'print(json.dumps(sys.argv[1:]), file=open(sys.argv[1], chr(119))); print(1)"'
)


def call(*arguments: str):
    return CliRunner().invoke(main, [*arguments])


def arguments(command: str, space: dict, params: dict, path: Path, **options) -> list[str]:
    """What a program is given behind the name of the file in which it says so."""
    Program(f"{SHOW} {path} {command}", space, **options)(**params)
    return json.loads(path.read_text())[1:]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("shell", [False, True])
def test_labels_reach_the_program_as_they_are(tmp_path, monkeypatch, label: str, shell: bool) -> None:
    monkeypatch.chdir(tmp_path)
    space = {"a": rg.Choice(LABELS), "b": rg.Int(-3, 9)}
    command = """{a} x{a}y "{a}" '{a}' "q '{a}' {b}" -O{b} {{a}}"""
    said = arguments(command, space, {"a": label, "b": -2}, tmp_path / "said", shell=shell)
    assert said == [label, f"x{label}y", label, label, f"q '{label}' -2", "-O-2", "{a}"]
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("shell", [False, True])
def test_a_word_that_is_an_empty_value_is_left_out(tmp_path, shell: bool) -> None:
    space = {"flags": rg.Choice(["", "-x -y"]), "n": rg.Int(0, 3)}
    said = arguments("{flags} -O{n}{flags} '' z", space, {"flags": "", "n": 2}, tmp_path / "s", shell=shell)
    assert said == ["-O2", "", "z"]


def test_a_star_cuts_a_value_into_words_and_the_rest_is_read_like_a_shell_does() -> None:
    (first, second) = steps_of("""a\\ b "c \\" d" 'e\\f' {flags*} && ./k {n}""", ["flags", "n"])
    assert filled(first, {"flags": "-x  -y", "n": "1"}) == ["a b", 'c " d', "e\\f", "-x", "-y"]
    assert filled(second, {"flags": "", "n": "1"}) == ["./k", "1"]
    assert filled(steps_of("""awk '{print $1 "{n}"}' "a && b" """, ["n"])[0], {"n": "7"}) == [
        "awk", '{print $1 "7"}', "a && b",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("a | b", "'|', which only a shell understands"),
        ("a > b", "'>', which only"),
        ("a $HOME", "'$', which only"),
        ('a "$(b)"', "'$', which only"),
        ("a `b`", "'`', which only"),
        ("a & b", "'&', which only"),
        ("a ~/b", "'~', which only"),
        ("a &&", "no command beside &&"),
        ("", "no command to run"),
        ("a 'b", "quotation mark ' in the command"),
        ("a {c}", "{c} names no parameter (there are n)"),
        ("a x{n*}", "{n*} gives several words"),
    ],
)
def test_commands_that_mean_something_else_are_refused(command: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        Program(command, {"n": rg.Int(0, 3)})
    assert words in str(error.value)


def test_a_shell_s_own_words_stay_its_own(tmp_path) -> None:
    program = Program("x=3; for i in 1 2; do x=$((x + {n})); done; echo ${x} | cat", {"n": rg.Int(0, 9)}, shell=True)
    assert program(n=4).value == 11


def test_settings_come_in_the_environment_and_on_standard_input(tmp_path) -> None:
    space = {"lr": rg.Float(1e-5, 0.1, log=True), "act": rg.Choice(["re lu", "tanh"])}
    script = tmp_path / "s.py"
    script.write_text(
        "import os, json, sys\nset = json.load(sys.stdin)\nassert set == json.loads(os.environ['REGRETLESS_PARAMS'])\n"
        "assert os.environ['REGRETLESS_act'] == set['act'] == 're lu'\nprint(float(os.environ['REGRETLESS_lr']))\n"
    )
    assert Program(f"{sys.executable} {script}", space, stdin=True)(lr=0.1 / 3, act="re lu").value == 0.1 / 3


@pytest.mark.parametrize(
    ("measure", "command", "value"),
    [
        ("last", "printf 'noise\\n 2.5e-3 \\n\\n'", 0.0025),
        ("regex:loss=(\\S+)", "printf 'loss=3 loss=1e2 (done)\\n'", 100.0),
        ("file:out.txt", "sh -c 'echo 7 > out.txt'", 7.0),
        ("last", """printf '{"value": 4, "var": 0.5, "constraints": [-1], "more": 1}\\n'""", 4.0),
    ],
)
def test_the_value_is_what_measure_says(tmp_path, monkeypatch, measure: str, command: str, value: float) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out.txt").write_text("1")
    told = Program(command, {"n": rg.Int(0, 3)}, measure=measure)(n=1)
    assert told.value == value
    if "var" in command:
        assert (told.var, told.constraints) == (0.5, [-1])


def test_the_time_is_that_of_the_last_command() -> None:
    took = Program("sleep 0.6 && sleep 0.1", {"n": rg.Int(0, 3)}, measure="time")(n=1).value
    assert 0.1 <= took < 0.5


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        ("sh -c 'echo oops >&2; exit 3'", {}, "oops\nsh ended with exit code 3"),
        ("sh -c 'kill -SEGV $$'", {}, "sh was ended by SIGSEGV"),
        ("no-such-command-here", {}, "cannot be run: No such file"),
        ("echo nothing", {}, "no number and no JSON object"),
        ("true", {}, "printed nothing"),
        ("""echo '{"loss": 1}'""", {}, "no number and no JSON object"),
        ("echo 1", {"measure": "regex:loss=(.*)"}, "matches"),
        ("echo 1", {"measure": "file:old"}, "did not write old"),
        ("false && touch never", {}, "false ended with exit code 1"),
    ],
)
def test_failures_say_why(tmp_path, monkeypatch, command: str, options: dict, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").write_text("3")
    with pytest.raises(EvaluationError) as error:
        Program(command, {"n": rg.Int(0, 3)}, **options)(n=1)
    assert words in str(error.value)
    assert not (tmp_path / "never").exists()


def alive(marker: str) -> bool:
    """Whether a program with this command line runs."""
    return any(read(p).strip() == marker for p in Path("/proc").glob("[0-9]*/cmdline"))


def gone(marker: str) -> bool:
    """Whether it ends within a few seconds: a signal takes its time on a busy machine."""
    until = time.monotonic() + 5
    while alive(marker) and time.monotonic() < until:
        time.sleep(0.05)
    return not alive(marker)


def read(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def test_a_timeout_ends_the_whole_group_and_a_deaf_one_too() -> None:
    marker = f"61.{os.getpid()}"
    program = Program(f"sh -c 'trap \"\" TERM; sleep {marker} & sleep {marker}'", {"n": rg.Int(0, 3)}, timeout=0.3)
    with pytest.raises(EvaluationError, match=r"took longer than 0\.3 s"):
        program(n=1)
    assert gone(f"sleep {marker}")


def test_what_a_command_leaves_behind_ends_with_it() -> None:
    marker = f"62.{os.getpid()}"
    assert Program(f"sh -c 'sleep {marker} & echo 1'", {"n": rg.Int(0, 3)})(n=1).value == 1
    assert gone(f"sleep {marker}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_ends_its_programs_and_the_next_one_goes_on(tmp_path, number: int) -> None:
    marker = f"63.{os.getpid()}{int(number)}"
    line = [
        sys.executable, "-m", "regretless", "tune", f"sh -c 'test -f go || sleep {marker}; echo 1'",
        *("--int", "n:0:1000", "--trials", "6", "--jobs", "3", "--checkpoint", "run.npz", "--seed", "1"),
    ]  # fmt: skip
    process = subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.PIPE)
    until = time.monotonic() + 60
    while not alive(f"sleep {marker}") and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert gone(f"sleep {marker}")
    (tmp_path / "go").touch()
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    trials = Optimizer.load(tmp_path / "run.npz").trials
    assert [t.value for t in trials] == [1.0] * 6


def test_each_evaluation_has_a_folder_with_its_output(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.txt").write_text("5")
    done = call(
        "tune", "sh -c 'cat data.txt; echo made > made; test {n} -lt 500 || exit 2'", "--int", "n:0:1000",
        "--trials", "8", "--folders", "runs", "--copy", "data.txt", "--jobs", "3", "--seed", "2", "--json",
        "--checkpoint", "c.npz",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    folders = sorted((tmp_path / "runs").iterdir())
    assert [f.name for f in folders] == [str(i) for i in range(8)]
    for folder in folders:
        assert {p.name for p in folder.iterdir()} == {"data.txt", "made", "setting.json", "stdout", "stderr"}
    asked = [t.params for t in Optimizer.load("c.npz").trials]
    assert sorted(json.loads((f / "setting.json").read_text())["n"] for f in folders) == sorted(p["n"] for p in asked)
    failed = [t for t in Optimizer.load("c.npz").trials if t.state == "failed"]
    assert failed
    assert all(f"its output is in {tmp_path / 'runs'}" in t.error for t in failed)


def test_constraints_and_costs_of_a_json_line(tmp_path) -> None:
    line = """sh -c 'echo "{\\"value\\": $0, \\"constraints\\": [$0], \\"cost\\": 2}"' {x}"""
    done = call("tune", line, "--float", "x:-1:1", "--trials", "9", "--constraints", "1", "--cost", "told",
                "--seed", "1", "--json", "--maximize", "--method", "gp-ei")  # fmt: skip
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["value"] <= 0.0
    assert said["best"]["cost"] == 2.0


def test_the_last_command_is_repeated_and_the_mean_has_its_variance(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    count = "sh -c 'echo x >> {0}; n=$(wc -l < {0}); echo $((n * n))'"
    told = Program(f"{count.format('a')} && {count.format('b')}", {"n": rg.Int(0, 3)}, repeat=3)(n=1)
    assert (tmp_path / "a").read_text().count("x") == 1
    assert told.value == pytest.approx((1 + 4 + 9) / 3)
    assert told.var == pytest.approx(statistics.variance([1, 4, 9]) / 3)
    script = """echo x >> c; n=$(wc -l < c); echo {\\"a\\": $n, \\"b\\": 7, \\"constraints\\": [$n], \\"cost\\": 2}"""
    line = f"sh -c '{script}'"
    told = Program(line, {"n": rg.Int(0, 3)}, repeat=2, objectives=["a", "b"])(n=1)
    assert (told.value, told.var) == ({"a": 1.5, "b": 7}, {"a": 0.25, "b": 0})
    assert (told.constraints, told.cost) == ([1.5], 4)
    quiet = Program("sh -c 'test -e done || echo 3; touch done'", {"n": rg.Int(0, 3)}, repeat=2)
    with pytest.raises(EvaluationError, match="printed nothing"):  # the second time: the first value is not the second
        quiet(n=1)


def test_several_objectives_of_a_json_line_give_the_front_of_minimize(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "two.py"
    script.write_text("import sys, json\nx = float(sys.argv[1])\nprint(json.dumps({'ms': x * x, 'acc': x + 1}))\n")
    done = call("tune", f"{sys.executable} {script} {{x}}", "--float", "x:-1:2", "--objective", "ms", "--objective",
                "acc:max", "--trials", "7", "--seed", "2", "--json", "--checkpoint", "run.npz")  # fmt: skip
    assert done.exit_code == 0, done.output
    said, goals = json.loads(done.stdout), {"ms": "minimize", "acc": "maximize"}
    same = rg.minimize(lambda x: {"ms": x * x, "acc": x + 1}, {"x": rg.Float(-1, 2)}, trials=7, seed=2,
                       objectives=goals, progress=False)  # fmt: skip
    assert (said["params"], said["values"]) == (same.params, dict(zip(goals, same.values, strict=True)))
    assert [m["values"] for m in said["front"]] == [m.values for m in same.front]
    failed = Program("echo 1", {"x": rg.Float(0, 1)}, objectives=["a", "b"])
    with pytest.raises(EvaluationError, match='no JSON object with "a" and "b": 1'):
        failed(x=0.5)


def test_a_parameter_that_a_command_leaves_out_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    space = ("--float", "x:-1:2", "--int", "n:3:9", "--trials", "2")
    assert "{n} is not in the command; the program can read REGRETLESS_n" in call("tune", "echo {x}", *space).stderr
    assert "not in the command" not in call("tune", "echo {x} && echo {n*}", *space).stderr
    assert "not in the command" not in call("tune", "echo 1", *space).stderr  # it reads all of them some other way


def test_noise_that_is_stated_is_believed(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("tune", "echo 1", "--float", "x:-1:2", "--trials", "2", "--noisy", "--checkpoint", "r.npz")
    assert done.exit_code == 0, done.output
    assert Optimizer.load("r.npz").task.noisy is True


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_line_of_the_readme_tunes_a_compiled_program(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.c").write_text("int main(void){volatile double s=0;for(int i=0;i<200000;i++)s+=i;return 0;}\n")
    done = call("tune", "gcc -O{level} {flags} k.c -o k && ./k", "--int", "level:0:3", "--choice",
                "flags=,-funroll-loops,-ffast-math", "--measure", "time", "--trials", "5", "--repeat", "3", "--noisy",
                "--seed", "1", "--json", "--checkpoint", "r.npz")  # fmt: skip
    assert done.exit_code == 0, done.output
    trials = Optimizer.load("r.npz").trials
    assert all(t.value is not None and t.var is not None and 0 < t.value < 5 and t.var > 0 for t in trials)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_compiler_s_line_gives_the_points_of_minimize(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.c").write_text('#include <stdio.h>\nint main(void){printf("%d\\n",__OPTIMIZE__+0);return 0;}\n')
    done = call(
        "tune", "gcc -O{level} {flags} k.c -o k && ./k", "--int", "level:1:3", "--choice",
        "flags=,-funroll-loops,-ffast-math", "--float", "lr:1e-5:0.1:log", "--trials", "9", "--seed", "4", "--json",
        "--checkpoint", "run.npz",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["failed"] == 0
    flags = rg.Choice(["", "-funroll-loops", "-ffast-math"])
    space = {"lr": rg.Float(1e-5, 0.1, log=True), "level": rg.Int(1, 3), "flags": flags}
    same = rg.minimize(lambda **p: 1.0, space, trials=9, seed=4, progress=False)
    assert [t.params for t in Optimizer.load("run.npz").trials] == [t.params for t in same.trials]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "the parameters are missing"),
        (("--int", "n:0"), "--int is written NAME:LOW:HIGH"),
        (("--int", "n:0:x"), "'x' is no number"),
        (("--int", "n:0:9", "--float", "n:0:1"), "there are two parameters 'n'"),
        (("--int", "n:0:9:fast"), "--int takes :log or :step=NUMBER"),
        (("--choice", "a"), "--choice is written NAME=A,B"),
        (("--choice", "a=[1,"), "--choice a=[1,"),
        (("--int", "n:0:9", "--measure", "speed"), "measure must be last, time"),
        (("--int", "n:0:9", "--measure", "regex:("), "no regular expression"),
        (("--int", "n:0:9", "--copy", "."), "give folders= too"),
        (("--int", "n:0:9", "--objective", "a:up", "--objective", "b"), "--objective is written NAME"),
        (("--int", "n:0:9", "--objective", "a"), "a single one needs no name"),
        (("--int", "n:0:9", "--objective", "a", "--objective", "b", "--measure", "time"), "the time is one value"),
    ],
)
def test_slips_on_the_command_line_are_one_sentence(options: tuple, words: str) -> None:
    said = call("tune", "echo 1", "--trials", "3", *options)
    assert said.exit_code == 2
    assert words in said.output
    assert said.output.count("\n") == 1


def test_choices_may_be_numbers_and_hold_commas() -> None:
    from regretless.cli.spaces import space_of

    space = space_of(None, ["x:0:1:step=0.25"], ["n:1:64:log"], ['a="b,c",d', "b=[32, 64]"])
    assert space == rg.Space({
        "x": rg.Float(0, 1, step=0.25), "n": rg.Int(1, 64, log=True), "a": rg.Choice(["b,c", "d"]),
        "b": rg.Choice([32, 64]),
    })  # fmt: skip
