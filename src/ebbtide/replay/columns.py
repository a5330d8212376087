"""What a query gives as whole columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlalchemy import Connection, Select

from ebbtide.store.arrow import schema_of
from ebbtide.store.database import Database

BATCH = 100_000


def table_of(db: Database, connection: Connection, query: Select[Any]) -> pa.Table:
    """All rows of a query, with the columns' types where there are none, too."""
    return pa.Table.from_batches(db.arrow(connection, query, BATCH), schema_of(query.selected_columns))
