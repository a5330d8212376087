"""Whatever text was written, in whatever field of whatever request: after each kind of forgetting, exactly what it is
to take is gone, from the tables and then from the database's files, byte by byte; and nothing later brings it back.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.engine import URL

from ebbtide import Ebbtide
from ebbtide.memory.requests import AnyRequest, Line
from ebbtide.policy.document import policy_from

NS = "home"
REQUESTS: dict[str, type[Line]] = {kind.model_fields["op"].default: kind for kind in get_args(AnyRequest)}
TREES = ("value", "content", "metadata")
RETENTION = [{"match": {"object_types": ["TASK"]}, "ttl_days": 5, "action": "erase"}]
POLICY = policy_from(
    {"id": "short", "version": "1.0.0", "params": {"guard": {"max_fraction": 1.0}, "retention": RETENTION}}
)

pytestmark = pytest.mark.lets_go
FILTERS = {"SUPPRESS by filter", "UNSUPPRESS by filter"}
ENTITIES = {"ENTITY_CREATE", "ENTITY_MERGE"}


class Told:
    """A store that was told words, each found nowhere else, with who they are of and in which request they came."""

    def __init__(self, ebb: Ebbtide) -> None:
        self.ebb = ebb
        self.words: dict[str, tuple[str, str]] = {}

    def word(self, who: str, what: str) -> str:
        made = f"canary{secrets.token_hex(8)}"
        self.words[made] = (who, what)
        return made

    def say(self, who: str, op: str, *, what: str | None = None, **said: Any) -> None:
        """Makes a request whose every text field is full of words."""
        kind = REQUESTS[op]
        fields: dict[str, Any] = {}
        for name in kind.TEXT:
            if name not in {*kind.model_fields, "content"}:
                continue
            key, leaf, deep = (self.word(who, what or op) for _ in range(3))
            fields[name] = {key: leaf, "deep": [{"deep": deep}]} if name in TREES else leaf
            if name == "aliases":
                fields[name] = [leaf, deep]
        self.ebb.ask({"op": op, "namespace": NS} | fields | said)

    def live(self, who: str) -> None:
        """The life of two memories of a person, in which everything is asked that can be."""
        one, two = f"{who}-1", f"{who}-2"
        kind = {"epistemic_type": "CONDITIONAL", "source_type": "USER_STATED", "object_type": "TASK"}
        self.say(who, "EVENT", ref=f"{who}-said", subject=who)
        self.say(who, "EVENT", ref=f"{who}-heard")
        self.say(who, "ASSERT", ref=one, subject=who, evidence=[f"{who}-said", f"{who}-heard"], **kind)
        self.say(who, "CONDITION_SET", object=one, condition="TRUE")
        self.say(who, "REINFORCE", object=one, signal="CONFIRMED")
        self.say(who, "PENALTY", object=one, signal="TASK_FAILED_WITH")
        for op in ("ACCESS", "PIN", "UNPIN", "HOLD", "RELEASE", "SUPPRESS", "UNSUPPRESS"):
            self.say(who, op, object=one)
        self.say(who, "EPISTEMIC_TRANSITION", object=one, to_type="ASSERTED", trigger_type="user_correction")
        self.say(who, "SUPERSEDE", object=one, ref=two)
        for op in ("ARCHIVE", "RESTORE", "DEPRECATE"):
            self.say(who, op, object=two)
        for op in ("SUPPRESS", "UNSUPPRESS"):
            self.say(who, op, subject=who, what=f"{op} by filter")
        for ref in (f"{who}-entity", f"{who}-alias"):
            self.say(who, "ENTITY_CREATE", ref=ref, entity_type="PERSON")
        self.say(who, "ENTITY_MERGE", primary=f"{who}-entity", merged=f"{who}-alias")
        self.say(who, "RELATE", edge_type="ABOUT", source=f"{who}-entity", target=two)
        self.say(who, "CONTRADICTION_NOTED", object_a=one, object_b=two)

    def found(self, raw: bytes) -> set[tuple[str, str]]:
        """Of whom, and of which request, words stand in something."""
        return {said for word, said in self.words.items() if word.encode() in raw}


def tell(ebb: Ebbtide, policy: str) -> Told:
    """Maya's and Tom's memories under a policy."""
    ebb.register_policy(POLICY)
    ebb.assign_policy(policy, namespace=NS)
    told = Told(ebb)
    # A connection kept open spares DuckDB from opening the file for each request.
    with ebb.store.db.connect():
        for who in ("maya", "tom"):
            told.live(who)
    return told


def tables(ebb: Ebbtide) -> bytes:
    """Every row of every table."""
    query = (
        "SELECT table_schema, table_name FROM information_schema.tables "
        "WHERE table_type = 'BASE TABLE' AND table_schema IN ('main', 'public', 'audit')"
    )
    with ebb.store.begin() as connection:
        names = [f"{schema}.{name}" for schema, name in connection.execute(text(query))]
        values = [value for name in names for row in connection.execute(text(f"SELECT * FROM {name}")) for value in row]
    return b"\n".join(bytes(v) if isinstance(v, bytes | memoryview) else str(v).encode() for v in values)


def files(url: URL) -> bytes:
    """Every byte of the files in which a database keeps its tables; for PostgreSQL with what ANALYZE has sampled."""
    if url.drivername == "duckdb":
        return b"".join(path.read_bytes() for path in sorted(Path(str(url.database)).parent.iterdir()))
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CHECKPOINT"))
        query = "SELECT current_setting('data_directory') || '/base/' || oid FROM pg_database WHERE datname = :name"
        folder = connection.execute(text(query), {"name": url.database}).scalar_one()
        sampled = str(connection.execute(text("SELECT * FROM pg_stats WHERE tablename = 'contents'")).all())
    engine.dispose()
    return b"".join(path.read_bytes() for path in sorted(Path(folder).iterdir())) + sampled.encode()


def analyse(url: URL) -> None:
    """What PostgreSQL does by itself sooner or later: it samples the tables' values for its planner."""
    if url.drivername == "duckdb":
        return
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("ANALYZE"))
    engine.dispose()


