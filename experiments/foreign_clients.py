"""Scripts of other people with our classes in the place of theirs (docs/lab/doors.md).

    python experiments/foreign_clients.py ray --jobs 2 --out runs/clients         # the examples of the installed Ray
    python experiments/foreign_clients.py scikit-learn --folder scikit-learn/examples --out runs/clients

`ray` runs every script of `ray.tune.examples` with `rg.Searcher` for its search algorithm, or as one where it has none.
`scikit-learn` runs the scripts of a folder that make a search, with `RegretlessSearchCV` for `GridSearchCV` and
`RandomizedSearchCV`. What a script comes to is written down: "runs", its last line of error, or "took too long".
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import Any

from regretless_bench.cells import run_cells

SEARCHES = {
    "optuna": "OptunaSearch", "ax": "AxSearch", "bayesopt": "BayesOptSearch", "hyperopt": "HyperOptSearch",
    "nevergrad": "NevergradSearch", "bohb": "TuneBOHB",
}  # fmt: skip
"""Ray's modules of search algorithms, and their classes."""
USED = "regretless was asked"
"""Printed by a script in which our class took part."""


# ---------------------------------------------------------------- inside the process of a script


def as_ray_client(script: str) -> None:
    """Runs a script in which every search algorithm is our Searcher; where none is named, ours is added."""
    import ray
    import ray.tune.search as modules
    from ray import tune

    from regretless.doors.ray.searcher import Searcher

    whole, begin = tune.TuneConfig, ray.init

    def searcher(*args: Any, space: Any = None, metric: Any = None, mode: Any = None, **options: Any) -> Searcher:
        kept = {name: options[name] for name in ("points_to_evaluate", "seed") if options.get(name) is not None}
        print(USED, flush=True)
        return Searcher(args[0] if args else space, metric=metric, mode=mode, **kept)

    class Config(whole):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            if options.get("search_alg") is None:
                options["search_alg"] = searcher()
            super().__init__(*args, **options)

    for module, name in SEARCHES.items():
        made = types.ModuleType(f"ray.tune.search.{module}")
        setattr(made, name, searcher)
        sys.modules[made.__name__] = made
        setattr(modules, module, made)
    tune.TuneConfig = Config
    small = {"num_cpus": 2, "object_store_memory": 100 * 2**20, "include_dashboard": False}
    ray.init = lambda *args, **options: begin(*args, **{**options, **small})  # type: ignore[assignment]
    sys.argv = [script, "--smoke-test"]
    runpy.run_path(script, run_name="__main__")


def as_scikit_learn_client(script: str) -> None:
    """Runs a script in which grids and random searches are ours; a grid has as many settings as theirs."""
    import matplotlib
    import numpy as np
    import sklearn.model_selection as public
    import sklearn.model_selection._search as private

    from regretless.doors.sklearn.search import RegretlessSearchCV

    matplotlib.use("Agg")

    class Randomized(RegretlessSearchCV):
        def __init__(
            self, estimator: Any, param_distributions: Any, *, n_iter: int = 10, scoring: Any = None,
            n_jobs: Any = None, refit: Any = True, cv: Any = None, verbose: int = 0, pre_dispatch: Any = "2*n_jobs",
            random_state: Any = None, error_score: Any = np.nan, return_train_score: bool = False,
        ) -> None:  # fmt: skip
            print(USED, flush=True)
            super().__init__(
                estimator, param_distributions=param_distributions, n_iter=n_iter, scoring=scoring, refit=refit, cv=cv,
                random_state=random_state, error_score=error_score, return_train_score=return_train_score,
            )  # fmt: skip

    class Grid(Randomized):
        def __init__(self, estimator: Any, param_grid: Any, **options: Any) -> None:
            super().__init__(estimator, param_grid, n_iter=len(public.ParameterGrid(param_grid)), **options)
            self.param_grid = param_grid

    for module in (public, private):
        module.RandomizedSearchCV, module.GridSearchCV = Randomized, Grid
    os.chdir(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


CLIENTS = {"ray": as_ray_client, "scikit-learn": as_scikit_learn_client}


# ---------------------------------------------------------------- a script as a cell


def run(kind: str, script: str, seconds: float) -> str:
    """What a script comes to."""
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, __file__, kind, "--script", script]
        environment = {**os.environ, "RAY_TRAIN_V2_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
        try:
            code = subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, timeout=seconds, env=environment, check=False
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = -1
        log.seek(0)
        text = log.read()
    used = "" if USED in text else ", but asked for no search"
    if code == 0:
        return f"runs{used}"
    errors = re.findall(r"^[\w.]*(?:Error|Exception|Exit)\b.*$", text, flags=re.MULTILINE)
    last = (errors or text.split("\n"))[-1][:300]
    return f"took too long{used}; {last}" if code == -1 else f"{last}{used}"


def scripts_of(kind: str, folder: Path | None) -> list[Path]:
    if kind == "ray" and folder is None:
        import ray.tune

        folder = Path(ray.tune.__file__).parent / "examples"
    if folder is None:
        raise SystemExit("--folder is needed: where the scripts are")
    words = "tune" if kind == "ray" else r"\b(?:Grid|Randomized)SearchCV\("
    found = sorted(folder.rglob("*.py"))
    return [path for path in found if re.search(words, path.read_text(errors="replace")) and path.stem[0] != "_"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=list(CLIENTS))
    parser.add_argument("--folder", type=Path, help="where the scripts are; Ray's own where left out")
    parser.add_argument("--only", help="names of scripts, separated by commas")
    parser.add_argument("--seconds", type=float, default=300.0, help="after so many a script is ended")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/clients"))
    parser.add_argument("--script", help="run this one here, and nothing else")
    options = parser.parse_args()
    if options.script:
        CLIENTS[options.kind](options.script)
        return
    paths = scripts_of(options.kind, options.folder)
    if options.only:
        paths = [path for path in paths if path.stem in options.only.split(",")]
    cells = [(options.kind, str(path), options.seconds) for path in paths]
    found = run_cells(run, cells, options.out / "clients.jsonl", jobs=options.jobs, initializer=quiet)
    for (_, script, _), end in found:
        print(f"| {Path(script).stem} | {end} |")


def quiet() -> None:
    warnings.simplefilter("ignore")


if __name__ == "__main__":
    main()
