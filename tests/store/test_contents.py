"""What callers wrote as text stands in `contents` and nowhere else: that is what makes erasure possible."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

import pytest
from sqlalchemy import MetaData, Text, cast, func, select, text

from ebbtide import Ebbtide, Refused
from ebbtide.model.entry import Entry
from ebbtide.store.tables import contents

BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
LESSON = BELIEF | {"epistemic_type": "INFERRED", "source_type": "SYSTEM_INFERRED", "confidence": 0.95}
TABLES_OF = """
    SELECT table_name FROM information_schema.tables
    WHERE table_type = 'BASE TABLE' AND table_schema IN ('public', 'main', 'audit')
      AND table_catalog = current_database()
"""


class Canaries:
    """Words that occur nowhere else, and where each was put."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}

    def word(self, place: str) -> str:
        made = f"canary{len(self.words)}x{secrets.token_hex(6)}"
        self.words[made] = place
        return made

    def said(self, op: str, *fields: str) -> dict[str, Any]:
        """Each field filled with words of its own; structured ones as keys as well, and deep down."""
        made: dict[str, Any] = {"metadata": self.tree(f"{op}.metadata")}
        for field in fields:
            made[field] = self.word(f"{op}.{field}") if field == "reason" else self.tree(f"{op}.{field}")
        return {"op": op, **made}

    def tree(self, place: str) -> dict[str, Any]:
        key, leaf, deep = (self.word(f"{place} ({where})") for where in ("key", "text", "deep"))
        return {key: f"words and {leaf}", "list": [1, {"deep": deep}]}


@pytest.fixture
def said(ebb: Ebbtide, clock) -> Canaries:
    """A store in which every kind of request was made, with text in every place that takes text."""
    canaries = Canaries()
    say = canaries.said
    ebb.ask(
        say("EVENT", "content") | {"ref": "m1"},
        BELIEF | say("ASSERT", "value") | {"ref": "job", "evidence": ["m1"]},
        BELIEF | say("ASSERT", "value"),
        LESSON | say("ASSERT", "value") | {"ref": "one"},
        LESSON | say("ASSERT", "value") | {"ref": "two"},
        LESSON | say("ASSERT", "value") | {"ref": "three"},
    )
    ebb.ask(
        say("ACCESS") | {"object": "job"},
        say("REINFORCE", "reason") | {"object": "job", "signal": "CONFIRMED", "ref": "praise"},
        say("PENALTY", "reason") | {"object": "job", "signal": "TASK_FAILED_WITH"},
        say("PIN", "reason") | {"object": "job"},
        say("UNPIN", "reason") | {"object": "job"},
        say("SUPERSEDE", "value", "reason") | {"object": "job", "ref": "job-2"},
    )
    clock.forward(days=26)
    ebb.organise()
    ebb.ask(
        say("RESTORE", "reason") | {"object": "one"},
        say("REINFORCE", "reason") | {"object": "two", "signal": "REFERENCED", "restore": True},
        say("PENALTY", "reason") | {"object": "three", "signal": "IGNORED_REPEATEDLY", "restore": True},
    )
    clock.forward(days=1)
    ebb.organise()
    return canaries


def where_found(ebb: Ebbtide, canaries: Canaries) -> dict[str, set[str]]:
    """For each place that was written to: the tables that hold the word in any column, be it as bytes."""
    everything: dict[str, bytes] = {}
    with ebb.store.begin() as connection:
        for table in connection.execute(text(TABLES_OF)).scalars().all():
            values = [value for row in connection.execute(text(f"SELECT * FROM {table}")) for value in row]
            everything[table] = b"\n".join(v if isinstance(v, bytes) else str(v).encode() for v in values)
    assert b"ASSERT" in everything["event_log"]
    return {
        place: {table for table, raw in everything.items() if word.encode() in raw}
        for word, place in canaries.words.items()
    }


def test_no_text_stands_anywhere_but_in_contents(ebb, said):
    """Every word that a caller wrote, of every kind of request, is kept in `contents`, in no other table."""
    places = where_found(ebb, said)
    assert len(places) > 40
    assert {place: tables for place, tables in places.items() if tables != {"contents"}} == {}


