"""Several objectives beside other libraries, by hypervolume.

    python experiments/objectives.py run --out runs/objectives.jsonl --jobs 4 [--minutes 6] [--sets short,long,noise]
    python experiments/objectives.py table runs/objectives.jsonl
    python experiments/objectives.py times                      what an ask takes, in processor time

Families: ZDT (Zitzler, Deb and Thiele 2000), DTLZ (Deb et al. 2002), engineering problems of the RE suite (Tanabe and
Ishibuchi 2020), pairs of COCO's functions (bbob-biobj, Tusar et al. 2016, on [-5, 5]^d), tables of trainings (error and
a cost that grows with the network), and rpart surrogates (error and training time). What the method's constants were
chosen on (odd functions of bbob-biobj, instance 2) is not among them.

Every method gets the same cases and seeds. A case is judged by the hypervolume of the true values of what a method
evaluated, above a reference a tenth of the range below the front of all values of all methods on that problem.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

import regretless as rg
from regretless.basics.extras import optional
from regretless.fronts.dominance import nondominated
from regretless.fronts.hypervolume import hypervolume
from regretless.space import Space
from regretless.space.parameters import Array

Values = Callable[[Mapping[str, Any]], Array]
"""From a setting to the values of its objectives, all to be minimised."""


@dataclass(frozen=True)
class Case:
    """One run: a problem, a method and a seed."""

    family: str
    problem: str
    trials: int
    method: str
    seed: int = 0
    noise: float = 0.0
    """The sd of the noise, as a share of each objective's sd over the space."""


# ---------------------------------------------------------------- problems


def of_array(space: Space, f: Callable[[Array], Any]) -> tuple[Space, Values]:
    return space, lambda setting: np.asarray(f(np.array(list(setting.values()), dtype=np.float64)), dtype=np.float64)


def zdt(number: int, d: int) -> tuple[Space, Values]:
    def f(x: Array) -> list[float]:
        if number == 6:
            first = 1 - math.exp(-4 * x[0]) * math.sin(6 * math.pi * x[0]) ** 6
            g = 1 + 9 * (x[1:].sum() / (d - 1)) ** 0.25
            return [first, g * (1 - (first / g) ** 2)]
        g = 1 + 9 * x[1:].mean()
        if number == 4:
            z = 10 * x[1:] - 5
            g = 1 + 10 * (d - 1) + (z * z - 10 * np.cos(4 * math.pi * z)).sum()
        share = x[0] / g
        shape = {1: 1 - math.sqrt(share), 2: 1 - share**2, 4: 1 - math.sqrt(share)}
        wave = 1 - math.sqrt(share) - share * math.sin(10 * math.pi * x[0])
        return [x[0], g * (wave if number == 3 else shape[number])]

    return of_array(Space([(0, 1)] * d), f)


def dtlz(number: int, d: int, k: int) -> tuple[Space, Values]:
    def f(x: Array) -> Array:
        head, tail = x[: k - 1], x[k - 1 :]
        if number == 7:
            g = 1 + 9 * tail.mean()
            h = k - (head / (1 + g) * (1 + np.sin(3 * math.pi * head))).sum()
            return np.append(head, (1 + g) * h)
        g = ((tail - 0.5) ** 2).sum()
        if number == 5:
            head = np.append(head[:1], (1 + 2 * g * head[1:]) / (2 * (1 + g)))
        cos, sin = np.cos(head * math.pi / 2), np.sin(head * math.pi / 2)
        whole = [np.prod(cos[: k - 1 - j]) * (sin[k - 1 - j] if j else 1.0) for j in range(k)]
        return (1 + g) * np.array(whole)

    return of_array(Space([(0, 1)] * d), f)


def four_bar_truss() -> tuple[Space, Values]:  # RE21
    force, modulus, length = 10.0, 2e5, 200.0
    a, root = 10.0 / 10.0, math.sqrt(2)

    def f(x: Array) -> list[float]:
        volume = length * (2 * x[0] + root * x[1] + math.sqrt(x[2]) + x[3])
        bend = force * length / modulus * (2 / x[0] + 2 * root / x[1] - 2 * root / x[2] + 2 / x[3])
        return [volume, bend]

    return of_array(Space([(a, 3 * a), (root * a, 3 * a), (root * a, 3 * a), (a, 3 * a)]), f)


