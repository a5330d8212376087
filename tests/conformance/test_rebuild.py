"""State from the log: a rebuild changes nothing of what is right, and makes right whatever is wrong."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Boolean, Double, LargeBinary, Text, Uuid, cast, delete, func, insert, select, text, update
from tests.conformance import ledger, lived
from tests.conftest import DATABASES, Clock, counted_entropy

from ebbtide import Ebbtide, NotFound, Refused
from ebbtide.model.state import OBJECT_COLUMNS
from ebbtide.project.projection import columns_of
from ebbtide.project.rebuild import NAMED, compare, mend, named, rebuild, state_digest
from ebbtide.store.tables import (
    aliases,
    edges,
    entities,
    event_log,
    event_state,
    evidence_links,
    memory_objects,
    memory_state,
    namespaces,
    organiser_runs,
    policies,
    policy_profiles,
    streams,
    suppressions,
)

CACHES = (
    aliases,
    memory_objects,
    memory_state,
    event_state,
    evidence_links,
    suppressions,
    entities,
    edges,
    streams,
    organiser_runs,
    policies,
    policy_profiles,
)


@pytest.fixture(scope="module", params=DATABASES)
def lived_in(request: pytest.FixtureRequest, make_url_for_module) -> Iterator[Ebbtide]:
    """A store that the tests here share: each leaves it as it was."""
    clock = Clock()
    with Ebbtide.open(make_url_for_module(request.param), clock=clock, entropy=counted_entropy()) as ebb:
        lived.live(ebb, clock)
        yield ebb


def contents_of(ebb: Ebbtide) -> dict[str, list[Any]]:
    with ebb.store.begin() as connection:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
            for table in (*CACHES, namespaces)
        }


def rebuilt(ebb: Ebbtide, namespace: str = "default") -> Any:
    with ebb.store.session() as connection:
        return rebuild(ebb.store.db, connection, namespace)


def test_what_is_right_stays_as_it_is(lived_in):
    before = contents_of(lived_in)
    assert all(before[table.name] for table in CACHES), "a table that the history leaves empty proves nothing"
    for namespace in ("default", "other"):
        found = rebuilt(lived_in, namespace)
        assert (found.before, found.mended, found.wrong) == (found.after, {}, [])
    assert contents_of(lived_in) == before


def test_rebuild_into_empty_tables(lived_in):
    before = contents_of(lived_in)
    with lived_in.store.begin() as connection:
        for table in CACHES:
            connection.execute(delete(table).where(table.c.namespace_id == "default"))
    found = rebuilt(lived_in)
    assert set(found.mended) == {table.name for table in CACHES}
    assert {wrong.what for wrong in found.wrong} == {"is missing"}
    assert contents_of(lived_in) == before
    assert rebuilt(lived_in).mended == {}


def another(column: Any, value: Any) -> Any:
    """A value of the column's type that differs from the one it has."""
    if isinstance(column.type, Boolean):
        return not value
    if isinstance(column.type, LargeBinary):
        return bytes(31) + b"\x07"
    if isinstance(column.type, Double):
        return 0.123456789 if value is None else value / 2 + 0.25
    if isinstance(column.type, Uuid):
        return "00000000-0000-5000-8000-000000000007"
    return "zzz" if column.type.python_type is str else (value or 0) + 1


def rounds_of(ebb: Ebbtide) -> list[dict[tuple[str, tuple[str, ...]], str]]:
    """Which column of which row to spoil, round by round, until every column of every table had its turn."""
    rounds: list[dict[tuple[str, tuple[str, ...]], str]] = []
    for table in (*CACHES, namespaces):
        keys = list(table.primary_key)[1:]
        mine = table.c.namespace_id == "default"
        query = select(table.c.namespace_id, *keys).where(mine).order_by(*keys).limit(NAMED)
        with ebb.store.begin() as connection:
            rows = [tuple(row)[1:] for row in connection.execute(query)]
        names = [c.name for c in columns_of(table) if c not in keys and c.name not in ("namespace_id", "last_seq")]
        for place, name in enumerate(names):
            number, row = divmod(place, len(rows))
            while len(rounds) <= number:
                rounds.append({})
            rounds[number][table.name, tuple(map(str, rows[row]))] = name
    return rounds


def spoil(ebb: Ebbtide, table: Any, key: tuple[str, ...], name: str) -> None:
    """Gives one column of one row another value."""
    this = [table.c.namespace_id == "default"]
    this += [cast(column, Text) == value for column, value in zip(list(table.primary_key)[1:], key, strict=True)]
    with ebb.store.begin() as connection:
        value = connection.execute(select(table.c[name]).where(*this)).scalar_one()
        connection.execute(update(table).where(*this).values({name: another(table.c[name], value)}))


def test_any_column_that_differs_is_named_and_mended(lived_in):
    before = contents_of(lived_in)
    for spoiled in rounds_of(lived_in):
        for (name, key), column in spoiled.items():
            spoil(lived_in, namespaces.metadata.tables[name], key, column)
        found = rebuilt(lived_in)
        assert {(w.table, w.key): w.what for w in found.wrong} == {
            row: f"differs in {column}" for row, column in spoiled.items()
        }
        assert sum(found.mended.values()) == len(spoiled)
    assert contents_of(lived_in) == before


