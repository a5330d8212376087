"""Erasure: gone from every table at once, then from the files; the rest untouched, with counts; on both databases."""

import hashlib
import io
import json
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from tests.files import bytes_of

from ebbtide import Conflict, Ebbtide, NotFound, Refused
from ebbtide.model.errors import StoreUnavailable

pytestmark = pytest.mark.lets_go

NS = "home"


@pytest.fixture
def two(ebb):
    """Maya's three memories and Tom's two, with events of each and one of both."""
    for ref, subject in (("of-maya", "maya"), ("of-tom", "tom"), ("of-both", None), ("of-her-memories", None)):
        ebb.event(f"CANARY-{subject} said {ref}", ref=ref, subject=subject, namespace=NS)
    for number in range(3):
        ebb.assert_memory(
            f"CANARY-maya fact {number}",
            ref=f"maya-{number}",
            subject="maya",
            evidence=["of-both", "of-her-memories"],
            metadata={"note": "CANARY-maya note"},
            namespace=NS,
            epistemic_type="OBSERVED",
            source_type="USER_STATED",
        )
    for number in range(2):
        ebb.assert_memory(
            f"CANARY-tom fact {number}",
            ref=f"tom-{number}",
            subject="tom",
            evidence=["of-both"],
            namespace=NS,
            epistemic_type="OBSERVED",
            source_type="USER_STATED",
        )
    ebb.pin("maya-1", reason="CANARY-maya reason", namespace=NS)
    ebb.suppress(subject="maya", reason="CANARY-maya away", namespace=NS)
    return ebb


def dump(ebb):
    """Every row of every table, as text."""
    with ebb.store.begin() as connection:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema IN ('main', 'public')"
        names = connection.execute(text(query + " AND table_type = 'BASE TABLE'")).scalars().all()
        return "".join(str(connection.execute(text(f"SELECT * FROM {name}")).all()) for name in sorted(names))


def test_one_subject_goes_and_the_other_stays(two):
    receipt = two.erase(subject="maya", namespace=NS)
    assert receipt.erased.model_dump() == {"objects": 3, "events": 2, "contents": 7}
    assert receipt.kept.model_dump() == {"objects": 2, "events": 2, "contents": 4}
    assert "CANARY-maya" not in dump(two)
    assert sorted(memory.value for memory in two.memories(namespace=NS)) == ["CANARY-tom fact 0", "CANARY-tom fact 1"]
    assert len(receipt.tombstones) == 5


def test_the_receipt_shows_what_was_deleted_to_who_remembers_it(two):
    receipt = two.erase("maya-0", namespace=NS)
    (item,) = receipt.items
    content = json.dumps(
        {"value": "CANARY-maya fact 0", "metadata": {"note": "CANARY-maya note"}}, separators=(",", ":")
    )
    assert hashlib.sha256(bytes.fromhex(item.nonce) + content.encode()).hexdigest() == item.content_hash
    assert bytes.fromhex(item.nonce).hex() not in dump(two)


def test_the_bytes_are_gone_from_the_file(two, url):
    """DuckDB: searched byte by byte, and found before, so that the search means something."""
    if make_url(url).drivername != "duckdb":
        two.erase(subject="maya", namespace=NS)
        assert "CANARY-maya" not in dump(two)
        return
    file = Path(make_url(url).database)
    assert b"CANARY-maya" in bytes_of(file)
    two.erase(subject="maya", namespace=NS)
    assert b"CANARY-maya" not in bytes_of(file)
    assert b"CANARY-tom" in bytes_of(file)
    with two.store.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM audit.tombstones")).scalar_one() == 5


def test_a_hold_on_any_of_it_refuses_all_of_it(two):
    two.hold("maya-2", namespace=NS)
    before = two.status(namespace=NS)
    with pytest.raises(Refused, match="maya-2 is held"):
        two.erase(subject="maya", namespace=NS)
    assert two.status(namespace=NS) == before
    assert dump(two).count("CANARY-maya") > 0
    two.release("maya-2", namespace=NS)
    assert two.erase(subject="maya", namespace=NS).erased.objects == 3


def test_a_preview_says_the_same_and_changes_nothing(two):
    before = dump(two)
    preview = two.erase(subject="maya", namespace=NS, preview=True)
    assert dump(two) == before
    assert two.erase(subject="maya", namespace=NS).erased == preview.erased