def by_object(ebb: Ebbtide, clock: Any) -> None:
    ebb.erase("maya-1", namespace=NS)
    ebb.erase("maya-2", namespace=NS)


def by_list(ebb: Ebbtide, clock: Any) -> None:
    ebb.erase("maya-1", "maya-2", namespace=NS)


def by_subject(ebb: Ebbtide, clock: Any) -> None:
    ebb.erase(subject="maya", namespace=NS)


def by_namespace(ebb: Ebbtide, clock: Any) -> None:
    ebb.erase(everything=True, namespace=NS)


def by_ttl(ebb: Ebbtide, clock: Any) -> None:
    clock.forward(days=6)
    ebb.organise()
    ebb.scrub()


Forget = Callable[[Ebbtide, Any], None]
TAKEN: dict[Forget, tuple[tuple[str, ...], set[str]]] = {
    by_object: (("maya",), FILTERS | ENTITIES),
    by_list: (("maya",), FILTERS | ENTITIES),
    by_subject: (("maya",), ENTITIES),
    by_namespace: (("maya", "tom"), set()),
    by_ttl: (("maya", "tom"), FILTERS | ENTITIES),
}
"""For each kind of forgetting whose words it takes, and which of theirs it leaves: what is the namespace's own."""


def test_every_request_and_every_text_field_is_told(ebb):
    told = tell(ebb, "default@1.0.0")
    ops = {what.removesuffix(" by filter") for _, what in told.words.values()}
    assert ops == set(REQUESTS)
    assert told.found(tables(ebb)) == set(told.words.values())


@pytest.mark.parametrize("forget", TAKEN, ids=lambda forget: forget.__name__)
def test_exactly_what_is_to_go_is_gone_and_stays_gone(ebb, url, clock, forget):
    told = tell(ebb, POLICY.name if forget is by_ttl else "default@1.0.0")
    store = make_url(url)
    everything = set(told.words.values())
    analyse(store)
    assert told.found(files(store)) == everything, "so that the search means something"
    forget(ebb, clock)
    whose, left = TAKEN[forget]
    kept = {(who, what) for who, what in everything if who not in whose or what in left}
    assert told.found(tables(ebb)) == kept
    assert told.found(files(store)) <= kept
    clock.forward(days=1)
    ebb.assign_policy("archivist@1.0.0", namespace=NS)
    ebb.event("later", namespace=NS)
    clock.forward(days=300)
    ebb.organise()
    analyse(store)
    assert told.found(tables(ebb)) == kept
    assert told.found(files(store)) <= kept
