"""Finding a document by its category alone: real Amazon reviews, scored by hierarchical F1 against an unknown target
(NeuralBO, Sec. 7.2.2).

A document is a row of word counts (the authors' code has TF-IDF); its score is how much of its category path it shares
with the target's. The optimiser names rows; what it may learn from is in `features`, for methods that take a finite
pool (`NeuralBO(candidates=problem.features)`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.method import keyed_generator
from regretless.space import Space
from regretless.space.parameters import Array, Int
from regretless_bench.problems.data import COLUMNS, data_folder, read_csv
from regretless_bench.problems.problem import Problem
from regretless_bench.streams import BenchStream

LEVELS = 3
Features: TypeAlias = Literal["counts", "tf-idf"]

WORDS, LONGEST = 500, 4
"""Vocabulary, and the longest n-gram in it (the authors' settings)."""


@lru_cache(maxsize=2)
def corpus(
    folder: str | None = None, words: int = WORDS, features: Features = "counts"
) -> tuple[Array, NDArray[np.int64]]:
    """Word counts or TF-IDF features (n x words) and category paths as whole numbers (n x 3: node of each level), of
    all reviews."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    name = "amazon_reviews_hierarchical"
    _, *columns = COLUMNS[name]
    rows = read_csv(data_folder(name, folder) / "reviews.csv.gz", COLUMNS[name])
    names = [tuple(row[column] for column in columns) for row in rows]
    known = [i for i, path in enumerate(names) if "unknown" not in path]
    maker = CountVectorizer if features == "counts" else TfidfVectorizer
    vectors = maker(max_features=words, ngram_range=(1, LONGEST), stop_words="english", dtype=np.float64)
    table: Array = vectors.fit_transform([rows[i]["Text"] for i in known]).toarray()
    nodes: dict[tuple[str, ...], int] = {}
    paths = [[nodes.setdefault(names[i][:level], len(nodes)) for level in range(1, LEVELS + 1)] for i in known]
    return table, np.array(paths, dtype=np.int64)


def hierarchical_f1(path: NDArray[np.int64], paths: NDArray[np.int64]) -> Array:
    """F1 of one path (k nodes, root first) against each of n paths (n x k), n."""
    shared = (np.asarray(paths) == np.asarray(path)).sum(axis=1)
    score: Array = shared / len(path)  # P = R = shared / k when both have k nodes
    return score


class Reviews(Problem):
    """Retrieve the review nearest in category to a hidden one; the space numbers the other reviews.

    Args:
        target: the hidden review; None draws one from the seed among those whose path is not theirs alone.
        words: size of the vocabulary.
        features: "counts" of the words (the paper's text), or "tf-idf" (the authors' code).
        folder: where the data sets are.
    """

    def __init__(
        self,
        *,
        target: int | None = None,
        words: int = WORDS,
        features: Features = "counts",
        folder: str | None = None,
        seed: int = 0,
    ) -> None:
        if features not in ("counts", "tf-idf"):
            raise ValueError(f"features must be 'counts' or 'tf-idf', got {features!r}")
        table, paths = corpus(folder, words, features)
        if target is None:
            _, leaf, count = np.unique(paths[:, -1], return_inverse=True, return_counts=True)
            target = int(keyed_generator(seed, 2, stream=BenchStream.INSTANCE).choice(np.flatnonzero(count[leaf] > 1)))
        if not 0 <= target < len(paths):
            raise ValueError(f"target must be a row of the {len(paths)} reviews, got {target!r}")
        others = np.arange(len(paths)) != target
        self.features = table[others]
        """Features of the documents that can be retrieved, n x words, row i being document i."""
        self.scores = hierarchical_f1(paths[target], paths[others])
        """The F1 of every document, n."""
        space = Space({"document": Int(0, len(self.scores) - 1)})
        super().__init__("reviews", space, direction="maximize", optimum=float(self.scores.max()), seed=seed)

    def _true(self, params: dict[str, Any]) -> float:
        return float(self.scores[int(params["document"])])


def reviews(
    *,
    target: int | None = None,
    words: int = WORDS,
    features: Features = "counts",
    folder: str | None = None,
    seed: int = 0,
) -> Reviews:
    """Document retrieval: hierarchical F1 over 9045 real reviews, a finite pool."""
    return Reviews(target=target, words=words, features=features, folder=folder, seed=seed)
