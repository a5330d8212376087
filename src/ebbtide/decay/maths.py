"""The few functions the formulas need, so that one set of lines serves Python floats and SQL columns alike.

`Scalar` computes with `math`, which is the platform's libm; the store has a twin over SQLAlchemy's `func`, which
reaches the same libm in the database. Not NumPy: its exp differs in the last bit from processor to processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ebbtide.model.instant import DAY, first_whole_second


class Maths(Protocol):
    """What a formula may use. Values are floats, or SQL expressions of double precision; `Any` stands for both."""

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


SCALAR: Maths = Scalar()

SMALLEST_EXPONENT = -700.0
"""exp below this is zero to any score's nine decimals; PostgreSQL raises an underflow error further down."""


def decimals9(m: Maths, x: Any) -> Any:
    """A stored number: nine decimals, half up, the same double on both databases and in Python."""
    return m.floor(x * 1e9 + 0.5) / 1e9


def rounded(x: float) -> float:
    """`decimals9` of a Python float."""
    return float(decimals9(SCALAR, x))
