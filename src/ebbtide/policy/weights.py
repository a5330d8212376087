"""FSRS-6's 21 weights w0 … w20: what they are by default, and the range each may have.

Defaults and ranges are those of py-fsrs 6. w0 to w3 are the stability in days that a memory begins with, by grade; w20
is the exponent of the curve.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

# fmt: off
FSRS_6: tuple[float, ...] = (
    0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796, 1.4835, 0.0614, 0.2629,
    1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542,
)

RANGES: tuple[tuple[float, float], ...] = (
    (0.001, 100), (0.001, 100), (0.001, 100), (0.001, 100), (1, 10), (0.001, 4), (0.001, 4), (0.001, 0.75), (0, 4.5),
    (0, 0.8), (0.001, 3.5), (0.001, 5), (0.001, 0.25), (0.001, 0.9), (0, 4), (0, 1), (1, 6), (0, 2), (0, 2), (0, 0.8),
    (0.1, 0.8),
)
# fmt: on


def _checked(value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != len(RANGES):
        raise ValueError(f"are {len(RANGES)} numbers, w0 to w{len(RANGES) - 1}")
    for place, (number, (low, high)) in enumerate(zip(value, RANGES, strict=True)):
        real = isinstance(number, int | float) and not isinstance(number, bool)
        if not real or not low <= number <= high:
            raise ValueError(f"w{place} must be a number from {low:g} to {high:g}, not {number!r:.40}")
    return tuple(float(number) for number in value)


Weights = Annotated[tuple[float, ...], BeforeValidator(_checked)]
