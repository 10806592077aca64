"""Look-up tables of real trainings: HPOBench's MLP grid (Eggensperger et al. 2021) and NAS-Bench-201 (Dong and Yang
2020).

A table holds the validation accuracy of every configuration for several training seeds. The noiseless value is the mean
over the seeds; an evaluation draws one of them, which is what a user sees who trains once. Data: the folder
`hpo_tables` (see `problems.data`).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless.space import Space
from regretless.space.parameters import Choice, Int
from regretless_bench.problems.data import data_folder, reading
from regretless_bench.problems.problem import Observation, Problem

MLP_DATA = ("car", "phoneme", "vehicle", "australian", "kc1", "segment", "blood_transfusion", "credit_g")
NAS_DATA = ("cifar10", "cifar100", "imagenet")


class Tabular(Problem):
    """A table of scores, maximised: axis i belongs to parameter i, the last axis to the repetitions (NaN where there is
    none).

    Args:
        scores: the table.
        single: an evaluation is one repetition drawn at random; otherwise it is the mean.
    """

    def __init__(self, name: str, space: Space, scores: NDArray[np.floating[Any]], *, single: bool) -> None:
        self._scores = np.asarray(scores, dtype=np.float64)
        self._means = np.nanmean(self._scores, axis=-1)
        best = np.argwhere(self._means == self._means.max())
        values = [_values(parameter) for parameter in space.parameters.values()]
        optima = [{name: known[i] for name, known, i in zip(space.names, values, place, strict=True)} for place in best]
        super().__init__(name, space, direction="maximize", optimum=float(self._means.max()), optima=optima)
        self._positions = [{value: i for i, value in enumerate(known)} for known in values]
        self.single = single

    def share_better(self, value: float) -> float:
        """The share of settings whose noiseless value is larger, counting one more so that the optimum's is 1 /
        settings and not 0."""
        return (int((self._means > value).sum()) + 1) / int(self._means.size)

    def _place(self, params: dict[str, Any]) -> tuple[int, ...]:
        return tuple(known[params[name]] for known, name in zip(self._positions, self.space.names, strict=True))

    def _true(self, params: dict[str, Any]) -> float:
        return float(self._means[self._place(params)])

    def _observe(self, params: dict[str, Any], rng: np.random.Generator) -> Observation:
        value = self._true(params)
        if not self.single:
            return Observation(value + self.noise_sd * float(rng.standard_normal()), value)
        repetitions = self._scores[self._place(params)]
        known = repetitions[~np.isnan(repetitions)]
        return Observation(float(known[int(rng.random() * len(known))]), value)


def _values(parameter: Any) -> list[Any]:
    return list(parameter.labels) if isinstance(parameter, Choice) else list(range(parameter.low, parameter.high + 1))


@functools.cache
def _table(file: str, folder: str | None) -> dict[str, NDArray[Any]]:
    path = data_folder("hpo_tables", folder) / file
    with reading(path), np.load(path, allow_pickle=False) as stored:
        found = dict(stored)
        names = ("param_names", *(MLP_DATA if "mlp" in file else NAS_DATA))
        if lacking := [name for name in names if name not in found]:
            raise ValueError(f"no table {lacking[0]!r}; it has {', '.join(found) or 'none'}")
        return found


def hpobench_mlp(*, data_set: str = "car", single: bool = True, data: str | None = None) -> Tabular:
    """HPOBench MLP tables: alpha, batch size, depth, learning rate and width as positions on their grids, 30,000
    trainings x 5 seeds."""
    if data_set not in MLP_DATA:
        raise ValueError(f"data_set must be one of {', '.join(MLP_DATA)}, got {data_set!r}")
    table = _table("hpobench_mlp.npz", data)
    space = Space({str(name): Int(0, len(table[f"grid__{name}"]) - 1) for name in table["param_names"]})
    return Tabular(f"hpobench-mlp-{data_set}", space, table[data_set], single=single)


def nasbench201(*, data_set: str = "cifar10", single: bool = True, data: str | None = None) -> Tabular:
    """NAS-Bench-201 tables: six unordered choices among five operations, 15,625 cells with up to 3 seeds, accuracy in
    per cent."""
    if data_set not in NAS_DATA:
        raise ValueError(f"data_set must be one of {', '.join(NAS_DATA)}, got {data_set!r}")
    table = _table("nasbench201.npz", data)
    space = Space({str(name): Choice([str(op) for op in table[f"grid__{name}"]]) for name in table["param_names"]})
    return Tabular(f"nasbench201-{data_set}", space, table[data_set], single=single)
