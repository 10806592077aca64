"""Speed of tangent-region and NeuralBO: asks and tells at n = 300 to 100,000, each against its limit, with NumPy's
matrix product as the yardstick.

    OMP_NUM_THREADS=1 python benchmarks/tangent_region.py

Processor time of one thread. Limits are the project's promises (width 256, 1000 candidates): 50 ms at n = 300, d = 20;
150 ms at n = 10,000 with at most 10 MB held beside the data; 1 s at n = 100,000, d = 100.
"""

import pickle
import time

import numpy as np

from regretless.auto import find_recipe
from regretless.testing import Loop

CASES = (
    ("tangent-region", 300, 20, 0.050),
    ("tangent-region", 1500, 20, 0.150),
    ("tangent-region", 10_000, 20, 0.150),
    ("tangent-region", 100_000, 100, 1.0),
    ("neural-bo", 300, 20, 0.150),
    ("neural-bo", 1000, 20, 0.300),
)


def yardstick() -> float:
    """Seconds of a 1000 x 1000 matrix product here and now."""
    A = np.random.default_rng(0).random((1000, 1000))
    times = []
    for _ in range(5):
        start = time.process_time()
        A @ A
        times.append(time.process_time() - start)
    return float(np.median(times))


def measure(name: str, n: int, dim: int, asks: int = 5) -> tuple[float, float, float]:
    """Median seconds of an ask after one new value, of the bulk tell with its first ask, and megabytes held."""
    rng = np.random.default_rng(1)
    X = rng.random((n, dim))
    loop = Loop(find_recipe(name).build(dim, seed=0))
    start = time.process_time()
    loop.tell(X, -((X - 0.4) ** 2).sum(1) + 0.1 * rng.standard_normal(n))
    loop.ask()
    first = time.process_time() - start
    times = []
    for _ in range(asks):
        loop.tell(rng.random((1, dim)), [0.0])
        start = time.process_time()
        loop.ask()
        times.append(time.process_time() - start)
    posterior = loop.method._model._posterior
    held = len(
        pickle.dumps([getattr(posterior, name, None) for name in ("_L", "_factors", "_moments", "_sums", "_maps")])
    )
    return float(np.median(times)), first, held / 1e6


def main() -> None:
    unit = yardstick()
    print(f"a 1000 x 1000 matrix product takes {1000 * unit:.1f} ms")
    print(
        "| method | n | d | ask | limit | asks in matrix products | first ask after a bulk tell | held |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    for name, n, dim, limit in CASES:
        ask, first, held = measure(name, n, dim)
        verdict = "kept" if ask <= limit else "MISSED"
        print(
            f"| {name} | {n} | {dim} | {1000 * ask:.1f} ms | {1000 * limit:.0f} ms, {verdict} | {ask / unit:.2f} "
            f"| {first:.2f} s | {held:.1f} MB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
