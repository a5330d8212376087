"""Many memories in little time: some asked for as a caller would, then multiplied in SQL, with ids, hashes and batches.

What comes of it is a log like any other: it verifies, and the state is folded from it.

Of every 200 memories, all asserted on Thursday, 1 January 2026, until noon: from Friday to Monday nothing is due, 2 are
due by Tuesday, 100 by the Monday after, and 100 not for weeks. A quarter each decays as RAPID, FAST, MEDIUM and SLOW.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    LargeBinary,
    Text,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
)

from ebbtide.api import Ebbtide
from ebbtide.bench.scratch import settle
from ebbtide.log.head import lock
from ebbtide.model import instant
from ebbtide.model.words import OpType
from ebbtide.policy.document import Policy, policy_from
from ebbtide.project.passes import NAMESPACE, Chunk, Columns, Staged, staged
from ebbtide.project.projection import from_log
from ebbtide.project.rebuild import FOLDED, fold
from ebbtide.project.scope import CHUNK
from ebbtide.store.database import Database
from ebbtide.store.tables import contents, event_log

BEGIN = instant.parse("2026-01-01T00:00:00Z")
EACH = 200
POLICY = "bench@1.0.0"
CORRECTED = "bench@1.0.1"


def policies() -> tuple[Policy, Policy]:
    """The numbers of `default`, with the guard off: much is meant to be due. And one that corrects a rate."""
    params = {"guard": {"max_fraction": 1.0}}
    corrected = params | {"profiles": {"MEDIUM": {"rate": 0.01}}}
    return (
        policy_from({"id": "bench", "version": "1.0.0", "params": params}),
        policy_from({"id": "bench", "version": "1.0.1", "params": corrected}),
    )


def names(number: int) -> list[str]:
    """The namespaces of a store."""
    return [f"bench-{place}" for place in range(number)]


def requests(count: int, namespace: str, prefix: str = "belief") -> Iterator[dict[str, Any]]:
    """Assertions, as the module says of every 200."""
    for number in range(count):
        place = number % EACH
        part = place / EACH
        if place < 2:
            kind, salience = "UNVERIFIED", 0.709
        elif place < 50:
            kind, salience = "UNVERIFIED", 0.84 + 0.6 * part
        elif place < 100:
            kind, salience = "INFERRED", 0.48 + 0.2 * part
        else:
            kind, salience = "ASSERTED" if place < 150 else "OBSERVED", 0.6 + 0.4 * part
        yield {
            "op": "ASSERT",
            "namespace": namespace,
            "ref": f"{prefix} {number}",
            "object_type": "FACT",
            "epistemic_type": kind,
            "source_type": "EXTERNAL_DOCUMENT",
            "value": f"{prefix} {number}",
            "salience": round(salience, 3),
            "effective_at": instant.iso(BEGIN + place * 200 * instant.SECOND),
        }


def begun(name: str) -> dict[str, Any]:
    """The first thing that happens in a namespace."""
    return {"op": "EVENT", "namespace": name, "ref": "begin", "content": "begin", "effective_at": instant.iso(BEGIN)}


def filled(ebb: Ebbtide, objects: int, spaces: int) -> None:
    """Fills an empty store with so many memories, spread evenly over so many namespaces.

    The time is noon of that Thursday.
    """
    each = objects // spaces
    asked = min(EACH, each)
    for policy in policies():
        ebb.register_policy(policy)
    with ebb.store.session() as connection:
        for name in names(spaces):
            ebb.ask(begun(name))
            ebb.assign_policy(POLICY, namespace=name)
        ebb.ask(*requests(asked, names(1)[0]))
        for name in names(spaces):
            there = asked if name == names(1)[0] else 0
            for first in range(there, each, CHUNK):
                with connection.begin():
                    _multiply(ebb.store.db, connection, name, asked, first, min(first + CHUNK, each))
        settle(ebb.store.db)
        _refold(ebb.store.db, connection, names(spaces))
        settle(ebb.store.db)


_ASKED: BindParameter[int] = bindparam("bench_asked", type_=BigInteger)
_FIRST: BindParameter[int] = bindparam("bench_first", type_=BigInteger)
_END: BindParameter[int] = bindparam("bench_end", type_=BigInteger)
_FIRST_SEQ: BindParameter[int] = bindparam("bench_first_seq", type_=BigInteger)
_SAME = (
    "fact_version",
    "effective_at",
    "lifecycle_state",
    "salience",
    "confidence",
    "salience_delta",
    "confidence_delta",
    "decay_profile",
    "policy_id",
    "policy_version",
    "carries",
    "payload",
)


def _multiply(db: Database, connection: Any, name: str, asked: int, first: int, end: int) -> None:
    """Appends the memories of some numbers to a namespace's log, like those of the first namespace."""
    head = lock(db, connection, name)
    assert head is not None
    chunk = Chunk(db, connection, head, now=BEGIN + instant.DAY // 2)
    written: Staged = db.once("bench multiply", lambda: _statements(db))
    given = {
        _ASKED.key: asked,
        _FIRST.key: first,
        _END.key: end,
        _FIRST_SEQ.key: head.last_seq + 1,
    }
    chunk.write(written, given)
    connection.execute(db.once("bench contents", lambda: _contents(db, written)), given | {NAMESPACE.key: name})
    chunk.close()


def _statements(db: Database) -> Staged:
    log = event_log.c
    numbers = func.generate_series(_FIRST, _END - 1).table_valued("number").render_derived(name="numbers")
    number = cast(numbers.c.number, BigInteger)
    like = (
        select(*log, (func.row_number().over(order_by=log.seq) - 1).label("place"))
        .where(log.namespace_id == names(1)[0], log.op_type == OpType.ASSERT.value)
        .order_by(log.seq)
        .limit(_ASKED)
        .subquery()
    )
    ref = func.concat("belief ", cast(number, Text), type_=Text)
    key = func.concat(NAMESPACE, "\x1f", ref, type_=Text)
    rows = select(
        db.uuid8(key).label("object_id"),
        literal(0, BigInteger).label("version"),
        literal(bytes(32), LargeBinary).label("head_hash"),
        db.unhex(func.substr(db.hex(db.sha256(db.utf8(key))), 1, 32, type_=Text)).label("nonce"),
        ref.label("ref"),
        like.c.idempotency_key.label("like_ref"),
        like.c.seq.label("like_seq"),
        like.c.after,
        *(like.c[name] for name in _SAME),
    ).join_from(numbers, like, number % _ASKED == like.c.place)
    return staged(db, "bench_multiplied", rows, [lambda c: _asserted(db, c)], lambda _: {})


def _seq(c: Columns) -> Any:
    return cast(c.n, BigInteger) + _FIRST_SEQ


def _content(c: Columns) -> Any:
    return func.concat('{"value":"', c.ref, '"}', type_=Text)


def _asserted(db: Database, c: Columns) -> dict[str, Any]:
    def with_seq(seq: Any) -> Any:
        return func.concat('"content_seq":', cast(seq, Text), ",", type_=Text)

    def with_ref(ref: Any) -> Any:
        return func.concat('"ref":"', ref, '"', type_=Text)

    after = func.replace(c.after, with_ref(c.like_ref), with_ref(c.ref), type_=Text)
    return {
        "op_type": OpType.ASSERT.value,
        **{name: c[name] for name in _SAME},
        "idempotency_key": c.ref,
        "request_hash": db.sha256(c.nonce),
        "content_hash": db.sha256(c.nonce.op("||")(db.utf8(_content(c)))),
        "after": func.replace(after, with_seq(c.like_seq), with_seq(_seq(c)), type_=Text),
    }


def _contents(db: Database, written: Staged) -> Any:
    c = written.table.c
    digest = db.sha256(db.utf8(func.concat('"', c.ref, '"', type_=Text)))
    rows = select(NAMESPACE, _seq(c), c.nonce, _content(c), digest)
    return insert(contents).from_select(["namespace_id", "seq", "nonce", "content", "digest"], rows)


def _refold(db: Database, connection: Any, spaces: list[str]) -> None:
    """Writes the state of all memories anew, as the log gives it."""
    with connection.begin():
        for target in FOLDED:
            connection.execute(delete(target))
    with connection.begin():
        rows = from_log(db, spaces[0], fold(db, connection, spaces))
        for target in FOLDED:
            connection.execute(insert(target).from_select([c.name for c in target.columns], rows[target]))
