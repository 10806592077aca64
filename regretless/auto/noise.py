"""What the history says about noise: told variances, and settings that were evaluated more than once.

Two values of one setting answer the question for good: they differ, or they do not. A fitted noise variance alone
cannot, because ripples finer than the data look like noise to a smooth model.
"""

from dataclasses import dataclass, field

from regretless.parameters import Array

ROUNDING = 1e-9  # values of one setting that differ by less than this share of their size differ by rounding alone


@dataclass
class NoiseEvidence:
    """Taken in value by value, in the order told: a pure function of the history."""

    noisy_at: int | None = None
    """The number of values with which noise became certain; None: it is not."""
    exact_at: int | None = None
    """The number of values with which a setting first gave its value again; None: none has."""
    told: bool = False
    """Whether the noise was told, as a variance."""
    _first: dict[bytes, float] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether a repeated setting or a told variance has answered the question."""
        return self.noisy_at is not None or self.exact_at is not None

    def take_in(self, X: Array, y: Array, yvar: Array, before: int) -> None:
        """Further points X (k x d), values y (k) and told variances yvar (k, NaN unknown), after `before` others."""
        for n, (x, value, variance) in enumerate(zip(X, y.tolist(), yvar.tolist(), strict=True), before + 1):
            if self.noisy_at is not None:  # nothing revokes it
                return
            key, repeated = x.tobytes(), len(self._first)
            first = self._first.setdefault(key, value)
            if variance > 0:
                self.noisy_at, self.told = n, True
            elif abs(value - first) > ROUNDING * max(abs(value), abs(first)):
                self.noisy_at = n
            elif len(self._first) == repeated and self.exact_at is None:
                self.exact_at = n
            if self.noisy_at is not None:
                self._first.clear()
