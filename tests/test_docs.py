"""The Python examples of the pages run, and the reference names everything that is public."""

import inspect
import re
from pathlib import Path

import pytest
from regretless_bench.peers import PEERS

import regretless

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def blocks(path: Path) -> list[str]:
    """The Python of a page, with its budgets made small."""
    found = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    small = ((r"\btrials=80", "trials=6"), (r"n_trials=\d+", "n_trials=4"), (r"budget_steps=[\d_]+", "budget_steps=60"))
    for pattern, instead in small:
        found = [re.sub(pattern, instead, code) for code in found]
    return found


@pytest.mark.parametrize(
    ("page", "names"), [("tutorials/training-steps.md", ["lr", *"abcd"]), ("reference/training.md", ["lr", "momentum"])]
)
def test_plans_in_pages_are_what_is_printed(page: str, names: list[str]) -> None:
    text = (DOCS / page).read_text()
    space = {name: regretless.Float(1e-3, 0.9, log=name == "lr") for name in names}
    for line in str(regretless.plan(space, budget_steps=20_000, convex=False)).splitlines():
        assert line in text


def test_options_that_are_named_exist() -> None:
    """In pages and docstrings: `gp-ucb:kappa=2`, `rg.MSUCB(low_dim=5)`."""
    recipes = {**regretless.METHODS, **regretless.CLASSICS, **PEERS}
    options = {name: set(inspect.signature(recipe.method).parameters) for name, recipe in recipes.items()}
    options |= {recipe.method.__name__: options[name] for name, recipe in recipes.items()}
    names = "|".join(sorted(map(re.escape, options), key=len, reverse=True))
    found = []
    for path in [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "regretless").rglob("*.py")]:
        text = path.read_text()
        named = [(m[1], [m[2]]) for m in re.finditer(rf"(?<![\w-])({names}):(\w+)=", text)]
        named += [
            (m[1], re.findall(r"(\w+)\s*=(?!=)", m[2])) for m in re.finditer(rf"(?<![\w-])({names})\(([^()]*)\)", text)
        ]
        found += [(path.name, name, option) for name, given in named for option in given]
    assert len(found) > 30
    assert [
        f"{page}: {name} has no option {option}" for page, name, option in found if option not in options[name]
    ] == ["methods.md: GPUCB has no option kapa"]  # the page says that type checkers find this one


def test_commands_that_tune_say_how_many_trials() -> None:
    """Whoever copies a whole command from a page can run it."""
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    fences = [fence for page in pages for fence in re.findall(r"```\w*[^\n]*\n(.*?)```", page.read_text(), re.DOTALL)]
    commands = [
        line for fence in fences for line in fence.replace("\\\n", " ").splitlines() if "regretless tune" in line
    ]
    assert len(commands) > 8
    assert [command for command in commands if "--trials" not in command] == []


def test_pages_that_code_names_exist() -> None:
    """In docstrings, remarks and the pages beside the code: `docs/lab/outlook.md`."""
    folders = [ROOT / name for name in ("regretless", "bench", "experiments", "benchmarks", "tests")]
    sources = [path for folder in folders for end in ("*.py", "*.md") for path in folder.rglob(end)]
    named = {(path, page) for path in sources for page in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text())}
    assert len(named) > 50
    assert sorted(f"{path.relative_to(ROOT)}: {page}" for path, page in named if not (ROOT / page).exists()) == []


def run(page: str, code: str, names: dict | None = None) -> dict:
    """Executes code as a page's; returns the names it leaves."""
    names = {"__name__": "page", **(names or {})}
    exec(compile(code, page, "exec"), names)
    return names


MODEL = """
class Model:
    def __init__(self, lr, momentum, weight_decay, dropout, channels, seed):
        self.lr, self.x = lr, 1.0

    def train_one_epoch(self):
        self.x *= 1 - min(self.lr, 0.5)

    def validation_loss(self):
        return self.x**2 + 0.1
"""


NUMBER = """
def build(seed):
    return [1.0]

def train_one_step(model, lr):
    model[0] *= 1 - min(lr, 0.5)

def validation_loss(model):
    return model[0]

def save(model, path):
    path.write_text(str(model[0]))

def load(path):
    return [float(path.read_text())]
"""


def test_the_tutorial_of_training_loops_runs(tmp_path, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    import numpy as np

    rng = np.random.default_rng(0)
    images = torch.as_tensor(rng.random((64, 1, 12, 12)), dtype=torch.float32)
    data = images, torch.as_tensor(rng.integers(10, size=64))
    X, y = rng.random((60, 3)), rng.integers(2, size=60)
    functions, net, sklearn, generator, split, study = blocks(DOCS / "tutorials" / "training-steps.md")
    (optuna_study,) = blocks(DOCS / "how-to" / "steps-in-optuna.md")
    first = run("tutorial", functions)
    run("tutorial", sklearn, {"X": X, "y": y, "X_val": X, "y_val": y})
    names = run("tutorial", net, {"train_loader": data, "val_loader": data})
    names |= run("tutorial", split)
    other = run("tutorial", MODEL + generator, first)["problem"]
    assert regretless.minimize_bilevel(other, names["space"], budget_steps=60, seed=0, progress=False).value < 1
    names = run("tutorial", study, names)
    assert isinstance(names["model"], torch.nn.Module)
    assert (tmp_path / "curves.png").stat().st_size > 1000
    # in an Optuna study: a "model" is one number, its file holds it
    rest = "\n".join(
        f'    trial.suggest_{kind}("{name}", {low}, {high}, log={log})'
        for name, kind, low, high, log in [
            ("momentum", "float", 0.0, 0.99, False), ("weight_decay", "float", 1e-6, 1e-1, True), ("dropout", "float",
            0.0, 0.7, False),
            ("channels", "int", 4, 16, True),
        ]
    )  # fmt: skip
    code = re.sub(r"( +lr = .*\n)", lambda m: m.group(1) + rest + "\n", optuna_study)
    assert code != optuna_study
    study_run = run("how-to", NUMBER + code)["study"]
    assert study_run.best_value < 1


def test_the_reference_names_everything_public() -> None:
    pages = "\n".join(page.read_text() for page in sorted((DOCS / "reference").glob("*.md")))
    listed = re.findall(r"^::: (\S+)$", pages, re.MULTILINE)
    assert len(listed) == len(set(listed))
    ends = {name.rpartition(".")[2] for name in listed}
    assert set(regretless.__all__) - ends <= {"METHODS", "CLASSICS"}
    recipes = [*regretless.METHODS.values(), *regretless.CLASSICS.values()]
    assert {f"{recipe.method.__module__}.{recipe.method.__name__}" for recipe in recipes} <= set(listed)