def test_what_was_confirmed_goes_and_nothing_else(two):
    """A confirmation is of what its preview showed and of why: no other memory, no other reason, nothing new."""
    of_maya = two.erase(subject="maya", namespace=NS, preview=True)
    before = dump(two)
    with pytest.raises(Conflict, match="look at it again"):
        two.erase(subject="tom", namespace=NS, confirmation=of_maya.confirmation())
    with pytest.raises(Conflict):
        two.erase(subject="maya", namespace=NS, reason="compliance", confirmation=of_maya.confirmation())
    two.event("CANARY-maya said more", subject="maya", namespace=NS)
    with pytest.raises(Conflict):
        two.erase(subject="maya", namespace=NS, confirmation=of_maya.confirmation())
    assert dump(two).count("CANARY-maya") == before.count("CANARY-maya") + 1
    with two.store.begin() as connection:
        query = text("SELECT rule FROM refusals")
        assert connection.execute(query).scalars().all() == ["confirmation"] * 3
    again = two.erase(subject="maya", namespace=NS, preview=True).confirmation()
    assert two.erase(subject="maya", namespace=NS, confirmation=again).erased.events == of_maya.erased.events + 1
    assert "CANARY-maya" not in dump(two)


def test_a_whole_namespace_goes_and_others_stay(two):
    two.event("CANARY-other", namespace="other")
    receipt = two.erase(everything=True, namespace=NS)
    assert (receipt.erased.objects, receipt.erased.events) == (5, 4)
    assert receipt.kept.model_dump() == {"objects": 0, "events": 0, "contents": 0}
    assert "CANARY-maya" not in dump(two)
    assert "CANARY-tom" not in dump(two)
    assert "CANARY-other" in dump(two)


def test_what_was_erased_stays_erased_and_can_be_said_anew(two):
    line = (
        '{"op":"ASSERT","namespace":"home","ref":"again","object_type":"FACT","epistemic_type":"ASSERTED",'
        '"source_type":"USER_STATED","value":"CANARY-maya again","effective_at":"2026-03-01T00:00:00Z"}'
    )
    two.ingest(io.BytesIO(line.encode()))
    two.erase("again", namespace=NS)
    assert two.ingest(io.BytesIO(line.encode())).unchanged == 1
    assert "CANARY-maya again" not in dump(two)
    for request in (two.restore, two.access, two.pin, two.hold):
        with pytest.raises(Refused, match="erased"):
            request("again", namespace=NS)
    with pytest.raises(NotFound, match="erased already"):
        two.erase("again", namespace=NS)
    new = two.assert_memory(
        "CANARY-maya again", ref="anew", namespace=NS, epistemic_type="ASSERTED", source_type="USER_STATED"
    )
    assert new.eligible


def test_unknown_objects_and_reasons_are_refused(two):
    with pytest.raises(NotFound):
        two.erase("maya-0", "nobody", namespace=NS)
    with pytest.raises(NotFound):
        two.erase(everything=True, namespace="nowhere")
    assert two.memory("maya-0", namespace=NS).value == "CANARY-maya fact 0"


def test_who_may_not_scrub_is_told_before_anything_is_erased(make_url_for):
    """PostgreSQL would only warn, and leave the bytes where they are."""
    url = make_url(make_url_for("postgresql"))
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("DROP ROLE IF EXISTS ebb_scrub_test"))
        connection.execute(text("CREATE ROLE ebb_scrub_test LOGIN IN ROLE ebbtide_app"))
    with Ebbtide(url.set(username="ebb_scrub_test").render_as_string(hide_password=False)) as ebb:
        ebb.event("CANARY", ref="said", subject="maya", namespace=NS)
        with pytest.raises(Refused, match="owner"):
            ebb.erase(subject="maya", namespace=NS)
        assert "CANARY" in dump(ebb)
        assert ebb.erase(subject="maya", namespace=NS, scrub=False).erased.events == 1
        assert "CANARY" not in dump(ebb)
        with pytest.raises(Refused, match="owner"):
            ebb.scrub()
    with Ebbtide(url.render_as_string(hide_password=False)) as ebb:
        ebb.scrub()
    with engine.connect() as connection:
        connection.execute(text("DROP OWNED BY ebb_scrub_test"))
        connection.execute(text("DROP ROLE ebb_scrub_test"))
    engine.dispose()


