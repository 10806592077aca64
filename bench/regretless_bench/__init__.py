"""Comparisons: `runner` runs them, `record` keeps them, `stats`, `plots` and `report` read them; `peers` are other
libraries as methods.

`problems` holds what methods are compared on, `claims` and `finding` judge the papers' sentences, `reproduce` reruns
their figures. This is a distribution of its own, so that an installation for tuning stays small.
"""

__version__ = "1.0.0"