def hatch_cover() -> tuple[Space, Values]:  # RE24
    def f(x: Array) -> list[float]:
        stress_limit = 700000 * x[0] ** 2 / 100
        bending, shear = 4500 / (x[0] * x[1]), 1800 / x[1]
        deflection, buckling = 56.2e4 / (700000 * x[0] * x[1] ** 2), stress_limit
        holds = [1 - bending / 700, 1 - shear / 450, 1 - deflection / 1.5, 1 - bending / buckling]
        return [x[0] + 120 * x[1], sum(max(-c, 0.0) for c in holds)]

    return of_array(Space([(0.5, 4), (4, 50)]), f)


def two_bar_truss() -> tuple[Space, Values]:  # RE31
    def f(x: Array) -> list[float]:
        volume = x[0] * math.sqrt(16 + x[2] ** 2) + x[1] * math.sqrt(1 + x[2] ** 2)
        near, far = 20 * math.sqrt(16 + x[2] ** 2) / (x[2] * x[0]), 80 * math.sqrt(1 + x[2] ** 2) / (x[2] * x[1])
        holds = [0.1 - volume, 1e5 - near, 1e5 - far]
        return [volume, near, sum(max(-c, 0.0) for c in holds)]

    return of_array(Space([(1e-5, 100), (1e-5, 100), (1, 3)]), f)


def disc_brake() -> tuple[Space, Values]:  # RE33
    def f(x: Array) -> list[float]:
        squares, cubes = x[1] ** 2 - x[0] ** 2, x[1] ** 3 - x[0] ** 3
        mass = 4.9e-5 * squares * (x[3] - 1)
        stop = 9.82e6 * squares / (x[2] * x[3] * cubes)
        holds = [x[1] - x[0] - 20, 0.4 - x[2] / (3.14 * squares), 1 - 2.22e-3 * x[2] * cubes / squares**2,
                 2.66e-2 * x[2] * x[3] * cubes / squares - 900]  # fmt: skip
        return [mass, stop, sum(max(-c, 0.0) for c in holds)]

    return of_array(Space([(55, 80), (75, 110), (1000, 3000), (11, 20)]), f)


def biobj(function: int, d: int, instance: int) -> tuple[Space, Values]:
    import cocoex

    suite = cocoex.Suite("bbob-biobj", "", f"dimensions:{d} function_indices:{function} instance_indices:{instance}")
    problem = suite[0]
    return of_array(Space([(-5, 5)] * d), lambda x: suite and problem(x))  # the suite owns the problem's memory


def training(data: str) -> tuple[Space, Values]:
    from regretless_bench.problems.tabular import NAS_DATA, hpobench_mlp, nasbench201

    nas = data in NAS_DATA
    table = nasbench201(data_set=data) if nas else hpobench_mlp(data_set=data)
    heavy = {"nor_conv_3x3": 9.0, "nor_conv_1x1": 1.0, "avg_pool_3x3": 0.2, "skip_connect": 0.02, "none": 0.0}

    def cost(setting: Mapping[str, Any]) -> float:
        if nas:
            return 1.0 + sum(heavy.get(str(label), 0.5) for label in setting.values())
        layers, width, batch = (setting[name] for name in ("depth", "width", "batch_size"))  # places on their grids
        return (1 + layers) * 2 ** (0.9 * width) * (1 + 2 ** (2 - 0.7 * batch))

    return table.space, lambda setting: np.array([-table.true(dict(setting)), cost(setting)])


