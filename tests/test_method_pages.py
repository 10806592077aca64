"""The Python of the method pages runs: each fragment after a prelude that supplies what the reader would have, with its
budgets made small."""

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parent.parent / "docs" / "lab"
SMALL = (
    (r"trials=\d+", "trials=6"),
    (r"budget=\d+", "budget=12"),
    (r"budget_steps=[\d_]+", "budget_steps=60"),
    (r"horizon=\d+", "horizon=5"),
)
BOWL = """
import numpy as np
import torch
import regretless as rg

space = {"a": rg.Float(1, 4), "b": rg.Float(-3, 2)}

def f(a, b):
    return (a - 2.2) ** 2 + (b + 0.4) ** 2
"""
PRELUDES = {
    "go-ucb": (
        BOWL,
        "for _ in range(8):\n    trial = opt.ask()\n"
        "    opt.tell(trial, trial.params['dose'] / (5 + trial.params['dose']))\n",
    ),
    "gp-threds": (
        f"{BOWL}opt = rg.Optimizer(space, method='gp-threds', budget=30)\n"
        "for t in [opt.ask() for _ in range(8)]:\n    opt.tell(t, f(**t.params))\n",
        "",
    ),
    "ms-ucb": (BOWL, ""),
    **dict.fromkeys(("neural-bo", "tangent-region"), (
        BOWL + "tfidf = np.eye(5)\ncnn = torch.nn.Linear(2, 1, dtype=torch.float64)\n"
        "def image(U):\n    return torch.as_tensor(U)\n",
        "",
    )),
    "bilevel": (
        BOWL
        + "def start(params, seed):\n    return {'x': 3.0, 'lr': params['a'] / 10}\n\n"
        + "def step(state):\n    return {**state, 'x': state['x'] * (1 - state['lr'])}\n\n"
        + "def validate(state):\n    return state['x'] ** 2 + 0.1\n\n"
        + "problem = rg.Bilevel(start, step, validate)\n",
        "",
    ),
}  # fmt: skip
"""By page: what comes before, and what stands for its dots."""


@pytest.mark.parametrize("name", sorted(PRELUDES))
def test_the_page_runs(name, tmp_path, monkeypatch) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    before, dots = PRELUDES[name]
    code = "\n".join(re.findall(r"```python\n(.*?)```", (PAGES / f"{name}.md").read_text(), re.DOTALL))
    assert code
    for pattern, small in SMALL:
        code = re.sub(pattern, small, code)
    exec(compile(f"{before}\n{code.replace('...', dots)}", f"{name}.md", "exec"), {"__name__": "page"})


def test_every_page_is_covered() -> None:
    assert sorted(PRELUDES) == sorted(path.stem for path in PAGES.glob("*.md") if "```python" in path.read_text())
