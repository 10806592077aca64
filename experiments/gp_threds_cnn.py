"""GP-ThreDS, Fig. 4 (c): five hyper-parameters of a small CNN on MNIST, 50 samples, beside the authors' published runs.

    python experiments/gp_threds_cnn.py --jobs 2                                        50 images per digit, 5 seeds
    python experiments/gp_threds_cnn.py --jobs 8 --out runs/cnn_full --full             1000 images per digit, 10 seeds
    python experiments/gp_threds_cnn.py --jobs 3 --out runs/cnn_full --full --device cuda    the same, trained on a GPU
    python experiments/gp_threds_cnn.py --report                                  the table from the records there are

The net is conv(k1, 10)-BN-ReLU-pool, conv(k2, 20)-BN-ReLU-pool, FC(n)-ReLU, FC(10), trained by SGD with momentum 0.9;
the value is the test accuracy, and f* is taken as 0.99. The full size trains 3 epochs of 10,000 images as the authors
do; the small one 3 epochs of 500. A setting's accuracy is computed once and kept in --out/cache; the noise of a sample
(sd 0.01) is drawn anew.

The authors start GP-ThreDS from a hand-picked setting and its rivals from random points, and plot time. The claim is
judged so: the rivals with their "own start", by the processor time of training and method. Beside it every method is
told that setting first, and curves are compared per sample. Own starts are run with --own-starts, with 4,000 images: in
the small size the hand-picked setting is no better than guessing. The authors' "Matern" kernel
mixes L1 and L2 distances; ours is Matern-5/2. The rivals' grid is all 23,808 settings and everybody's gamma is sqrt t,
as in the authors' code. The full size tests on all 10,000 test images, the small one on 100 per digit.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from regretless_bench.claims import chosen, experiment_options, needed, stored
from regretless_bench.finding import Finding, Table
from regretless_bench.methods import RIVALS
from regretless_bench.problems.data import data_folder, read_digits, reading
from regretless_bench.record import stamped
from regretless_bench.stats import quartiles
from regretless_bench.verdicts import Check, below, both_columns, checks_table, judged, lowest, not_run
from tqdm import tqdm

from regretless.basics.statefile import write_whole
from regretless.classics import CLASSICS
from regretless.method import Recipe, keyed_generator
from regretless.methods import METHODS
from regretless.report.page import Band, Curve, curves_chart
from regretless.testing import Loop

F_STAR, NOISE, T = 0.99, 0.01, 50
MOMENTUM = 0.9
START = (2 / 3, 1 / 3, 1 / 3, 2 / 3, 0.8)
"""The first sample of the authors' test: batches of 256, kernels 5 and 5, 30 units, rate 0.01."""
NOISES = 401
"""Stream of the noise."""
KNOWN = {"kernel": "matern52", "lengthscale": 0.2, "noise_sd": NOISE}
TESTS = {"interval": (0.3, 1.4), "delta": 2e-2, "threshold_slack": 0.1, "patience": 8}
THREDS = {**KNOWN, **TESTS, "points_per_axis": (4, 4, 4, 4, 6)}
WHOLE = {**KNOWN, "points_per_axis": (8, 4, 4, 31, 6)}
"""The rivals' grid: every one of the 23,808 settings, as in the authors' code."""
RECIPES: dict[str, Recipe] = {
    "GP-ThreDS (paper)": METHODS["gp-threds-printed"](gain="root", assumed_norm=0.5, **THREDS),
    "GP-ThreDS": METHODS["gp-threds"](**THREDS),
    "range unknown": METHODS["gp-threds"],
    "IGP-UCB": RIVALS["igp-ucb"](fitted=False, gain="root", delta=2e-2, **WHOLE),
    "AD": RIVALS["adaptive-discretization"](fitted=False, **KNOWN),
    "GP-EI": RIVALS["grid-ei"](fitted=False, margin=0.01, **WHOLE),
    "GP-PI": RIVALS["grid-pi"](fitted=False, margin=0.01, **WHOLE),
    "random": CLASSICS["random"],
}
PAPER_CURVE = "GP-ThreDS (paper)"
OWN_START = ", own start"
"""Of labels: not told START."""
MOST_SEEDS = 100
THEIRS = {PAPER_CURVE: "GPTDS", "AD": "AD", "IGP-UCB": "IGP_UCB", "GP-EI": "EI", "GP-PI": "PI"}

