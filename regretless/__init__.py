"""regretless: black-box optimisation that says how much regret may be left, and when to stop."""

from regretless.space import Choice, Float, Int, Space

__version__ = "0.1.0"
__all__ = ["Choice", "Float", "Int", "Space"]
