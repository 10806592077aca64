"""What can be asked: parameters, spaces of them, and the unit cube that methods see."""

from regretless.space.cube import Cube
from regretless.space.parameters import MOST_ONEHOT, Encoding
from regretless.space.space import Space, SpaceLike
from regretless.space.spelling import read_toml

__all__ = ["MOST_ONEHOT", "Cube", "Encoding", "Space", "SpaceLike", "read_toml"]