def rpart(task: str) -> tuple[Space, Values]:
    onnxruntime = optional("onnxruntime", "surrogates", "regretless-bench")
    from regretless_bench.problems.data import data_folder

    folder = Path(data_folder("yahpo_rpart"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
    codes = json.loads((folder / "encoding.json").read_text())
    space = Space({
        "cp": rg.Float(0.0009118819655545162, 1.0, log=True), "maxdepth": rg.Int(1, 30), "minbucket": rg.Int(1, 100),
        "minsplit": rg.Int(1, 100), "impute": rg.Choice(["impute.mean", "impute.median", "impute.hist"]),
    })  # fmt: skip

    def values(setting: Mapping[str, Any]) -> Array:
        kinds = [codes["task_id"][task], codes["num.impute.selected.cpo"][setting["impute"]]]
        numbers = [setting[name] for name in ("cp", "maxdepth", "minbucket", "minsplit")]
        names = [i.name for i in session.get_inputs()]
        told = dict(zip(names, (np.array([kinds], np.int32), np.array([[*numbers, 1.0, 10]], np.float32)), strict=True))
        out = np.asarray(session.run(None, told)[0])[0]
        return np.array([-float(out[0]), float(out[6])])

    return space, values


def problem_of(name: str) -> tuple[Space, Values]:
    """The space and the values of a problem, by its name."""
    kind, *numbers = name.split("-")
    plain = {"truss4": four_bar_truss, "hatch": hatch_cover, "truss2": two_bar_truss, "brake": disc_brake}
    if kind in plain:
        return plain[kind]()
    if kind in ("table", "rpart"):
        return (training if kind == "table" else rpart)("-".join(numbers))
    return {"zdt": zdt, "dtlz": dtlz, "biobj": biobj}[kind](*map(int, numbers))


# ---------------------------------------------------------------- methods


def by_us(method: str, batch: int = 1) -> Callable[..., Iterator[Any]]:
    def loop(space: Space, k: int, trials: int, seed: int) -> Iterator[Any]:
        opt = rg.Optimizer(space, method, objectives=[f"f{j}" for j in range(k)], seed=seed, budget=trials)
        while True:
            asked, told = opt.ask(batch), []
            for trial in asked:
                told.append((yield trial.params))
            for trial, values in zip(asked, told, strict=True):
                opt.tell(trial, values)

    return loop


def by_optuna(sampler: str) -> Callable[..., Iterator[Any]]:
    def loop(space: Space, k: int, trials: int, seed: int) -> Iterator[Any]:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        made = {
            "gp": lambda: optuna.samplers.GPSampler(seed=seed, deterministic_objective=False),
            "tpe": lambda: optuna.samplers.TPESampler(seed=seed, multivariate=True),
            "nsga2": lambda: optuna.samplers.NSGAIISampler(seed=seed, population_size=20 if trials < 1000 else 100),
        }[sampler]()
        study = optuna.create_study(directions=["minimize"] * k, sampler=made)
        while True:
            trial = study.ask({name: as_distribution(p) for name, p in space.parameters.items()})
            study.tell(trial, list(map(float, (yield trial.params))))

    return loop


def as_distribution(p: Any) -> Any:
    import optuna

    if isinstance(p, rg.Choice):
        return optuna.distributions.CategoricalDistribution(list(p.labels))
    if isinstance(p, rg.Int):
        return optuna.distributions.IntDistribution(p.low, p.high, log=p.log, step=p.step or 1)
    return optuna.distributions.FloatDistribution(p.low, p.high, log=p.log, step=p.step)


def by_pymoo(name: str) -> Callable[..., Iterator[Any]]:
    def loop(space: Space, k: int, trials: int, seed: int) -> Iterator[Any]:
        from pymoo.algorithms.moo.nsga2 import NSGA2
        from pymoo.algorithms.moo.sms import SMSEMOA
        from pymoo.core.evaluator import Evaluator
        from pymoo.core.problem import Problem
        from pymoo.problems.static import StaticProblem

        cube = Problem(n_var=len(space), n_obj=k, xl=0.0, xu=1.0)
        algorithm = {"nsga2": NSGA2, "sms": SMSEMOA}[name](pop_size=20 if trials < 1000 else 100)
        algorithm.setup(cube, termination=("n_eval", 10 * trials), seed=seed, verbose=False)
        while True:
            asked = algorithm.ask()
            told = []
            for x in asked.get("X"):
                told.append((yield space.decode(np.clip(x, 0, 1))))
            Evaluator().eval(StaticProblem(cube, F=np.array(told)), asked)
            algorithm.tell(infills=asked)

    return loop


def by_botorch(space: Space, k: int, trials: int, seed: int) -> Iterator[Any]:
    import torch
    from botorch import fit_gpytorch_mll
    from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
    from botorch.models import ModelListGP, SingleTaskGP
    from botorch.models.transforms import Standardize
    from botorch.optim import optimize_acqf
    from botorch.sampling import SobolQMCNormalSampler
    from botorch.utils.multi_objective.hypervolume import infer_reference_point
    from botorch.utils.multi_objective.pareto import is_non_dominated
    from gpytorch.mlls import SumMarginalLogLikelihood

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    d, X, Y = len(space), [], []
    first = torch.quasirandom.SobolEngine(d, scramble=True, seed=seed).draw(2 * d + 2, dtype=torch.float64).numpy()
    while True:
        if len(X) < len(first):
            x = first[len(X)]
        else:
            points, values = torch.tensor(np.array(X)), -torch.tensor(np.array(Y))
            models = [SingleTaskGP(points, values[:, [j]], outcome_transform=Standardize(1)) for j in range(k)]
            model = ModelListGP(*models)
            fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
            below = infer_reference_point(values[is_non_dominated(values)])
            acquisition = qLogNoisyExpectedHypervolumeImprovement(
                model, below, points, sampler=SobolQMCNormalSampler(torch.Size([64]), seed=seed), prune_baseline=True
            )
            bounds = torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.float64)
            found, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=4, raw_samples=128)
            x = found.detach().numpy()[0]
        X.append(x)
        Y.append(np.array((yield space.decode(np.clip(x, 0, 1)))))


