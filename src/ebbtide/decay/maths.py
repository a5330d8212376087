"""The few functions the formulas need, so that one set of lines serves Python floats, SQL and whole columns alike.

`Scalar` computes with `math`, which is the platform's libm; the store has a twin over SQLAlchemy's `func`, and
`decay.columns` one over arrays, which reach the same libm. Not NumPy's own exp: its last bit differs from processor to
processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ebbtide.decay.search import first_second
from ebbtide.model.instant import DAY, first_whole_second

State = TypeVar("State")


class Maths(Protocol):
    """What a formula may use. Values are floats, SQL expressions of double precision, or arrays: `Any` is for all."""

    null: Any
    """An instant that there is none of."""

    def exp(self, x: Any) -> Any: ...
    def ln(self, x: Any) -> Any: ...
    def floor(self, x: Any) -> Any: ...
    def least(self, *xs: Any) -> Any: ...
    def greatest(self, *xs: Any) -> Any: ...
    def where(self, condition: Any, then: Any, otherwise: Any) -> Any: ...
    def known(self, x: Any, otherwise: Any) -> Any:
        """`x`, or `otherwise` where x is null."""
        ...

    def real(self, x: Any) -> Any:
        """An integer as a float."""
        ...

    def days(self, micros: Any) -> Any:
        """Microseconds, an integer, as days, a float."""
        ...

    def among(self, x: Any, values: Sequence[str]) -> Any:
        """Whether x is one of some words."""
        ...

    def whole_second(self, micros: Any) -> Any:
        """The first whole second at or after an instant, in µs."""
        ...


class Engine(Maths, Protocol):
    """What working out a state needs beyond a formula: of one object, or of many at once."""

    def is_known(self, x: Any) -> Any:
        """Whether x is not null."""
        ...

    def no(self, condition: Any) -> Any:
        """Whether a condition does not hold."""
        ...

    def pick(self, values: Mapping[str, Any], word: Any) -> Any:
        """What a table says of a word."""
        ...

    def numbers(self, by_profile: Mapping[str, Any], profile: Any) -> Any:
        """The parameters of a profile."""
        ...

    def choose(self, condition: Any, then: State, otherwise: State) -> State:
        """One of two states."""
        ...

    def first_second(self, condition: Callable[..., Any], p: Any, s: Any, begin: Any, near: Any, wanted: Any) -> Any:
        """The first whole second from `begin` on at which `condition(m, p, s, at)` holds, which stays once it holds.

        Null where it does not hold within 100 years, or is not `wanted`; `near` is a guess (µs).
        """
        ...


class Scalar:
    """`Maths` over Python floats."""

    exp = staticmethod(math.exp)
    ln = staticmethod(math.log)
    real = staticmethod(float)
    least: Callable[..., Any] = staticmethod(min)
    greatest: Callable[..., Any] = staticmethod(max)

    @staticmethod
    def floor(x: float) -> float:
        return float(math.floor(x))

    @staticmethod
    def where(condition: bool, then: Any, otherwise: Any) -> Any:
        return then if condition else otherwise

    @staticmethod
    def known(x: Any, otherwise: Any) -> Any:
        return otherwise if x is None else x

    @staticmethod
    def days(micros: int) -> float:
        return micros / float(DAY)

    @staticmethod
    def among(x: str, values: Sequence[str]) -> bool:
        return x in values

    whole_second = staticmethod(first_whole_second)
    null = None

    @staticmethod
    def is_known(x: Any) -> bool:
        return x is not None

    @staticmethod
    def no(condition: bool) -> bool:
        return not condition

    @staticmethod
    def pick(values: Mapping[str, Any], word: str) -> Any:
        return values[word]

    numbers = pick

    @staticmethod
    def choose(condition: bool, then: State, otherwise: State) -> State:
        return then if condition else otherwise

    def first_second(
        self, condition: Callable[..., Any], p: Any, s: Any, begin: int, near: float, wanted: bool
    ) -> int | None:
        return first_second(lambda at: bool(condition(self, p, s, at)), begin, near) if wanted else None


SCALAR: Engine = Scalar()

SMALLEST_EXPONENT = -700.0
"""exp below this is zero to any score's nine decimals; PostgreSQL raises an underflow error further down."""


def decimals9(m: Maths, x: Any) -> Any:
    """A stored number: nine decimals, half up, the same double on both databases and in Python."""
    return m.floor(x * 1e9 + 0.5) / 1e9


def rounded(x: float) -> float:
    """`decimals9` of a Python float."""
    return float(decimals9(SCALAR, x))