# ---------------------------------------------------------------- the objective


class Size(NamedTuple):
    """How much a net is trained and tested: images per digit, epochs, test images per digit."""

    images: int
    epochs: int
    tested: int

    def __str__(self) -> str:
        return f"i{self.images}e{self.epochs}t{self.tested}"


SMALL, MIDDLE, FULL = Size(50, 3, 100), Size(400, 3, 200), Size(1000, 3, 10_000)
"""The middle size has the rivals' own starts: the hand-picked setting reaches 0.85 there, 0.95 in the full size and
0.10 in the small one. The full size tests on all of the 10,000 test images."""


def setting(x: np.ndarray) -> tuple[int, int, int, int, int]:
    """Batch size, two kernel sizes, hidden units and minus the exponent of the learning rate, of a point of the cube
    (the authors' map)."""
    step = [max(1, math.ceil(levels * float(u))) for levels, u in zip((8, 4, 4, 31, 6), x, strict=True)]
    return 2 ** (2 + step[0]), 2 * step[1] + 1, 2 * step[2] + 1, 9 + step[3], 7 - step[4]


@lru_cache(maxsize=2)
def digits(size: Size, folder: str | None, device: str) -> tuple[Any, Any, Any, Any]:
    """Training and test images (n x 1 x 28 x 28, in [0, 1]) and labels as tensors: the first ones of every digit."""
    import torch

    place, parts = data_folder("mnist", folder), []
    for name, count in (("train", size.images), ("t10k", size.tested)):
        images, labels = read_digits(place, name)
        pick = np.concatenate([np.flatnonzero(labels == digit)[:count] for digit in range(10)])
        parts += [
            torch.from_numpy(images[pick][:, None].astype(np.float32) / 255),
            torch.from_numpy(labels[pick].astype(np.int64)),
        ]
    return parts[0].to(device), parts[1].to(device), parts[2].to(device), parts[3].to(device)


def accuracy(
    batch: int, k1: int, k2: int, hidden: int, exponent: int, size: Size, folder: str | None, device: str
) -> float:
    """The test accuracy after training; start and batches are keyed on the setting. A last batch that is not full is
    left out, as in MATLAB."""
    import torch
    from torch import nn

    x, labels, x_test, labels_test = digits(size, folder, device)
    side = ((28 - k1 + 1) // 2 - k2 + 1) // 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(np.random.SeedSequence([batch, k1, k2, hidden, exponent]).generate_state(1)[0]))
        net = nn.Sequential(
            nn.Conv2d(1, 10, k1), nn.BatchNorm2d(10), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(10, 20, k2), nn.BatchNorm2d(20), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(20 * side * side, hidden), nn.ReLU(), nn.Linear(hidden, 10),
        ).to(device=device, memory_format=torch.channels_last)  # fmt: skip
        optimizer = torch.optim.SGD(net.parameters(), lr=10.0**-exponent, momentum=MOMENTUM)
        batch = min(batch, len(x))
        picked = torch.arange(batch, device=device)

        def step() -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[picked]), labels[picked]).backward()
            optimizer.step()

        if device.startswith("cuda"):
            step = recorded(step, net, optimizer)
        for _ in range(size.epochs):
            for rows in torch.randperm(len(x)).to(device).split(batch):
                if len(rows) == batch:
                    picked.copy_(rows)
                    step()
        net.eval()
        with torch.no_grad():
            guess = torch.cat([net(part).argmax(dim=1) for part in x_test.split(1000)])
    return float((guess == labels_test).double().mean())