def test_the_database_finds_no_text_elsewhere_either(ebb, said):
    """The same search by the database itself, over every text column that is not of `contents`."""
    metadata = MetaData()
    with ebb.store.begin() as connection:
        names = connection.execute(text(TABLES_OF)).scalars().all()
        metadata.reflect(connection, only=[name for name in names if name != "contents"])
        searched = 0
        for table in metadata.tables.values():
            for column in table.columns:
                if not isinstance(column.type.as_generic(), Text) and column.type.python_type is not str:
                    continue
                searched += 1
                anywhere = func.lower(cast(column, Text)).like("%canary%")
                assert connection.execute(select(func.count()).where(anywhere)).scalar() == 0, str(column)
    assert searched > 50


def test_a_refused_request_leaves_its_text_nowhere(ebb):
    """A refusal keeps who asked what of which object, and which rule said no: not what was said."""
    ebb.ask(BELIEF | {"ref": "job", "value": "carpenter"})
    canaries = Canaries()
    with pytest.raises(Refused):
        ebb.ask(
            BELIEF | canaries.said("ASSERT", "value") | {"ref": "other"},
            canaries.said("RESTORE", "reason") | {"object": "job"},
        )
    assert {place for place, tables in where_found(ebb, canaries).items() if tables} == set()
    with ebb.store.begin() as connection:
        (row,) = connection.execute(text("SELECT op_type, rule FROM refusals"))
    assert tuple(row) == ("RESTORE", "restore_archived_only")


def kept(ebb: Ebbtide) -> dict[int, Any]:
    with ebb.store.begin() as connection:
        return {row.seq: row for row in connection.execute(select(contents).order_by(contents.c.seq))}


def test_the_content_hash_is_of_nonce_and_content(ebb, said, log_of):
    """content_hash = SHA-256(nonce ‖ content) wherever there is content, and null where there is none."""
    rows = kept(ebb)
    log: list[Entry] = log_of(ebb)
    assert {entry.seq for entry in log if entry.content_hash is not None} == set(rows)
    for entry in log:
        if entry.seq in rows:
            row = rows[entry.seq]
            assert entry.content_hash == hashlib.sha256(bytes(row.nonce) + row.content.encode()).digest()


def test_each_nonce_is_of_16_bytes_and_used_once(ebb, said):
    nonces = [bytes(row.nonce) for row in kept(ebb).values()]
    assert {len(nonce) for nonce in nonces} == {16}
    assert len(set(nonces)) == len(nonces)
    assert bytes(16) not in nonces


def test_the_log_holds_no_bare_hash_of_what_was_said(ebb, said, log_of):
    """A bare hash of a short sentence can be guessed: every hash of text in the log is salted by a nonce."""
    guesses: set[bytes] = set()
    for row in kept(ebb).values():
        document = json.loads(row.content)
        spelled = [row.content]
        for piece in (document, *document.values()):
            spelled += [piece] if isinstance(piece, str) else []
            spelled += [json.dumps(piece), json.dumps(piece, sort_keys=True, ensure_ascii=False)]
        guesses |= {hashlib.sha256(words.encode()).digest() for words in spelled}
        guesses |= {bytes(row.digest)} if row.digest else set()
    assert len(guesses) > 50
    for entry in log_of(ebb):
        assert not guesses & {entry.content_hash, entry.request_hash}
        assert not [guess for guess in guesses if guess.hex() in entry.payload + (entry.after or "")]


def test_content_survives_to_the_letter(ebb):
    """Odd key order, quotes, emoji, numbers as written: what a caller wrote comes back as it was."""
    value = {"b": 'quo"te\\ \u2028', "a": [100.0, 12345678901234567890], "É": {"z": "😀 e\u0301", "": None}}
    ebb.ask(BELIEF | {"ref": "odd", "value": value, "metadata": {"z": 1, "a": {"y": 2, "b": 3}}})
    (row,) = kept(ebb).values()
    spelled = '{"b":"quo\\"te\\\\ \u2028","a":[100.0,12345678901234567890],"É":{"z":"😀 e\u0301","":null}}'
    assert row.content == '{"value":' + spelled + ',"metadata":{"z":1,"a":{"y":2,"b":3}}}'
    (memory,) = ebb.memories()
    assert memory.value == value
    assert list(memory.value) == ["b", "a", "É"]