def test_a_row_under_another_key_is_one_missing_and_one_too_many(lived_in):
    before = contents_of(lived_in)
    for table in CACHES:
        key = list(table.primary_key)[-1]
        with lived_in.store.begin() as connection:
            mine = table.c.namespace_id == "default"
            row = dict(connection.execute(select(table).where(mine).order_by(key).limit(1)).mappings().one())
            connection.execute(delete(table).where(mine, *(column == row[column.name] for column in table.primary_key)))
            connection.execute(insert(table), row | {key.name: another(key, row[key.name])})
    found = rebuilt(lived_in)
    assert found.mended == dict.fromkeys((table.name for table in CACHES), 2)
    for table in CACHES:
        told = sorted(wrong.what for wrong in found.wrong if wrong.table == table.name)
        assert told == ["is missing", "is not in the log"], table.name
    assert contents_of(lived_in) == before


def test_a_row_too_many_is_taken_away(lived_in):
    before = contents_of(lived_in)
    with lived_in.store.begin() as connection:
        for table in (memory_objects, memory_state):
            row = connection.execute(select(table).where(table.c.namespace_id == "default").limit(1)).mappings().one()
            connection.execute(insert(table), {**row, "object_id": "00000000-0000-5000-8000-000000000007"})
    found = rebuilt(lived_in)
    assert found.mended == {"memory_objects": 1, "memory_state": 1}
    assert {wrong.key for wrong in found.wrong} == {("00000000-0000-5000-8000-000000000007",)}
    assert contents_of(lived_in) == before


def test_a_log_that_lost_entries_is_not_rebuilt_from(lived_in):
    with lived_in.store.begin() as connection:
        if lived_in.store.db.name == "postgresql":
            connection.execute(text("SET session_replication_role = replica"))
        last = connection.execute(select(namespaces.c.last_seq).where(namespaces.c.namespace_id == "default")).scalar()
        tail = [event_log.c.namespace_id == "default", event_log.c.seq == last]
        entry = dict(connection.execute(select(event_log).where(*tail)).mappings().one())
        connection.execute(delete(event_log).where(*tail))
    before = contents_of(lived_in)
    with pytest.raises(Refused, match=f"should end at seq {last}"):
        rebuilt(lived_in)
    assert contents_of(lived_in) == before
    with lived_in.store.begin() as connection:
        connection.execute(insert(event_log), entry)
    assert rebuilt(lived_in).mended == {}


def test_the_digest_is_what_python_makes_of_the_rows(lived_in):
    with lived_in.store.begin() as connection:
        found = state_digest(lived_in.store.db, connection, "default")
        states = ledger.live_states(connection, "default")
    rows = [_hashed(states[key]) for key in sorted(states, key=str)]
    assert 0 < len(rows) < 4096, "one block"
    assert found == hashlib.sha256(hashlib.sha256(b"".join(rows)).digest()).hexdigest()


def _hashed(state: Any) -> bytes:
    rest = [c.name for c in memory_state.columns if c.name not in ("namespace_id", "object_id")]

    def text_of(name: str) -> str:
        value = getattr(state, name)
        if value is None:
            return "\x1e"
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float):
            return str(math.floor(value * 1e9 + 0.5))
        return value.hex() if isinstance(value, bytes) else str(value)

    return hashlib.sha256("\x1f".join(text_of(name) for name in (*OBJECT_COLUMNS, *rest)).encode()).digest()


def test_a_comparison_sees_writers_neither_half_nor_twice(make_url_for, clock):
    """PostgreSQL: a comparison begun before a write finds nothing wrong, though the write commits meanwhile."""
    url = make_url_for("postgresql")
    with Ebbtide(url, clock=clock) as ebb, Ebbtide(url, clock=clock) as writer:
        ebb.ask(*(lived.belief(f"b{n}") for n in range(20)))
        with ebb.store.session() as connection:
            db = ebb.store.db
            with db.snapshot(connection).begin():
                connection.execute(select(namespaces))
                writer.ask(lived.belief("new"), {"op": "PIN", "object": "b3"})
                compared = compare(db, connection, "default")
                assert (compared.total, named(connection, compared)) == (0, [])
                mend(connection, compared, "default")
        assert rebuilt(ebb).mended == {}
        assert len(ledger.check(ebb).live) == 21


def test_the_whole_store_is_rebuilt_namespace_by_namespace(lived_in):
    done: list[tuple[int, int]] = []
    found = lived_in.rebuild(progress=lambda n, of: done.append((n, of)))
    assert found.equal
    assert found.before == found.after
    assert [one.namespace_id for one in found.namespaces] == ["default", "other"]
    assert done == [(1, 2), (2, 2)]
    with lived_in.store.begin() as connection:
        assert found.entries == connection.execute(select(func.count()).select_from(event_log)).scalar_one()
    one = lived_in.rebuild(namespace="other")
    assert one.before == found.namespaces[1].before
    with pytest.raises(NotFound, match="nobody"):
        lived_in.rebuild(namespace="nobody")


def test_entries_of_a_newer_form_are_not_guessed_at(lived_in):
    newest = update(event_log).where(event_log.c.namespace_id == "other", event_log.c.seq == 2)
    with lived_in.store.begin() as connection:
        if lived_in.store.db.name == "postgresql":
            connection.execute(text("SET session_replication_role = replica"))
        connection.execute(newest.values(schema_version=2))
    with pytest.raises(Refused, match="entries of version 2, and this Ebbtide reads up to 1: upgrade"):
        rebuilt(lived_in, "other")
    with lived_in.store.begin() as connection:
        if lived_in.store.db.name == "postgresql":
            connection.execute(text("SET session_replication_role = replica"))
        connection.execute(newest.values(schema_version=1))
    assert rebuilt(lived_in, "other").mended == {}
