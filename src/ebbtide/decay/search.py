"""Searching for instants: the first whole second at which a condition holds that stays once it holds."""

from __future__ import annotations

from collections.abc import Callable

from ebbtide.model.instant import HORIZON, SECOND, first_whole_second


def first_second(holds: Callable[[int], bool], begin: int, near: float) -> int | None:
    """The first whole second at or after `begin` at which a condition holds that stays once it holds.

    None if it does not hold within 100 years. `near` is a guess (µs, may be infinite) from which the search sets out;
    the second found does not depend on it.
    """
    low = first_whole_second(begin)
    if holds(low):
        return low
    last = low + HORIZON
    high = int(max(min(near, float(last)) // SECOND * SECOND, low + SECOND))
    step = SECOND
    if holds(high):
        while high - step > low and holds(high - step):
            high, step = high - step, 2 * step
        low = max(low, high - step)
    else:
        while not holds(high):
            if high == last:
                return None
            low, high, step = high, min(high + step, last), 2 * step
    while high - low > SECOND:
        middle = low + (high - low) // (2 * SECOND) * SECOND
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