METHODS: dict[str, Callable[..., Iterator[Any]]] = {
    "auto": by_us("auto"), "auto, 4 at once": by_us("auto", 4), "auto, 16 at once": by_us("auto", 16),
    "sms-emoa": by_us("sms-emoa"), "random": by_us("random"),
    "optuna-gp": by_optuna("gp"), "optuna-tpe": by_optuna("tpe"), "optuna-nsga2": by_optuna("nsga2"),
    "pymoo-nsga2": by_pymoo("nsga2"), "pymoo-sms": by_pymoo("sms"), "botorch": by_botorch,
}  # fmt: skip
"""Loops that yield settings and are sent their values."""


def run(case: Case) -> dict[str, Any]:
    """The true values of a run, and the processor time of an ask."""
    warnings.simplefilter("ignore")
    space, values = problem_of(case.problem)
    rng = np.random.default_rng([case.seed, 77])
    probes = np.array([values(space.decode(u)) for u in rng.random((200, space.cube().dim))]) if case.noise else None
    k = len(values(space.decode(np.full(space.cube().dim, 0.5))))
    sd = case.noise * probes.std(axis=0) if probes is not None else np.zeros(k)
    loop = METHODS[case.method](space, k, case.trials, case.seed)
    true, spent, began = [], 0.0, time.process_time()
    setting = next(loop)
    for _ in range(case.trials):
        spent += time.process_time() - began
        y = values(setting)
        true.append(y)
        told = y + sd * rng.standard_normal(k)
        began = time.process_time()
        setting = loop.send(tuple(map(float, told)))
    return {**asdict(case), "ms": 1e3 * spent / case.trials, "values": np.round(true, 9).tolist()}


# ---------------------------------------------------------------- which


PEERS = ("auto", "optuna-gp", "optuna-tpe", "optuna-nsga2", "pymoo-nsga2", "pymoo-sms", "random")
FAST = ("auto", "optuna-tpe", "optuna-nsga2", "pymoo-nsga2", "pymoo-sms", "random")
LONG = ("auto", "sms-emoa", "pymoo-nsga2", "pymoo-sms", "random")