def recorded(step: Callable[[], None], net: Any, optimizer: Any) -> Callable[[], None]:
    """A training step as one CUDA graph: the nets are so small that a step is all launches. Net and momentum are as
    before the recording."""
    import torch

    before = {name: value.clone() for name, value in net.state_dict().items()}
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    net.load_state_dict(before)
    for state in optimizer.state.values():
        state["momentum_buffer"].zero_()  # 0.9 * 0 + gradient: as the first step without a buffer
    return lambda: graph.replay()  # type: ignore[no-any-return]


def cached(x: np.ndarray, size: Size, folder: str | None, device: str, cache: Path) -> tuple[float, float]:
    """The accuracy at a point of the cube and the processor seconds of its training, done at most once per setting."""
    values = setting(x)
    path = cache / f"{'-'.join(map(str, values))}-{size}.json"
    try:
        found, seconds = path.read_text().split()
        return float(found), float(seconds)
    except (FileNotFoundError, ValueError):  # not trained yet, or a damaged file: training gives the same number again
        begin = time.process_time()
        reached = accuracy(*values, size, folder, device)
        took = time.process_time() - begin
        write_whole(path, f"{reached!r} {took!r}".encode())
        return reached, took


# ---------------------------------------------------------------- runs


def study(label: str, seed: int, size: Size, folder: str | None, device: str, out: Path) -> None:
    """One run, recorded: the accuracy of every sample and of the recommendation."""
    import torch

    torch.set_num_threads(1)
    clock = time.process_time()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="GP-ThreDS in 5 dimensions")  # this is the paper's setting
        loop = Loop(RECIPES[label.removesuffix(OWN_START)].build(5, seed=seed, budget=T))
    found, seconds = [], []
    for step in range(T):
        begin = time.process_time()
        X = loop.ask() if step or label.endswith(OWN_START) else np.array([START])
        asked = time.process_time() - begin
        value, training = cached(X[0], size, folder, device, out / "cache")
        begin = time.process_time()
        loop.tell(X, value + NOISE * float(keyed_generator(seed, step, stream=NOISES).standard_normal()))
        found.append(value)
        seconds.append(asked + training + time.process_time() - begin)
    best = loop.recommend()
    end, _ = cached(best, size, folder, device, out / "cache")
    record = {
        "label": label,
        "seed": seed,
        "size": str(size),
        "accuracy": found,
        "seconds": seconds,
        "recommended": end,
        "setting": setting(best),
        "cpu": time.process_time() - clock,
    }
    write_whole(_path(out, label, seed, size), stamped(record))


CONVERGES = (
    "For the case of CNN, ... run time of GP-ThreDS is comparable to that of AD while offering better convergence"
)
IMPROVED = "The plots clearly demonstrate the improved convergence of GP-ThreDS"
CLAIMED = {"AD": CONVERGES, "IGP-UCB": IMPROVED}
"""What the paper compares with, and what it says (Sec. 5, Fig. 4). GP-EI and GP-PI, which the authors' published runs
have, stand beside."""
COLUMNS = ("method", "runs", "average regret", "authors'", "recommended accuracy", "best seen")


