"""Runs the benchmarks named on the command line, or all of them, each printing its table."""

import importlib
import sys
import time

ALL = ("overhead", "doors", "gp_engine", "gp_threds", "ms_ucb", "tangent_region", "go_ucb", "bilevel")


def main() -> None:
    names = sys.argv[1:] or ALL
    unknown = [name for name in names if name not in ALL]
    if unknown:
        sys.exit(f"unknown benchmark {', '.join(unknown)}; known are {', '.join(ALL)}")
    for name in names:
        start = time.perf_counter()
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
        print(f"   ({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