BATCHES = ("auto", "auto, 4 at once", "auto, 16 at once", "optuna-tpe", "pymoo-nsga2", "random")


def cases(sets: list[str]) -> Iterator[list[Case]]:
    """The cases, in blocks that are judged together."""
    zdts = [f"zdt-{n}-5" for n in (1, 2, 3, 6)]
    dtlzs = [f"dtlz-{n}-5-{k}" for n, k in ((2, 2), (7, 2), (2, 3), (5, 3), (7, 3), (2, 4))]
    tables = [f"table-{data}" for data in ("vehicle", "segment", "cifar10", "imagenet")]
    engineering = ["truss4", "hatch", "truss2", "brake"]
    families = {"zdt": zdts, "dtlz": dtlzs, "re": engineering, "tables": tables,
                "rpart": [f"rpart-{task}" for task in ("40499", "1475", "41163")]}  # fmt: skip
    blocks: list[list[Case]] = []
    if "short" in sets:
        for function in range(2, 56, 4):
            blocks.append([Case("biobj d=2", f"biobj-{function}-2-3", 40, m) for m in PEERS])
        for function in range(4, 56, 8):
            blocks.append([Case("biobj d=5", f"biobj-{function}-5-3", 100, m) for m in PEERS])
        for family, problems in families.items():
            blocks += [[Case(family, p, 60, m, seed=1) for m in PEERS] for p in problems]
    if "wide" in sets:
        for d, step, methods in ((10, 12, PEERS), (20, 12, FAST), (5, 8, PEERS)):
            for function in range(2, 56, step):
                blocks.append([Case(f"biobj d={d}", f"biobj-{function}-{d}-4", 20 * d, m) for m in methods])
    if "noise" in sets:
        blocks += [
            [Case("tables, noise", p, 60, m, seed=1, noise=0.15) for m in PEERS] for p in tables[:1] + tables[3:]
        ]
        for function in range(2, 56, 8):
            blocks.append([Case("biobj d=2, noise", f"biobj-{function}-2-3", 40, m, noise=0.15) for m in PEERS])
        for family in ("zdt", "re"):
            blocks += [
                [Case(f"{family}, noise", p, 60, m, seed=1, noise=0.15) for m in PEERS] for p in families[family]
            ]
    if "botorch" in sets:
        for p in ("truss4", "biobj-20-5-3", "zdt-3-5", "biobj-36-5-3", "dtlz-2-5-3", "biobj-6-2-3"):
            blocks.append([Case("beside botorch", p, 40, m, seed=2) for m in ("auto", "botorch", "optuna-gp")])
    if "batches" in sets:
        for function in range(4, 56, 8):
            blocks.append([Case("batches, biobj d=5", f"biobj-{function}-5-3", 100, m, seed=3) for m in BATCHES])
        blocks += [[Case("batches, re", p, 60, m, seed=3) for m in BATCHES] for p in engineering]
    if "long" in sets:
        for p in ("zdt-1-10", "zdt-4-10", "zdt-6-10", "dtlz-2-10-3", "dtlz-7-10-3", "biobj-20-10-3", "biobj-36-10-3"):
            blocks.append([Case("10,000 evaluations", p, 10_000, m) for m in LONG])
    yield from blocks