def finding(records: list[dict[str, Any]], folder: str | None, size: Size) -> Finding:
    """Average regret over the samples and the accuracy of the recommendation, ours and theirs, and what follows for the
    paper's claim."""
    try:
        path = data_folder("gp_threds_published_runs", folder) / "runs.npz"
        with reading(path), np.load(path) as runs:
            published = {label: runs[f"cnn__{name}__regret"][:, :T] for label, name in THEIRS.items()}
    except FileNotFoundError:
        published = {}
    by_label: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if record.get("size", str(size)) == str(size):
            by_label.setdefault(record["label"], []).append(record)
    rows: list[list[str | float]] = []
    middle: dict[str, float] = {}
    curves = []
    for label in [name for name in _labels(full=True) if name in by_label]:
        group = by_label[label]
        theirs = spread(published[label].mean(axis=1)) if label in published else ""
        regret = np.array([F_STAR - np.array(r["accuracy"]) for r in group])
        end, seen = np.array([r["recommended"] for r in group]), np.array([max(r["accuracy"]) for r in group])
        rows.append([label, len(group), spread(regret.mean(axis=1)), theirs, spread(end), spread(seen)])
        middle[label] = float(np.median(regret.mean(axis=1)))
        curves.append(_curve(label, regret))
    curves += [_curve(f"{label}, authors", regret, dash=True) for label, regret in published.items()]
    by_seed = {
        label: {r["seed"]: F_STAR - float(np.mean(r["accuracy"])) for r in group} for label, group in by_label.items()
    }
    shared = sorted(set.intersection(*(set(values) for values in by_seed.values()))) if by_seed else []
    averages = {label: np.array([values[seed] for seed in shared]) for label, values in by_seed.items()}
    labels = (PAPER_CURVE, "GP-ThreDS")
    others = [rival for rival in THEIRS if rival != PAPER_CURVE and rival not in CLAIMED]
    good, ours = ([check for rival, quote in CLAIMED.items() for check in against(averages, label, rival, quote)]
                  for label in labels)  # fmt: skip
    checks, seeds = by_time(records)
    beside = [check for label in labels for rival in others for check in against(averages, label, rival)]
    verdict, sentence = judged(checks, min(seeds, len(shared)), good)
    ranked = ", ".join(f"{label} {value:.3f}" for label, value in sorted(middle.items(), key=lambda item: item[1]))
    return Finding(
        "gp-threds", "fig4cd", "five hyper-parameters of a CNN",
        "GP-ThreDS has a lower average regret than AD and IGP-UCB on the CNN after 50 samples.",
        verdict, f"{sentence} Median average regret after {T} samples: {ranked}.",
        {"size": "full" if size == FULL else "quick", "samples": T, "images per digit": size.images,
         "epochs": size.epochs, "runs each": min(len(group) for group in by_label.values())},
        [("average regret", curves_chart(curves, log_y=True))] if curves else [],
        [*both_columns(checks, good), checks_table(ours, "beside the claim: the same checks of our default"),
         checks_table(beside, "beside the claim: against GP-EI and GP-PI"),
         Table("after 50 samples: median (quartiles) over runs", COLUMNS, rows)], sum(r["cpu"] for r in records),
    )  # fmt: skip


def by_time(records: list[dict[str, Any]]) -> tuple[list[Check], int]:
    """The claim as the paper plots it: rivals from their own starts, the average regret at the seconds in which
    GP-ThreDS takes its samples. Also the seeds behind it, those of the largest size that has such runs."""
    timed = [r for r in records if "seconds" in r and (r["label"] == PAPER_CURVE or r["label"].endswith(OWN_START))]
    sizes = [
        str(size) for size in (FULL, MIDDLE) if any(r["size"] == str(size) for r in timed if OWN_START in r["label"])
    ]
    runs = {(r["label"], r["seed"]): r for r in timed if r["size"] == (sizes or [""])[0]}
    found = []
    for rival, quote in CLAIMED.items():
        other = rival + OWN_START
        seeds = sorted(seed for label, seed in runs if label == other and (PAPER_CURVE, seed) in runs)
        if not seeds:
            found.append(not_run(f"against {other}", "not run in this size", quote))
            continue
        until = float(np.median([sum(runs[PAPER_CURVE, seed]["seconds"]) for seed in seeds]))
        losses = [np.array([until_then(runs[label, seed], until) for seed in seeds]) for label in (PAPER_CURVE, other)]
        text = f"against {other} after {until:.3g} CPU seconds of training and method ({sizes[0]})"
        found.append(below(text, *losses, "average regret", quote=quote))
    return found, len({seed for _, seed in runs})


