"""The model's step where noise is certain, and large in the fit.

Three asks in four go where a value is expected to raise the best mean most (`knowledge.py`), the fourth to the best
point of a drawn function (Thompson). Beside points under way drawn functions and a wider confidence bound take turns.
The last tenth of a budget evaluates the best values again, which tells ripples from noise (`luck.py`), and then the
largest mean.
"""

from regretless.auto.knowledge import knowledge_step
from regretless.auto.luck import noise_is_guessed, to_repeat
from regretless.auto.steps import Ask, bound_step, drawn_step, narrowed
from regretless.models.gp.design import away_from_known
from regretless.models.gp.posterior import GP
from regretless.space.parameters import Array

DRAWN_EVERY = 4
"""Under noise every so many asks follow a drawn function, the others the knowledge gradient, which may overlook a peak
that no value has shown yet; without such asks the losses are level (docs/lab/auto.md)."""


def noise_shows(gp: GP) -> bool:
    """Whether the fitted noise is large enough to matter."""
    # 1e-3: the fitted noise variance, relative to the signal's, from which noise is suspected and matters
    return float(gp.factor.noise.mean()) >= 1e-3


def noisy_step(ask: Ask, *, again: bool) -> Array:
    """The next point, d; `again`: known points may be proposed again."""
    # 0.9: the share of a known budget after which the mean alone is maximised; an end of two evaluations is level
    # (docs/lab/auto.md)
    late = ask.spent(0.9)
    if late and not ask.pending:
        second = to_repeat(ask.history) if noise_is_guessed(ask.history) else None
        return bound_step(ask, 0.0) if second is None else second
    # constraints, costs and a prior weigh what is proposed; the knowledge gradient knows the objective alone
    weighed = ask.history.n_side_values > 0 or ask.cube.belief is not None
    if not (late or ask.pending or weighed) and ask.rng.step % DRAWN_EVERY:
        x = knowledge_step(ask.gp, ask.history, ask.cube, ask.rng)
        if x is not None:
            return x if again else away_from_known(x, ask.history, ask.cube, ask.rng)
    # 2.0: the width of the confidence bound under noise: one good value may be luck (docs/lab/auto.md)
    return bound_step(ask, narrowed(2.0, ask.pending)) if ask.rng.step % 2 else drawn_step(ask)
