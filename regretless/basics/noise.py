"""Whether values show noise: known variances, options that state it, or settings that gave two different values.

A model's fitted noise is no evidence, and neither are neighbours whose values differ: ripples finer than the data look
the same to both (docs/lab/shares.md). Two values of one setting answer the question for good: they differ, or not.
"""

from dataclasses import dataclass, field

from regretless.basics.values import Array


def stated_noise(noise: float | None) -> bool | None:
    """What a known sd or variance says of the noise; None: nothing."""
    return None if noise is None else noise > 0


def shows_noise(X: Array, y: Array, yvar: Array) -> bool:
    """Whether values y (n) at settings X (n x d) with noise variances yvar (n, NaN unknown) show noise."""
    evidence = NoiseEvidence()
    evidence.observe(X, y, yvar, 0)
    return evidence.noisy_at is not None


@dataclass
class NoiseEvidence:
    """What a history says, taken in value by value: a pure function of the history."""

    exact: bool = False
    """Whether options say that values are exact: then repeated settings say nothing, a known variance alone does."""
    noisy_at: int | None = None
    """The number of values with which noise became certain; None: it is not."""
    exact_at: int | None = None
    """The number of values with which a setting first gave its value again; None: none has."""
    by_variance: bool = False
    """Whether the noise came as a known variance."""
    _first: dict[bytes, float] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether a repeated setting or a known variance has answered the question."""
        return self.noisy_at is not None or self.exact_at is not None

    def observe(self, X: Array, y: Array, yvar: Array, before: int) -> None:
        """Further points X (k x d), values y (k) and variances yvar (k, NaN unknown), after `before` others."""
        for n, (x, value, variance) in enumerate(zip(X, y.tolist(), yvar.tolist(), strict=True), before + 1):
            if self.noisy_at is not None:  # nothing revokes it
                return
            if variance > 0:
                self.noisy_at, self.by_variance = n, True
                self._first.clear()
                return
            if self.exact:
                continue
            key, repeated = x.tobytes(), len(self._first)
            first = self._first.setdefault(key, value)
            # 1e-9: values of one setting that differ by less than this share of their size differ by rounding alone
            if abs(value - first) > 1e-9 * max(abs(value), abs(first)):
                self.noisy_at = n
            elif len(self._first) == repeated and self.exact_at is None:
                self.exact_at = n
            if self.noisy_at is not None:
                self._first.clear()