def run_all(out: Path, jobs: int, minutes: float, sets: list[str], methods: list[str]) -> None:
    """Runs what the file does not hold yet; after `minutes` nothing new begins, and what runs is dropped."""
    out.parent.mkdir(parents=True, exist_ok=True)
    done = {key_of(json.loads(line)) for line in out.read_text().splitlines()} if out.exists() else set()
    wanted = [case for block in cases(sets) for case in block if not methods or case.method in methods]
    todo = [case for case in wanted if key_of(asdict(case)) not in done]
    end = time.monotonic() + 60 * minutes
    with out.open("a") as file:
        pool = ProcessPoolExecutor(jobs)
        running: dict[Any, Case] = {}
        while (todo or running) and time.monotonic() < end:
            while todo and len(running) < jobs:
                case = todo.pop(0)
                running[pool.submit(run, case)] = case
            for future in wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done:
                case = running.pop(future)
                if future.exception() is None:
                    file.write(json.dumps(future.result()) + "\n")
                    file.flush()
                else:
                    print(f"{case.problem} {case.method}: {future.exception()!r}", flush=True)
        for process in list(getattr(pool, "_processes", {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)


def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("family", "problem", "trials", "method", "seed", "noise"))


# ---------------------------------------------------------------- tables


def table(path: Path) -> None:
    """Mean rank and share of the best hypervolume, by family."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    pooled: dict[str, list[Array]] = defaultdict(list)
    for row in rows:
        pooled[row["problem"]].append(np.array(row["values"]))
    references = {}
    for name, values in pooled.items():
        Y = -np.concatenate(values)
        front = Y[nondominated(Y)]
        low, span = front.min(axis=0), np.ptp(front, axis=0)
        references[name] = low - 0.1 * np.where(span > 0, span, 1.0)
    blocks: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        volume = hypervolume(-np.array(row["values"]), references[row["problem"]])
        blocks[row["family"], row["problem"], row["trials"], row["seed"], row["noise"]][row["method"]] = volume
        times[row["family"]][row["method"]].append(row["ms"])
    by_family: dict[str, list[dict[str, float]]] = defaultdict(list)
    for key, volumes in blocks.items():
        by_family[key[0]].append(volumes)
    for family, found in by_family.items():
        names = max((list(volumes) for volumes in found), key=len)
        whole = np.array([[volumes[m] for m in names] for volumes in found if set(names) <= set(volumes)])
        if not len(whole):
            continue
        ranks = np.array([rankdata(-row) for row in whole])
        share = whole / np.maximum(whole.max(axis=1, keepdims=True), 1e-300)
        print(f"\n{family}: {len(whole)} cases\n\n| method | mean rank | share of the best | ms an ask |")
        print("|---|---|---|---|")
        for i in np.argsort(ranks.mean(axis=0)):
            error = ranks[:, i].std() / math.sqrt(len(ranks))
            print(
                f"| {names[i]} | {ranks[:, i].mean():.2f} ± {error:.2f} | {share[:, i].mean():.3f}"
                f" | {np.mean(times[family][names[i]]):.1f} |"
            )


def times() -> None:
    """The processor time of an ask around 60 and 300 trials, in milliseconds: medians of eight."""
    for k in (2, 3):
        for trials in (60, 300):
            shown = []
            for name in ("auto", "optuna-gp") if trials == 60 else ("auto",):
                space, values = problem_of("zdt-1-5" if k == 2 else "dtlz-2-5-3")
                loop = METHODS[name](space, k, trials + 10, 0)
                setting, spent = next(loop), []
                for i in range(trials + 8):
                    told = tuple(values(setting))
                    began = time.process_time()
                    setting = loop.send(told)
                    if i >= trials:
                        spent.append(1e3 * (time.process_time() - began))
                shown.append(f"{name} {np.median(spent):.1f}")
            if trials == 300:
                opt = rg.Optimizer([(0, 1)] * 5, seed=0, budget=trials + 10)
                spent = []
                for i in range(trials + 8):
                    began = time.process_time()
                    trial = opt.ask()
                    if i >= trials:
                        spent.append(1e3 * (time.process_time() - began))
                    opt.tell(trial, float(((trial.x - 0.3) ** 2).sum() + 0.1 * np.sin(9 * trial.x).sum()))
                shown.append(f"one objective {np.median(spent):.1f}")
            print(f"{k} objectives, 5 parameters, {trials} trials: {', '.join(shown)} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table", "times"])
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/objectives.jsonl"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--sets", default="short,noise,batches,botorch,long,wide")
    parser.add_argument("--methods", default="", help="only these, separated by semicolons")
    given = parser.parse_args()
    if given.what == "run":
        run_all(given.out, given.jobs, given.minutes, given.sets.split(","), [m for m in given.methods.split(";") if m])
    elif given.what == "table":
        table(given.file or given.out)
    else:
        times()


if __name__ == "__main__":
    main()
