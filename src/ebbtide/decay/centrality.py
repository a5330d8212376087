"""Centrality κ: how much of an object's salience it owes to being referred to (RFC-0007 section 11).

κ = weight · in-degree / largest in-degree of a memory in the namespace. The term is replaced, never added again: where
κ changes, the decaying part changes by the difference, within [0, 1].
"""

from typing import Any

from ebbtide.decay.maths import Maths, decimals9


def kappa(m: Maths, weight: float, degree: Any, largest: Any) -> Any:
    """κ of an object with an in-degree of at least 0, in a graph whose largest is at least 1; rounded as stored."""
    return decimals9(m, m.real(degree) / m.real(largest) * weight)


def replaced(m: Maths, decaying: Any, old: Any, new: Any) -> Any:
    """The decaying part, unrounded as it stands, once one κ takes another's place; rounded as stored."""
    return decimals9(m, m.least(1.0, m.greatest(0.0, decaying + new - old)))
