"""`regretless mcp`: studies as tools for agents, by the Model Context Protocol.

Each tool answers with one JSON object of numbers and a sentence ("words"). A wrong call gets the sentence that helps.
A study is a file of the folder, opened for each call alone, so shells and pages can use it meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from regretless.optimizer import Optimizer
from regretless.run.questions import advise as advised
from regretless.run.questions import compare as compared
from regretless.run.result import Result
from regretless.serve.folder import NAME
from regretless.serve.status import status as status_of
from regretless.serve.study import Study, begin
from regretless.serve.verify import verify as verified
from regretless.serve.words import front_json, summary

P = ParamSpec("P")
R = TypeVar("R")

INSTRUCTIONS = """
Find good settings of anything with a few parameters and a value that is costly to get. create_study says what the
parameters are; then ask for a setting, evaluate it, tell its value, and so on. status says in plain words whether going
on pays: read its "words". Do not invent settings or values: ask and tell keep the search honest.
"""
"""What an agent is told of the tools as a whole."""
AGENT = "agent"
"""The client that asks: its open trials come again until they are told."""

Name = Annotated[str, Field(description="the study's name: letters, digits, - and _")]
Space = Annotated[
    dict[str, Any],
    Field(
        description='a table per parameter: {"lr": {"type": "float", "low": 1e-5, "high": 0.1, "log": true}, "layers": '
        '{"type": "int", "low": 1, "high": 6}, "act": {"type": "choice", "labels": ["relu", "tanh"]}}'
    ),
]
Values = float | list[float] | dict[str, float]


class Studies:
    """The studies of a folder, as the tools do things to them."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder)
        self.path.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """The names of the studies, in order."""
        return sorted(path.stem for path in self.path.glob("*.npz") if NAME.fullmatch(path.stem))

    def file(self, name: str) -> Path:
        """The file of a study, which need not be there."""
        if not NAME.fullmatch(name):
            raise ValueError(f"a study is called by up to 64 letters, digits, - and _, got {name[:80]!r}")
        return self.path / f"{name}.npz"

    @contextlib.contextmanager
    def opened(self, name: str, fresh: Optimizer | None = None, *, seeded: bool = False) -> Iterator[Study]:
        """A study to write to; what was done is on the disk at the end."""
        self._check(name, fresh)
        with Study(self.file(name), fresh, seeded=seeded) as study:
            yield study
            study.commit()

    def read(self, name: str) -> Optimizer:
        """A study to look at."""
        self._check(name, None)
        return Optimizer.load(self.file(name))

    def _check(self, name: str, fresh: Optimizer | None) -> None:
        if fresh is None and not self.file(name).is_file():
            known = ", ".join(self.names()) or "none yet"
            raise ValueError(f"there is no study {name!r}; there are: {known}. create_study begins one")


def server_of(folder: str | Path, *, version: str = "") -> MCPServer:
    """The server with the tools, for the studies of a folder."""
    server = MCPServer("regretless", instructions=INSTRUCTIONS.strip(), version=version, log_level="WARNING")
    studies = Studies(folder)
    _add_search(server, studies)
    _add_answers(server, studies)
    return server


def sentences(tool: Callable[P, R]) -> Callable[P, R]:
    """The tool, whose errors are sentences."""

    @wraps(tool)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return tool(*args, **kwargs)
        except (ValueError, TypeError, LookupError, RuntimeError, OSError) as error:
            raise ToolError(" ".join(str(error).split())[:1000]) from None

    return called


