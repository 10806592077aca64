"""Every random stream of the bench, by name; those of the library are in `regretless.basics.streams`.

Numbers stay as they are once released: they key the instances, the noise and the initial points of published records.
"""

from enum import IntEnum


class BenchStream(IntEnum):
    """The third key of `keyed_generator`."""

    NOISE = 101
    """The noise of an evaluation; its step is the evaluation's number."""
    INSTANCE = 102
    """What makes an instance of a problem: a shift, an embedding, a target."""
    SPREAD = 103
    """The points over which the standard deviation of a function is measured."""
    CHECKED_POINTS = 104
    """The points at which `check_problem` looks."""
    INITIAL_POINTS = 201
    """The scrambling of the initial points that all methods of a comparison share."""
    WARM_UP = 202
    """The points a method is warmed up with."""
    PEER_SEED = 301
    """The seeds that other libraries are given."""
