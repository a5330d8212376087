"""The door: whether what is to be stored is there already, as an ACTIVE memory of the same type and subject.

The same content, or an embedding that is as good as the same. A batch is looked up at once, in a query each; what it
brings is found by the lines behind it as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BindParameter,
    CompoundSelect,
    Connection,
    Double,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    func,
    literal,
    select,
    union_all,
)

from ebbtide.model.entry import Embedding
from ebbtide.model.errors import BadInput
from ebbtide.model.state import MemoryState
from ebbtide.model.words import GUESSES, LifecycleState, Resolution
from ebbtide.project.alike import alike, comparable
from ebbtide.project.passes import NAMESPACE, empty, temporary
from ebbtide.project.writer import Writer
from ebbtide.store.database import Database
from ebbtide.store.tables import contents, memory_objects, memory_state

_COSINE: BindParameter[float] = bindparam("door_cosine", type_=Double)


class Kind(NamedTuple):
    """What two memories must have in common to be compared at all."""

    object_type: str
    subject: str | None


@dataclass(frozen=True, slots=True)
class Said:
    """What a request would store, as far as it is compared."""

    kind: Kind
    digest: bytes
    embedding: Embedding | None


@dataclass(frozen=True, slots=True)
class Twin:
    """The memory that says it already, and why it counts as the same; `similarity` is that of the embeddings."""

    state: MemoryState
    strategy: Resolution
    similarity: float | None


class Door:
    """What one namespace holds of what a batch brings."""

    def __init__(self, db: Database, connection: Connection, writer: Writer) -> None:
        self._db = db
        self._connection = connection
        self._writer = writer
        self._same: dict[tuple[Kind, bytes], list[UUID]] = defaultdict(list)
        self._dimensions: dict[str, int] = {}
        self._numbers: dict[tuple[Kind, Embedding], int] = {}
        self._alike: dict[int, list[tuple[float, UUID | int]]] = defaultdict(list)
        self._brought: dict[int, list[UUID]] = defaultdict(list)

    def prepare(self, batch: Sequence[Said], cosine: float) -> None:
        """Looks up all that a batch brings; from `cosine` on embeddings count as the same."""
        if not batch:
            return
        self._prepare_content(batch)
        embedded = list(dict.fromkeys((said.kind, said.embedding) for said in batch if said.embedding is not None))
        if embedded:
            self._prepare_dimensions({embedding.model for _, embedding in embedded})
            self._numbers = {one: number for number, one in enumerate(embedded)}
            fitting = [one for one in embedded if self._fits(one[1])]
            self._prepare_embeddings(fitting, cosine)
        self._writer.load(object_id for found in self._same.values() for object_id in found)
        self._writer.load(one for alike in self._alike.values() for _, one in alike if isinstance(one, UUID))

    def _prepare_content(self, batch: Iterable[Said]) -> None:
        # Two small queries, the second seldom needed: joined, DuckDB would read all objects and states for it.
        wanted = {(said.kind, said.digest) for said in batch}
        o, c = memory_objects.c, contents.c
        query = select(c.seq, c.digest).where(
            c.namespace_id == self._writer.namespace,
            self._db.among(c.digest, list(dict.fromkeys(digest for _, digest in wanted))),
        )
        found = {row.seq: bytes(row.digest) for row in self._connection.execute(query)}
        if not found:
            return
        objects = (
            select(o.object_id, o.object_type, o.subject, o.content_seq)
            .where(o.namespace_id == self._writer.namespace, self._db.among(o.content_seq, list(found)))
            .order_by(o.content_seq)
        )
        for row in self._connection.execute(objects):
            key = Kind(row.object_type, row.subject), found[row.content_seq]
            if key in wanted:
                self._same[key].append(row.object_id)

    def _prepare_dimensions(self, models: Iterable[str]) -> None:
        c = contents.c
        query = (
            select(c.embedding_model, c.dimensions)
            .where(
                c.namespace_id == self._writer.namespace,
                c.dimensions.isnot(None),
                self._db.among(c.embedding_model, list(models)),
            )
            .distinct()
        )
        self._dimensions |= {row.embedding_model: row.dimensions for row in self._connection.execute(query)}

    def _prepare_embeddings(self, embedded: Sequence[tuple[Kind, Embedding]], cosine: float) -> None:
        empty(self._connection, BROUGHT)
        rows = [
            {
                "number": self._numbers[kind, embedding],
                "object_type": kind.object_type,
                "subject": kind.subject or "",
                "embedding_model": embedding.model,
                "dimensions": len(embedding.numbers),
                "embedding": list(embedding.numbers),
            }
            for kind, embedding in embedded
        ]
        self._db.bulk_insert(self._connection, BROUGHT, rows)
        given = {NAMESPACE.key: self._writer.namespace, _COSINE.key: cosine}
        for row in self._connection.execute(self._built("stored", _stored_alike), given):
            self._alike[row.number].append((row.similarity, row.object_id))
        if len(rows) > 1:
            for row in self._connection.execute(self._built("brought", _brought_alike), given):
                self._alike[row.number].append((row.similarity, row.other))

    def _built(self, name: str, build: Callable[..., Any]) -> Any:
        roughly = self._db.compares_roughly(self._connection)
        return self._db.once(f"door {name} {roughly}", lambda: build(self._db, roughly=roughly))

    def _fits(self, embedding: Embedding) -> bool:
        return self._dimensions.get(embedding.model, len(embedding.numbers)) == len(embedding.numbers)

    def refuse_length(self, embedding: Embedding | None) -> None:
        """Embeddings of one model have as many numbers as one another, in a namespace."""
        if embedding is not None and not self._fits(embedding):
            of = f"the model {embedding.model!r}" if embedding.model else "no named model"
            raise BadInput(
                f"has {len(embedding.numbers)} numbers, and those of {of} here {self._dimensions[embedding.model]}: "
                "name another embedding_model",
                field="embedding",
            )

    def twin(self, said: Said, epistemic_type: str, at: int, but: UUID | None = None) -> Twin | None:
        """The memory that says it already at an instant: the oldest of the same content, else the most similar one.

        `epistemic_type` is how what is said is known; `but` is the one that is about to be superseded.
        """
        for object_id in self._same.get((said.kind, said.digest), ()):
            state = self._counting(object_id, epistemic_type, at, but)
            if state is not None:
                return Twin(state, Resolution.SAME_CONTENT, None)
        if said.embedding is None:
            return None
        number = self._numbers[said.kind, said.embedding]
        alike = [(1.0, object_id) for object_id in self._brought[number]]
        for similarity, one in self._alike[number]:
            alike += [(similarity, object_id) for object_id in ([one] if isinstance(one, UUID) else self._brought[one])]
        found = [(state, s) for s, object_id in alike if (state := self._counting(object_id, epistemic_type, at, but))]
        if not found:
            return None
        state, similarity = min(found, key=lambda one: (-one[1], one[0].content_seq))
        return Twin(state, Resolution.SIMILAR_EMBEDDING, similarity)

    def _counting(self, object_id: UUID, epistemic_type: str, at: int, but: UUID | None) -> MemoryState | None:
        """The state of a memory that counts: ACTIVE, not due to leave by the instant, and no guess at what is said.

        What a rule has let go already is gone, whether or not the run that says so has come yet. A guess is not
        retrieved by default, so what somebody knows does not become one more name of it.
        """
        state = self._writer.state(object_id)
        if state is None or not state.active or object_id == but:
            return None
        if state.epistemic_type in GUESSES and state.epistemic_type != epistemic_type:
            return None
        leaves = (state.exit_at, state.expires_at)
        return None if any(instant is not None and instant <= at for instant in leaves) else state

    def admitted(self, said: Said, object_id: UUID) -> None:
        """Notes what was just stored, for the lines behind it."""
        self._same[said.kind, said.digest].append(object_id)
        if said.embedding is not None:
            self._dimensions.setdefault(said.embedding.model, len(said.embedding.numbers))
            self._brought[self._numbers[said.kind, said.embedding]].append(object_id)


BROUGHT = temporary(
    "door_brought",
    select(
        literal(0, Integer).label("number"),
        literal("", Text).label("object_type"),
        literal("", Text).label("subject"),
        literal("", Text).label("embedding_model"),
        literal(0, Integer).label("dimensions"),
        literal([], ARRAY(Double)).label("embedding"),
    ).subquery(),
)
"""The different embeddings of a batch; the subject is empty where there is none."""


def _stored_alike(db: Database, *, roughly: bool) -> Select[Any]:
    """What is stored: ACTIVE memories, and ARCHIVED ones, which the batch may restore."""
    o, s, c, n = memory_objects.c, memory_state.c, contents.c, BROUGHT.c
    # Step by step: who is of the same kind, then their embeddings, and only then pairs. A planner left to itself
    # computes all pairs of a model, and leaves out those of another kind afterwards.
    compared = db.fence(
        select(n.number, o.object_id, o.content_seq)
        .join_from(memory_objects, memory_state, and_(o.namespace_id == s.namespace_id, o.object_id == s.object_id))
        .join(BROUGHT, and_(o.object_type == n.object_type, func.coalesce(o.subject, "") == n.subject))
        .where(
            o.namespace_id == NAMESPACE,
            s.lifecycle_state.in_([LifecycleState.ACTIVE.value, LifecycleState.ARCHIVED.value]),
        )
    )
    stored = db.fence(
        select(compared, c.embedding_model, c.dimensions, c.embedding).join_from(
            compared, contents, and_(c.namespace_id == NAMESPACE, c.seq == compared.c.content_seq)
        )
    )
    pairs = select(n.number, stored.c.object_id).join_from(
        stored, BROUGHT, and_(n.number == stored.c.number, comparable(stored.c, n))
    )
    return alike(db, pairs, stored.c, n, _COSINE, roughly=roughly)


def _brought_alike(db: Database, *, roughly: bool) -> CompoundSelect[Any]:
    n, other = BROUGHT.c, BROUGHT.alias("other").c
    pairs = select(n.number, other.number.label("other")).where(
        n.object_type == other.object_type,
        n.subject == other.subject,
        comparable(n, other),
        n.number < other.number,
    )
    found = alike(db, pairs, n, other, _COSINE, roughly=roughly).subquery().c
    return union_all(
        select(found.number, found.other, found.similarity),
        select(found.other.label("number"), found.number.label("other"), found.similarity),
    )
