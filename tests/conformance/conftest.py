"""Two stores side by side, for what must not depend on the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from ebbtide import Ebbtide


@dataclass
class Stores:
    """An open store with its clock, on DuckDB and on PostgreSQL; both count their entropy alike."""

    both: list[tuple[Ebbtide, Any]]
    numbers: Any = field(default_factory=lambda: count(1))


def counted() -> Callable[[int], bytes]:
    """Bytes that differ at every call and repeat from run to run."""
    numbers = count(1)
    return lambda size: next(numbers).to_bytes(size, "big")


@pytest.fixture
def stores(make_url_for, clock) -> Iterator[Stores]:
    with ExitStack() as stack:
        both = []
        for kind in ("duckdb", "postgresql"):
            mine = type(clock)()
            entropy = counted()
            both.append((stack.enter_context(Ebbtide.open(make_url_for(kind), clock=mine, entropy=entropy)), mine))
        yield Stores(both)
