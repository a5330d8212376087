"""The formulas over whole columns: an engine whose values are NumPy arrays, one element per object.

exp and ln are libm's, by way of Arrow's kernels, so that every bit is what `SCALAR` and the databases give. Null is
`NONE` in arrays of instants and NaN in arrays of floats; words are arrays of objects, whose null is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebbtide.decay.maths import State
from ebbtide.model.instant import DAY, HORIZON, SECOND

NONE = np.iinfo(np.int64).min
"""The instant that there is none of."""


def taken(columns: State, places: Any) -> State:
    """The rows of a dataclass of arrays at some places; what is one value for all rows stays so."""
    found = {f.name: getattr(columns, f.name) for f in fields(columns)}  # type: ignore[arg-type]
    taken_ = {name: value[places] for name, value in found.items() if isinstance(value, np.ndarray) and value.ndim}
    return replace(columns, **taken_)  # type: ignore[type-var]


class Columns:
    """`Engine` over NumPy arrays."""

    null = NONE

    @staticmethod
    def exp(x: Any) -> Any:
        return _by_arrow(pc.exp, x)

    @staticmethod
    def ln(x: Any) -> Any:
        return _by_arrow(pc.ln, x)

    floor = staticmethod(np.floor)

    @staticmethod
    def least(*xs: Any) -> Any:
        return reduce(np.minimum, xs)

    @staticmethod
    def greatest(*xs: Any) -> Any:
        return reduce(np.maximum, xs)

    @staticmethod
    def where(condition: Any, then: Any, otherwise: Any) -> Any:
        return np.where(condition, then, otherwise)

    def known(self, x: Any, otherwise: Any) -> Any:
        return np.where(self.is_known(x), x, otherwise)

    @staticmethod
    def is_known(x: Any) -> Any:
        column = np.asarray(x)
        if column.dtype.kind == "f":
            return ~np.isnan(column)
        return column != (NONE if column.dtype.kind == "i" else None)

    @staticmethod
    def no(condition: Any) -> Any:
        return np.logical_not(condition)

    @staticmethod
    def real(x: Any) -> Any:
        return np.asarray(x).astype(np.float64)

    @staticmethod
    def days(micros: Any) -> Any:
        return np.asarray(micros) / float(DAY)

    @staticmethod
    def among(x: Any, values: Sequence[str]) -> Any:
        return np.isin(x, np.array([str(value) for value in values], dtype=object))

    @staticmethod
    def whole_second(micros: Any) -> Any:
        return -(-np.asarray(micros) // SECOND) * SECOND

    @staticmethod
    def pick(values: Mapping[str, Any], word: Any) -> Any:
        words = np.asarray(word)
        chosen = list(values.values())
        kind: Any = np.float64
        if all(isinstance(value, bool) for value in chosen):
            kind = np.bool_
        elif any(isinstance(value, str) for value in chosen):
            kind = object
        table = np.array(chosen, dtype=kind)
        found = np.full(words.shape, np.nan if kind is np.float64 else table[0], dtype=kind)
        for place, name in enumerate(values):
            found[words == name] = table[place]
        return found

    def numbers(self, by_profile: Mapping[str, Any], profile: Any) -> Any:
        words = np.asarray(profile)
        place = np.zeros(words.shape, dtype=np.int64)
        for number, name in enumerate(by_profile):
            place[words == name] = number
        chosen = list(by_profile.values())
        return replace(
            chosen[0], **{f.name: np.array([getattr(one, f.name) for one in chosen])[place] for f in fields(chosen[0])}
        )

    def choose(self, condition: Any, then: State, otherwise: State) -> State:
        names = [f.name for f in fields(then)]  # type: ignore[arg-type]
        pairs = {name: (getattr(then, name), getattr(otherwise, name)) for name in names}
        chosen = {name: self.where(condition, a, b) for name, (a, b) in pairs.items() if a is not b}
        return replace(then, **chosen)  # type: ignore[type-var]

    def first_second(self, condition: Callable[..., Any], p: Any, s: Any, begin: Any, near: Any, wanted: Any) -> Any:
        """All rows at once: a row has its answer once a second at which the condition holds follows one where not."""
        size = len(s.segment_at)
        low = np.broadcast_to(self.whole_second(begin), size).copy()
        found = np.full(size, NONE)
        rows = np.flatnonzero(np.broadcast_to(wanted, size))

        def holds(rows: Any, at: Any) -> Any:
            return condition(self, taken(p, rows), taken(s, rows), at)

        at_once = holds(rows, low[rows])
        found[rows[at_once]] = low[rows[at_once]]
        rows = rows[~at_once]
        high = low + HORIZON
        rows = rows[holds(rows, high[rows])]
        # The guess parts the span first, and then steps away from it that double, until both ends are near.
        guess = np.clip(np.nan_to_num(np.broadcast_to(near, size), posinf=float(HORIZON) * 10), low, high)
        probe = np.clip(guess.astype(np.int64) // SECOND * SECOND, low + SECOND, high - SECOND)
        step = np.full(size, SECOND)
        galloping = np.ones(size, dtype=bool)
        known = np.zeros(size, dtype=np.int8)
        while rows.size:
            at = probe[rows]
            yes = holds(rows, at)
            high[rows[yes]] = at[yes]
            low[rows[~yes]] = at[~yes]
            turned = known[rows] == np.where(yes, -1, 1)
            galloping[rows[turned]] = False
            known[rows] = np.where(yes, 1, -1)
            done = high[rows] - low[rows] <= SECOND
            found[rows[done]] = high[rows[done]]
            rows = rows[~done]
            away = np.where(known[rows] == 1, high[rows] - step[rows], low[rows] + step[rows])
            middle = low[rows] + (high[rows] - low[rows]) // (2 * SECOND) * SECOND
            inside = galloping[rows] & (away > low[rows]) & (away < high[rows])
            probe[rows] = np.where(inside, away, middle)
            galloping[rows[~inside]] = False
            step[rows] *= 2
        return found


def _by_arrow(kernel: Callable[[Any], Any], x: Any) -> Any:
    values = np.atleast_1d(np.asarray(x, dtype=np.float64))
    found = kernel(pa.array(values)).to_numpy(zero_copy_only=False)
    return found.reshape(np.shape(x)) if np.shape(x) != found.shape else found


COLUMNS = Columns()
