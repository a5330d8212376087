"""Which embeddings are as good as the same: one condition for the door and the dedup pass."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, select

from ebbtide.decay.maths import decimals9
from ebbtide.store.database import SQL, Database


def comparable(a: Any, b: Any) -> ColumnElement[bool]:
    """Whether two embeddings are of one model, and so have as many numbers."""
    return and_(a.embedding_model == b.embedding_model, a.dimensions == b.dimensions)


def alike(db: Database, pairs: Select[Any], a: Any, b: Any, cosine: Any, *, roughly: bool) -> Select[Any]:
    """Of a query's pairs of embeddings `a` and `b` those whose cosine, at nine decimals, is at least the given one.

    A column `similarity` comes last. `roughly` leaves most others out first, where the database has a quicker way.
    """
    fits = a.dimensions == b.dimensions
    near = case((fits, db.near(a.embedding, b.embedding, cosine)), else_=False) if roughly else fits
    similarity = case((fits, decimals9(SQL, db.cosine(a.embedding, b.embedding)))).label("similarity")
    found = pairs.add_columns(similarity).where(near).subquery()
    return select(found).where(found.c.similarity >= cosine)
