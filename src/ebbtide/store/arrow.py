"""Columns of the tables in Arrow, alike from both databases: ids as text, everything else by its own type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from sqlalchemy import ARRAY, BigInteger, Boolean, Double, Integer, LargeBinary, SmallInteger, Text, Uuid

ARROW: dict[type, pa.DataType] = {
    BigInteger: pa.int64(),
    Integer: pa.int32(),
    SmallInteger: pa.int16(),
    Double: pa.float64(),
    Boolean: pa.bool_(),
    LargeBinary: pa.binary(),
    Text: pa.string(),
    Uuid: pa.string(),
}


def arrow_type(kind: Any) -> pa.DataType:
    """The Arrow type of a column's type."""
    if isinstance(kind, ARRAY):
        return pa.list_(ARROW[type(kind.item_type)])
    return ARROW[type(kind)]


def schema_of(columns: Iterable[Any]) -> pa.Schema:
    """The Arrow schema of columns of a table or query."""
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])