def test_one_object_takes_nothing_of_the_namespace_with_it(two):
    """Names of entities and reasons of filters are the namespace's: only erasing it, or the subject, takes them."""
    request = {"op": "ENTITY_CREATE", "namespace": NS, "entity_type": "PERSON", "canonical_name": "CANARY-entity"}
    two.ask(request)
    two.erase("tom-0", namespace=NS)
    assert "CANARY-entity" in dump(two)
    assert "CANARY-maya away" in dump(two)
    two.erase(subject="tom", namespace=NS)
    assert "CANARY-maya away" in dump(two)
    two.erase(subject="maya", namespace=NS)
    assert "CANARY-maya away" not in dump(two)
    assert "CANARY-entity" in dump(two)


def test_a_policy_assigned_later_leaves_what_was_erased_alone(two, clock):
    two.erase("maya-0", namespace=NS)
    before = len(two.history("maya-0", namespace=NS))
    two.assign_policy("recency@1.0.0", namespace=NS)
    clock.forward(days=200)
    two.organise()
    assert len(two.history("maya-0", namespace=NS)) == before


def test_a_refused_erasure_is_kept_in_refusals(two):
    two.hold("maya-2", namespace=NS)
    with pytest.raises(Refused):
        two.erase("maya-2", namespace=NS, actor="tom")
    with two.store.begin() as connection:
        row = connection.execute(text("SELECT op_type, actor_id, rule FROM refusals")).one()
    assert tuple(row) == ("TOMBSTONE", "tom", "held")


def test_a_file_that_is_open_elsewhere_in_the_program_is_not_replaced(make_url_for, clock):
    """A scrub replaces DuckDB's file: what a connection that is still open wrote would go with the old one."""
    with Ebbtide(make_url_for("duckdb"), clock=clock) as ebb:
        known = {"epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
        ebb.assert_memory("one", ref="b1", **known)
        with ebb.store.session():
            with pytest.raises(Refused, match="open elsewhere in this program"):
                ebb.erase("b1")
            assert ebb.memory("b1").erased_at is None
            ebb.erase("b1", scrub=False)
            ebb.assert_memory("two", ref="b2", **known)
        ebb.scrub()
        assert [memory.ref for memory in ebb.memories()] == ["b2"]


def test_what_is_said_again_may_say_that_it_was_erased(two):
    """On record, and nothing of what was erased comes back."""
    said = {"namespace": NS, "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
    erased = two.memory("tom-0", namespace=NS).id
    two.erase("tom-0", namespace=NS)
    again = two.assert_memory("CANARY-tom fact 0", reasserts_erased=True, **said)
    assert again.eligible
    assert again.id != erased
    assert two.history(again.id, namespace=NS)[0].payload["reasserts_erased"] is True
    assert two.memory("tom-0", namespace=NS).value is None


@pytest.mark.parametrize("where", ["a reader here", "a writer elsewhere"])
def test_what_others_make_postgresql_keep_is_told_and_scrubbed_when_they_are_done(make_url_for, clock, where):
    """VACUUM keeps rows for who reads at an older instant, and for who writes in any database of the server."""
    url = make_url_for("postgresql")
    there = make_url(url) if where == "a reader here" else make_url(url).set(database="postgres")
    with Ebbtide.open(url, clock=clock, wait=0.2) as ebb:
        ebb.assert_memory("CANARY-seen", ref="seen", epistemic_type="OBSERVED", source_type="USER_STATED")
        engine = create_engine(there, isolation_level="REPEATABLE READ")
        with engine.connect() as other:
            query = "SELECT count(*) FROM contents" if where == "a reader here" else "SELECT pg_current_xact_id()"
            other.execute(text(query))
            receipt = ebb.erase("seen")
            assert receipt.erased.contents == 1
            assert "could not be scrubbed" in receipt.still_holding[0]
            with pytest.raises(StoreUnavailable, match="would keep what was erased"):
                ebb.scrub()
        engine.dispose()
        with Ebbtide(url, clock=clock) as patient:
            patient.scrub()
            with patient.store.begin() as connection:
                connection.execute(text("CHECKPOINT"))
                query = "SELECT current_setting('data_directory') || '/' || pg_relation_filepath('contents')"
                file = Path(connection.execute(text(query)).scalar_one())
            assert b"CANARY-seen" not in file.read_bytes()
