"""The one formula, computed by Python and by both databases: the same numbers, and the same bits once rounded.

Two hundred thousand random segments under policies of all curves and modifiers go into a table; one statement of the
database evaluates them all.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import NamedTuple

import pytest
from beliefs import nine
from sqlalchemy import BigInteger, Boolean, Column, Double, MetaData, Table, select

from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import Parameters, Scores, evaluate, fading, parameters, retention, uses_of
from ebbtide.model.instant import DAY
from ebbtide.model.words import DecayProfile
from ebbtide.policy.document import Profile, policy_from
from ebbtide.store.database import SQL
from ebbtide.store.store import database_at

ROWS = 200_000
CENTURY = 36_525 * DAY
CHUNK = 50_000


class Segment(NamedTuple):
    id: int
    policy: int
    at: int
    segment_at: int
    segment_age: int
    decaying: float
    boost: float
    confidence_base: float
    confidence_from: int
    stability: float | None
    access_count: int
    reinforce_count: int


class Expected(NamedTuple):
    scores: Scores
    retained: float


metadata = MetaData()
_KINDS = {float: Double, int: BigInteger, bool: Boolean}
formula_policies = Table(
    "formula_policies",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    *(Column(name, _KINDS[{"float": float, "int": int, "bool": bool}[field.type]]) for name, field in Parameters.__dataclass_fields__.items()),
)
formula_segments = Table(
    "formula_segments",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    *(
        Column(name, Double if "float" in str(kind) else BigInteger)
        for name, kind in Segment.__annotations__.items()
        if name != "id"
    ),
)