def _add_search(server: MCPServer, studies: Studies) -> None:
    @server.tool()
    @sentences
    def create_study(
        study: Name,
        space: Space,
        direction: Literal["minimize", "maximize"] = "minimize",
        budget: Annotated[int | None, Field(ge=1, description="how many trials are planned")] = None,
        objectives: Annotated[
            dict[str, Literal["minimize", "maximize"]] | None, Field(description="names and directions of several")
        ] = None,
        reference: Annotated[
            dict[str, float] | None, Field(description="by name: what each has to be better than to be of interest")
        ] = None,
        constraints: Annotated[list[str], Field(description="names; a constraint holds where it is at most 0")] = [],  # noqa: B006
        seed: int | None = None,
        method: str = "auto",
    ) -> dict[str, Any]:
        """Begins a study; one that is there and asks for the same is that one."""
        fresh = begin(
            space, method=method, direction=direction, budget=budget, seed=seed, constraints=constraints,
            objectives=objectives, reference=reference,
        )  # fmt: skip
        with studies.opened(study, fresh, seeded=seed is not None) as run:
            task, known = run.optimizer.task, len(run.optimizer.trials)
            words = f"Study {study} has {len(task.space)} parameters and {known} trials; ask for a setting."
            return {"study": study, "seed": task.seed, "trials": known, "words": words}

    @server.tool()
    @sentences
    # 100: trials of one ask
    def ask(
        study: Name,
        n: Annotated[int, Field(ge=1, le=100, description="how many settings, open ones included")] = 1,
        fixed: Annotated[dict[str, Any] | None, Field(description="values to propose the others for")] = None,
    ) -> dict[str, Any]:
        """The next settings to evaluate. Settings that you were given and have not told come first."""
        with studies.opened(study) as run:
            trials = [run.trial_json(trial) for trial in run.ask(n, AGENT, fixed)]
        return {"trials": trials, "words": f"Evaluate {_some(len(trials), 'setting')}, then tell each by its number."}

    @server.tool()
    @sentences
    def tell(
        study: Name,
        number: Annotated[int, Field(ge=0, description="the trial's number, as ask gave it")],
        value: Annotated[Values | None, Field(description="the value; of several objectives by name")] = None,
        var: Annotated[Values | None, Field(description="the noise variance of the value, if known")] = None,
        constraints: list[float] | dict[str, float] | None = None,
        cost: float | None = None,
        error: Annotated[str, Field(description="why there is no value, when the evaluation failed")] = "",
    ) -> dict[str, Any]:
        """What came of a trial: its value, or the error."""
        if value is None and not error:
            raise ValueError("tell a value, or say in error why there is none")
        facts = {"var": var, "constraints": constraints, "cost": cost, "error": error}
        with studies.opened(study) as run:
            trial = run.tell(number, value, **{name: fact for name, fact in facts.items() if fact is not None})
            return {"trial": run.trial_json(trial), "words": _told_words(run.optimizer, trial)}


def _add_answers(server: MCPServer, studies: Studies) -> None:
    @server.tool()
    @sentences
    def status(
        study: Name,
        gain: Annotated[float | None, Field(description="the smallest improvement that matters")] = None,
        trials: Annotated[int, Field(ge=1, le=200, description="within how many further trials")] = 20,
    ) -> dict[str, Any]:
        """Whether to go on or to stop, and why; what is noise; the best setting so far."""
        return status_of(studies.read(study), gain=gain, trials=trials)

    @server.tool()
    @sentences
    def best(study: Name) -> dict[str, Any]:
        """The recommended setting with all that is known of it."""
        result = Result.of(studies.read(study))
        return summary(result) | {"words": str(result)}

    @server.tool()
    @sentences
    def front(study: Name) -> dict[str, Any]:
        """The settings of which none is better in all objectives, of a study that has several."""
        result = Result.of(studies.read(study))
        return front_json(result) | {"words": str(result.front)}

    @server.tool()
    @sentences
    def compare(
        study: Name,
        a: Annotated[int | dict[str, Any], Field(description="the number of a trial, or a setting")],
        b: Annotated[int | dict[str, Any], Field(description="another one")],
    ) -> dict[str, Any]:
        """Which of two settings is better, how sure that is, and by how much."""
        found = compared(a, b, within=studies.read(study))
        low, high = found.gain.interval()
        facts = {"chance_b_is_better": found.chance, "gain_of_b": found.gain.mean, "low": low, "high": high}
        return {**facts, "told_apart": found.told_apart, "words": f"{found}."}

    @server.tool()
    @sentences
    def advise(study: Name) -> dict[str, Any]:
        """What the values bear out to do next: ranges to widen or narrow, parameters that hardly matter, noise."""
        found = advised(studies.read(study))
        listed = [{"kind": one.kind, "sentence": one.sentence, "parameters": list(one.parameters)} for one in found]
        return {"advice": listed, "words": " ".join(map(str, found)) or "The values bear nothing out yet."}

    @server.tool()
    @sentences
    def export(study: Name) -> dict[str, Any]:
        """All trials, and a page with charts for people, as a file."""
        optimizer = studies.read(study)
        result = Result.of(optimizer)
        page = result.report(studies.file(study).with_suffix(".html"))
        with studies.opened(study) as run:
            trials = [run.trial_json(trial) for trial in run.optimizer.trials]
        return {"trials": trials, "page": str(page), "words": f"{_some(len(trials), 'trial')}; the page is {page}."}

    @server.tool()
    @sentences
    def verify(study: Name) -> dict[str, Any]:
        """Proposes every setting anew and says how many are equal bit for bit: whether the study was tampered with."""
        return verified(studies.read(study)).to_json()

    @server.tool()
    @sentences
    def list_studies() -> dict[str, Any]:
        """The names of all studies."""
        names = studies.names()
        return {
            "studies": names,
            "words": f"There are {len(names)}: {', '.join(names)}." if names else "There is none.",
        }


def _told_words(optimizer: Optimizer, trial: Any) -> str:
    """What a value means that was just told."""
    if trial.value is None:
        return f"Trial {trial.number} failed; the search keeps away from such settings."
    if optimizer.task.several:
        return f"Trial {trial.number} is told."
    best = optimizer.best
    if trial is best:
        return f"Trial {trial.number} is the best so far."
    return f"Trial {trial.number} is no improvement: the best is {best.value:.6g}, of trial {best.number}."


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