def until_then(record: dict[str, Any], until: float) -> float:
    """The average regret of the samples taken in these seconds; a run that ends before stays where it is."""
    taken = int(np.searchsorted(np.cumsum(record["seconds"]), until, side="right"))
    return F_STAR - float(np.mean(record["accuracy"][: max(taken, 1)]))


def against(averages: Mapping[str, np.ndarray], label: str, rival: str, quote: str = "") -> list[Check]:
    """Whether a method's average regret (by label, one per seed) is below a rival's, and below it from the rival's own
    start where that ran; nothing where the method did not run, or no seed is shared."""
    if label not in averages or not len(averages[label]):
        return []
    found = []
    for other in (m for m in (rival, rival + OWN_START) if m in averages):
        both = {m: averages[m] for m in (label, other)}
        found.append(lowest(f"against {other}", both, label, "average regret", quote=quote))
    return found


def _labels(*, full: bool) -> list[str]:
    """What is run: in the small size the paper's methods, our default and random points."""
    beside = ("random", "range unknown")
    if not full:
        return [label for label in RECIPES if label != beside[1]]
    return [*RECIPES, *(label + OWN_START for label in RECIPES if label not in beside)]


def _curve(label: str, regret: np.ndarray, dash: bool = False) -> Curve:
    average = np.maximum(np.cumsum(regret, axis=1) / np.arange(1, regret.shape[1] + 1), 1e-4)
    low, median, high = quartiles(average)
    return Curve(
        label, {"samples": np.arange(1, regret.shape[1] + 1)}, {"average regret": Band(median, low, high)}, dash
    )


def spread(values: np.ndarray) -> str:
    """A median with its quartiles, as text."""
    low, median, high = quartiles(values[:, None])[:, 0]
    return f"{median:.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=None, help="labels, separated by semicolons; all by default")
    parser.add_argument(
        "--own-starts",
        action="store_true",
        help="GP-ThreDS and the rivals from their own starts alone, 4,000 images",
    )
    parser.add_argument("--device", default="cpu", help="where the nets are trained, as PyTorch names it")
    options = experiment_options(
        parser, "runs/gp_threds_cnn", seeds=(5, 10), data="mnist", beside="gp_threds_published_runs"
    )
    size = MIDDLE if options.own_starts else FULL if options.full else SMALL
    data = None if options.data is None else str(options.data)
    usual = (
        [PAPER_CURVE, *(rival + OWN_START for rival in CLAIMED)] if options.own_starts else _labels(full=options.full)
    )
    labels = chosen(options.methods, _labels(full=True), ";") if options.methods else usual
    cells = [(label, seed) for seed in range(options.seeds) for label in labels]
    missing = [] if options.report else [cell for cell in cells if not _path(options.out, *cell, size).exists()]
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(study, *cell, size, data, options.device, options.out) for cell in missing]
        for done in tqdm(as_completed(running), total=len(running), unit="run"):
            done.result()
    sizes, everyone = (size,) if options.own_starts else (size, MIDDLE), _labels(full=True)
    found = [_path(options.out, *of, at) for of in product(everyone, range(MOST_SEEDS)) for at in sizes]
    records = needed(stored(found), options)
    if options.own_starts:
        for check in by_time(records)[0]:
            print(f"{check.what}: {check.found}")
        return
    result = finding(records, data, size)
    for line in (COLUMNS, ["---"] * len(COLUMNS), *result.tables[-1].rows):
        print("| " + " | ".join(map(str, line)) + " |")
    result.write(options.out)
    print(f"{result.verdict}: {result.sentence}")


def _path(out: Path, label: str, seed: int, size: Size) -> Path:
    return out / f"{label.replace(' ', '_')}-n{T}-{size}-whole-s{seed}.json"


if __name__ == "__main__":
    main()
