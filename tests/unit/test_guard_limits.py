"""The guard's two limits: only what is above both is held."""

from __future__ import annotations

import pytest

from ebbtide.organise.guard import holds
from ebbtide.policy.document import Guard


@pytest.mark.parametrize(
    ("fraction", "least", "due", "of", "held"),
    [
        (0.25, 20, 20, 20, False),  # exactly min_objects, and all of them
        (0.25, 20, 21, 21, True),
        (0.25, 20, 21, 84, False),  # exactly the fraction
        (0.25, 20, 21, 83, True),
        (0.25, 20, 745, 931, True),
        (0.29, 20, 29, 100, False),  # 0.29 · 100 is below 29 as floats
        (0.29, 20, 30, 100, True),
        (0.0, 0, 1, 1_000_000, True),
        (0.0, 0, 0, 0, False),
        (1.0, 0, 5, 5, False),
    ],
)
def test_only_what_is_above_both_limits_is_held(fraction, least, due, of, held) -> None:
    assert holds(due, of, Guard(max_fraction=fraction, min_objects=least)) is held
