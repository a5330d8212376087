"""Packs: out of one database into the other and back; damaged ones; what was erased; other histories."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import create_engine, event, text
from tests.conformance import eventful, ledger
from tests.conformance.packs import copied, forged, rewritten, sign, tables, with_value, without_row
from tests.conftest import DATABASES, Clock
from tests.files import copy_store

from ebbtide import BadInput, Conflict, Ebbtide, NotFound
from ebbtide.pack.form import PARTS
from ebbtide.project.rebuild import state_digest

pytestmark = pytest.mark.lets_go

BOTH = ("duckdb", "postgresql")


def counted(start: int = 1):
    numbers = count(start)
    return lambda size: next(numbers).to_bytes(size, "big")


@dataclass(frozen=True)
class Lived:
    """A rich history on DuckDB: a pack from before the erasure, one from after it, and the store."""

    url: str
    before: Path
    after: Path
    now: str


@pytest.fixture(scope="module")
def lived(duckdb_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Lived:
    folder = tmp_path_factory.mktemp("lived")
    shutil.copy(duckdb_template, folder / "store.duckdb")
    url, clock = f"duckdb:///{folder / 'store.duckdb'}", Clock()
    with Ebbtide.open(url, clock=clock, entropy=counted()) as ebb:
        eventful.live(ebb, clock)
        ebb.export_pack(folder / "before")
        eventful.erase(ebb, clock)
        ebb.export_pack(folder / "after")
    return Lived(url, folder / "before", folder / "after", clock.iso)


@pytest.fixture
def other(url: str, lived: Lived) -> Iterator[Ebbtide]:
    """An empty store on each database, with the clock where the history ends."""
    with Ebbtide.open(url, clock=Clock(lived.now), entropy=counted(1 << 20)) as opened:
        yield opened


def opened(url: str, now: str, entropy: int = 1 << 30) -> Ebbtide:
    return Ebbtide.open(url, clock=Clock(now), entropy=counted(entropy))


def test_every_operation_is_in_the_history(lived):
    """The round trip means something: all that can be written at all is in the pack, on both sides of the log."""
    ops = set(pq.read_table(lived.after / "operations.parquet")["op_type"].to_pylist())
    assert ops >= {
        *("ASSERT", "ACCESS", "REINFORCE", "PENALTY", "PIN", "UNPIN", "HOLD", "RELEASE", "SUPPRESS", "UNSUPPRESS"),
        *("SUPERSEDE", "ARCHIVE", "RESTORE", "DEPRECATE", "CONDITION_SET", "EPISTEMIC_TRANSITION"),
        *("CONTRADICTION_NOTED", "RELATE", "ENTITY_CREATE", "ENTITY_MERGE", "DECAY_APPLIED", "DECAY_WARNING"),
        *("TOMBSTONE", "POLICY_ASSIGNED", "ORGANISER_RUN"),
    }
    assert set(pq.read_table(lived.after / "events.parquet")["op_type"].to_pylist()) == {"EVENT"}


def test_out_of_duckdb_into_postgresql_and_back(lived, make_url_for, tmp_path):
    """Every table is the same afterwards, hashes and all; and time goes on in all three stores in the same way."""
    urls = [lived.url, make_url_for("postgresql"), make_url_for("duckdb")]
    pack = lived.after
    for place, url in enumerate(urls[1:]):
        with opened(url, lived.now) as ebb:
            ebb.import_pack(pack)
            pack = tmp_path / f"pack-{place}"
            ebb.export_pack(pack)
    scratch = tmp_path / "original.duckdb"
    copy_store(lived.url.removeprefix("duckdb:///"), scratch)
    urls[0] = f"duckdb:///{scratch}"
    found, later = [], []
    for url in urls:
        with opened(url, lived.now) as ebb:
            found.append(tables(ebb))
            eventful.go_on(ebb, ebb._clock)
            later.append(tables(ebb))
            for namespace in (eventful.HOME, eventful.WORK):
                ledger.check(ebb, namespace)
    for name in found[0]:
        assert found[1][name] == found[0][name], name
        assert found[2][name] == found[0][name], name
        assert later[1][name] == later[0][name], name
        assert later[2][name] == later[0][name], name
    assert len(later[0]["event_log"]) > len(found[0]["event_log"]) + 20


def test_a_pack_is_the_same_whichever_database_wrote_it(lived, make_url_for, tmp_path):
    with opened(make_url_for("postgresql"), lived.now) as ebb:
        ebb.import_pack(lived.after)
        ebb.export_pack(tmp_path / "again")
    for part in PARTS[:-1]:
        assert pq.read_table(tmp_path / "again" / part.file).equals(pq.read_table(lived.after / part.file)), part.file


def test_the_manifest_says_what_is_there(lived):
    manifest = json.loads((lived.after / "manifest.json").read_text())
    assert manifest == {
        "rms_version": "1.0",
        "format_version": "1",
        "created_at": lived.now,
        "namespaces": ["home", "work"],
        "event_count": 6,
        "operation_count": pq.read_metadata(lived.after / "operations.parquet").num_rows,
        "policy_versions": {
            "decay": ["archivist@1.0.0", "brief@1.0.0", "default@1.0.0"],
            "confidence": ["archivist@1.0.0", "brief@1.0.0", "default@1.0.0"],
            "extraction": [],
        },
        "embedding_model": None,
        "embedding_version": None,
        "is_full_export": True,
        "base_snapshot_id": None,
    }
    listed = [line.split("  ") for line in (lived.after / "checksum.sha256").read_text().splitlines()]
    assert [name for _, name in listed[:3]] == ["manifest.json", "events.parquet", "operations.parquet"]
    for digest, name in listed:
        assert hashlib.sha256((lived.after / name).read_bytes()).hexdigest() == digest


def test_one_namespace_of_two(lived, other, tmp_path):
    with opened(lived.url, lived.now) as ebb:
        done = ebb.export_pack(tmp_path / "one", namespace="work")
        with pytest.raises(NotFound):
            ebb.export_pack(tmp_path / "none", namespace="nobody")
    assert (done.namespaces, done.is_full_export) == (["work"], False)
    assert not (tmp_path / "none").exists()
    other.import_pack(tmp_path / "one")
    found = tables(other)
    assert {row["namespace_id"] for row in found["event_log"]} == {"work"}
    ledger.check(other, "work")
    assert b"home" not in b"".join(path.read_bytes() for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert [row["policy_id"] for row in found["policies"] if not row["namespace_id"]].count("brief") == 0


# Import is idempotent, goes on from where it is, and refuses another history


def test_twice_changes_nothing(lived, other):
    first = other.import_pack(lived.after)
    before = tables(other)
    second = other.import_pack(lived.after)
    assert (first.namespaces, first.unchanged) == (["home", "work"], [])
    assert (second.namespaces, second.unchanged) == ([], ["home", "work"])
    assert (second.events, second.operations, second.contents, second.erased, second.refusals) == (0, 0, 0, 0, 0)
    assert tables(other) == before


def test_a_pack_that_goes_on_appends_the_rest(lived, other, make_url_for):
    """First what was before the erasure, then the rest: the same as all at once, and what was erased is gone."""
    other.import_pack(lived.before)
    assert eventful.CANARY in str(tables(other)["contents"])
    done = other.import_pack(lived.after)
    assert done.operations == 3, "tombstones of one memory, of another, and of its evidence"
    assert done.erased == 4, "what they said, and why something of the subject was suppressed"
    assert (done.namespaces, done.unchanged) == (["home"], ["work"])
    with opened(make_url_for("duckdb"), lived.now) as whole:
        whole.import_pack(lived.after)
        assert tables(other) == tables(whole)
    assert [row["namespace_id"] for row in tables(other)["contents"] if eventful.CANARY in row["content"]] == [
        "work"
    ] * 3
    ledger.check(other, eventful.HOME)


def test_an_older_pack_brings_nothing_back(lived, other):
    other.import_pack(lived.after)
    before = tables(other)
    done = other.import_pack(lived.before)
    assert done.unchanged == ["home", "work"]
    assert tables(other) == before


def test_what_was_erased_here_is_not_brought_back(lived, other):
    """One memory, and then all of a namespace; its own stream's text too."""
    other.import_pack(lived.before)
    other.erase("m1", namespace="home", scrub=False)
    other.release("m1", namespace="work")
    other.erase(everything=True, namespace="work", scrub=False)
    before = tables(other)
    assert not [row for row in before["contents"] if row["namespace_id"] == "work"]
    assert other.import_pack(lived.before).unchanged == ["home", "work"]
    assert tables(other) == before


def test_content_that_the_log_says_is_erased_is_not_imported(lived, other, tmp_path):
    """A pack into which somebody put back what was erased: the nonces and hashes fit, and it stays out all the same."""
    pack = copied(lived.after, tmp_path)
    old = pq.read_table(lived.before / "contents.parquet")
    rewritten(pack, "contents.parquet", lambda _: old)
    other.import_pack(pack)
    left = [row for row in tables(other)["contents"] if eventful.CANARY in row["content"]]
    kinds = {row["seq"]: row["op_type"] for row in tables(other)["event_log"] if row["namespace_id"] == "home"}
    assert [kinds[row["seq"]] for row in left if row["namespace_id"] == "home"] == ["SUPPRESS"]


def test_another_history_is_refused_and_says_where(lived, other, tmp_path):
    other.import_pack(lived.before)
    mine = other.assert_memory(
        "Mine.", ref="mine", namespace="home", epistemic_type="ASSERTED", source_type="USER_STATED"
    )
    (written,) = [entry.seq for entry in other.history(mine.id, namespace="home")]
    before = tables(other)
    with pytest.raises(Conflict, match=f"home here has another entry at seq {written} ") as refused:
        other.import_pack(lived.after)
    assert refused.value.exit_code == 4
    assert tables(other) == before
    assert other.import_pack(lived.before).unchanged == ["home", "work"]


def test_a_namespace_of_the_same_name_is_another_history(lived, other):
    other.assert_memory("Mine.", namespace="work", epistemic_type="ASSERTED", source_type="USER_STATED")
    before = tables(other)
    with pytest.raises(Conflict, match="work here has another entry at seq 1 "):
        other.import_pack(lived.after)
    assert tables(other) == before


def test_lines_without_a_ref_are_known_again_after_the_move(lived, other, make_url_for, tmp_path):
    """The namespace's secret comes along, so the same file changes nothing there either."""
    line = b'{"op":"EVENT","namespace":"lines","content":"No ref.","effective_at":"2026-03-01T00:00:00Z"}\n'
    with opened(make_url_for("duckdb"), lived.now) as ebb:
        assert ebb.ingest(BytesIO(line)).appended == 2
        ebb.export_pack(tmp_path / "lines")
    other.import_pack(tmp_path / "lines")
    assert (other.ingest(BytesIO(line)).appended, other.ingest(BytesIO(line)).unchanged) == (0, 1)


# Policies


def test_a_version_registered_here_with_other_content_is_not_disturbed(lived, other):
    """The namespace keeps the one its log has, and decides by it; the store keeps its own."""
    mine = eventful.brief(rho=0.3)
    other.register_policy(mine)
    done = other.import_pack(lived.after)
    assert done.policies == 0
    assert other.policy("brief@1.0.0") == mine
    with opened(lived.url, lived.now) as original:
        theirs = tables(original)["policy_profiles"]
    found = tables(other)["policy_profiles"]
    for rows in (theirs, found):
        rows[:] = [row for row in rows if row["namespace_id"] == "home"]
    assert {row["rho"] for row in found if row["policy_id"] == "brief"} == {0.1}
    assert found == theirs


def test_store_wide_versions_come_along(lived, other):
    assert other.import_pack(lived.after).policies == 1
    assert other.policy("brief@1.0.0") == eventful.brief()


# Erased content


def test_erased_content_is_absent_and_its_tombstone_is_there(lived, other):
    other.import_pack(lived.after)
    with opened(lived.url, lived.now) as ebb:
        original = {memory.ref: memory for memory in ebb.memories(namespace="home", everything=True)}
    found = {memory.ref: memory for memory in other.memories(namespace="home", everything=True)}
    assert found == original
    for ref in ("secret", "of-tom"):
        assert found[ref].value is None
        assert found[ref].erased_at is not None
        assert [entry.op_type for entry in other.history(ref, namespace="home")][-1] == "TOMBSTONE"
    with other.store.begin() as connection:
        here = [state_digest(other.store.db, connection, name) for name in (eventful.HOME, eventful.WORK)]
    with opened(lived.url, lived.now) as ebb, ebb.store.begin() as connection:
        assert [state_digest(ebb.store.db, connection, name) for name in (eventful.HOME, eventful.WORK)] == here


def test_no_byte_of_what_was_erased_is_in_any_file(lived, tmp_path):
    """Files are compressed, so the search is over their pages too; before the erasure it finds something."""
    with opened(lived.url, lived.now) as ebb:
        ebb.export_pack(tmp_path / "home", namespace="home")
    for pack, there in ((lived.before, True), (tmp_path / "home", False)):
        found = False
        for path in pack.rglob("*"):
            if path.is_file():
                raw = path.read_bytes()
                if path.suffix == ".parquet":
                    plain = tmp_path / "plain.parquet"
                    pq.write_table(pq.read_table(path), plain, compression="none", use_dictionary=False)
                    raw += plain.read_bytes()
                found = found or eventful.CANARY.encode() in raw
        assert found == there, pack


# Damaged packs


@pytest.fixture(scope="module")
def empty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ebbtide]]:
    """One empty store of each kind, which all refused imports leave as it is."""
    folder = tmp_path_factory.mktemp("empty")
    shutil.copy(request.getfixturevalue("duckdb_template"), folder / "empty.duckdb")
    server, template = (request.getfixturevalue(name) for name in ("postgres_url", "postgres_template"))
    name = f"{template}_damaged"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    url = server.set(database=name).render_as_string(hide_password=False)
    with Ebbtide.open(f"duckdb:///{folder / 'empty.duckdb'}") as one, Ebbtide.open(url) as two:
        yield {"duckdb": one, "postgresql": two}
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def refused(ebb: Ebbtide, pack: Path, *parts: str) -> None:
    with pytest.raises(BadInput) as error:
        ebb.import_pack(pack)
    for part in parts:
        assert part in str(error.value)
    assert "\n" not in str(error.value)
    with ebb.store.begin() as connection:
        for name in ("namespaces", "event_log", "batches", "contents", "refusals", "memory_state", "streams"):
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one() == 0, name


FILES = ["manifest.json", *(part.file for part in PARTS), "graph/edges.parquet", "snapshot/memory_objects.parquet"]


@pytest.mark.parametrize("file", [*FILES, "checksum.sha256"])
def test_one_byte_flipped_is_refused(lived, empty, tmp_path, file):
    pack = copied(lived.after, tmp_path)
    raw = bytearray((pack / file).read_bytes())
    raw[len(raw) // 2] ^= 1
    (pack / file).write_bytes(raw)
    refused(empty["duckdb"], pack, "checksum.sha256" if file == "checksum.sha256" else file)


@pytest.mark.parametrize("file", [*FILES, "checksum.sha256"])
def test_a_missing_file_is_refused(lived, empty, tmp_path, file):
    pack = copied(lived.after, tmp_path)
    (pack / file).unlink()
    refused(empty["duckdb"], pack, file)


@pytest.mark.parametrize("file", [part.file for part in PARTS])
def test_a_file_that_is_not_listed_is_as_good_as_missing(lived, empty, tmp_path, file):
    pack = copied(lived.after, tmp_path)
    (pack / file).unlink()
    sign(pack)
    refused(empty["duckdb"], pack, file)


def changed(column, row, value):
    return with_value(column, row, value)


HASH = bytes(31) + b"\x01"
TAMPERED = {
    "a payload": ("operations.parquet", changed("payload", 20, lambda v: v.replace(":", ": ")), "seq"),
    "an actor": ("events.parquet", changed("actor_id", 1, lambda v: v + "x"), "seq"),
    "an instant": ("events.parquet", changed("effective_at", 0, lambda v: v + 1), "seq"),
    "a score": ("operations.parquet", changed("salience", 5, lambda v: 0.123456789), "seq"),
    "a score's tenth decimal": ("operations.parquet", changed("salience", 5, lambda v: 0.5 + 1e-10), "nine decimals"),
    "null where there was none": ("operations.parquet", changed("payload", 3, lambda v: None), "null"),
    "the hash's mark for null": ("operations.parquet", changed("after", 0, lambda v: "\x1e"), "control character"),
    "a hash": ("operations.parquet", changed("hash", 7, lambda v: HASH), "seq"),
    "a short hash": ("operations.parquet", changed("prev_hash", 7, lambda v: b"short"), "no hash"),
    "an id in capitals": ("operations.parquet", changed("stream_id", 4, str.upper), "no id"),
    "an entry cut at the end": ("operations.parquet", without_row(-1), "not those of its root"),
    "an entry cut in the middle": ("operations.parquet", without_row(40), "entries are missing"),
    "an event cut": ("events.parquet", without_row(2), "entries are missing"),
    "an entry twice": ("operations.parquet", lambda t: pa.concat_tables([t, t.slice(9, 1)]), "twice"),
    "an operation among the events": ("events.parquet", changed("op_type", 0, lambda v: "ASSERT"), "other file"),
    "a batch cut": ("batches.parquet", without_row(3), "batch"),
    "the last batch cut": ("batches.parquet", without_row(-1), "batch"),
    "a batch's root": ("batches.parquet", changed("root", 2, lambda v: HASH), "batch 3"),
    "a batch's hash": ("batches.parquet", changed("hash", 2, lambda v: HASH), "batch 3"),
    "a content": ("contents.parquet", changed("content", 4, lambda v: v.replace("e", "E", 1)), "content of seq"),
    "a nonce": ("contents.parquet", changed("nonce", 4, lambda v: bytes(16)), "content of seq"),
    "a content cut": ("contents.parquet", without_row(0), "content of seq"),
    "a content of no entry": ("contents.parquet", changed("seq", 0, lambda v: 9999), "content of seq 9999"),
    "a head": ("namespaces.parquet", changed("last_seq", 0, lambda v: v - 1), "should end"),
    "a namespace cut": ("namespaces.parquet", without_row(0), "as its manifest says"),
    "a column cut": ("operations.parquet", lambda t: t.drop_columns(["after"]), "other columns"),
    "a column more": ("contents.parquet", lambda t: t.append_column("more", t["content"]), "other columns"),
    "a column of another type": (
        "batches.parquet",
        lambda t: t.set_column(1, "batch", t["batch"].cast(pa.int32())),
        "other columns",
    ),
    "a policy": ("policies.parquet", changed("document", 0, lambda v: '{"id":"x"}'), "cannot read"),
}


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("what", TAMPERED)
def test_a_change_is_noticed_whatever_the_checksums_say(lived, empty, tmp_path, what, kind):
    file, change, said = TAMPERED[what]
    pack = copied(lived.after, tmp_path)
    rewritten(pack, file, change)
    refused(empty[kind], pack, said)


def test_no_parquet_at_all(lived, empty, tmp_path):
    pack = copied(lived.after, tmp_path)
    (pack / "events.parquet").write_bytes(b"PAR1 and then nothing")
    sign(pack)
    refused(empty["duckdb"], pack, "events.parquet", "cannot be read")


MANIFESTS = {
    "another format": ({"format_version": "2"}, "format_version"),
    "another version": ({"rms_version": "2.0"}, "rms_version"),
    "an unknown key": ({"more": 1}, "more"),
    "another count": ({"event_count": 7}, "has 6 rows, not 7"),
    "another namespace": ({"namespaces": ["home"]}, "as its manifest says"),
    "one person's": ({"subject": "maya"}, "no pack to import"),
    "a name that cannot be": ({"namespaces": ["ho\u0001me", "work"]}, "namespaces"),
}


@pytest.mark.parametrize("what", MANIFESTS)
def test_a_manifest_that_does_not_fit(lived, empty, tmp_path, what):
    values, said = MANIFESTS[what]
    pack = copied(lived.after, tmp_path)
    manifest = json.loads((pack / "manifest.json").read_text()) | values
    (pack / "manifest.json").write_text(json.dumps(manifest))
    sign(pack)
    refused(empty["duckdb"], pack, said)


def test_a_checksum_file_does_not_lead_outside(lived, empty, tmp_path):
    pack = copied(lived.after, tmp_path)
    with (pack / "checksum.sha256").open("a") as file:
        file.write(f"{'0' * 64}  ../elsewhere\n")
    refused(empty["duckdb"], pack, "outside")


def first(entries, op: str):
    return next(entry for entry in entries if entry["op_type"] == op)


def no_json(entries) -> None:
    first(entries, "EVENT")["payload"] = "{"


def no_policy(entries) -> None:
    entry = first(entries, "POLICY_ASSIGNED")
    entry["payload"] = entry["payload"].replace('"rho"', '"roh"')


def no_id(entries) -> None:
    entry = first(entries, "RELATE")
    entry["payload"] = entry["payload"].replace('"source_id":"', '"source_id":"x')


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("change", [no_json, no_policy, no_id])
def test_a_log_that_is_whole_and_says_nonsense_is_refused(lived, empty, tmp_path, change, kind):
    pack = copied(lived.after, tmp_path)
    forged(pack, change)
    refused(empty[kind], pack, "cannot be read")


def test_a_forged_history_is_another_one(lived, other, tmp_path):
    """All its hashes fit, and it differs in one word; it is told from the true one, and where."""
    pack = copied(lived.after, tmp_path)
    said = []

    def somebody_else(entries) -> None:
        entry = first(entries, "PENALTY")
        entry["actor_id"] = "somebody"
        said.append(entry["seq"])

    forged(pack, somebody_else)
    other.import_pack(lived.after)
    with pytest.raises(Conflict, match=f"home here has another entry at seq {said[0]} "):
        other.import_pack(pack)


def test_the_snapshot_is_not_trusted(lived, other, tmp_path):
    pack = copied(lived.after, tmp_path)
    rewritten(pack, "snapshot/memory_objects.parquet", with_value("salience", 0, lambda v: 0.999))
    rewritten(pack, "graph/edges.parquet", without_row(0))
    other.import_pack(pack)
    for namespace in (eventful.HOME, eventful.WORK):
        ledger.check(other, namespace)
    assert len(tables(other)["edges"]) == 2


# All or nothing


class Stopped(RuntimeError):
    """What a test stops an export or import with."""


def stop(done: int, total: int) -> None:
    raise Stopped


def test_a_stopped_export_leaves_nothing(lived, tmp_path):
    with opened(lived.url, lived.now) as ebb, pytest.raises(Stopped):
        ebb.export_pack(tmp_path / "pack", progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_import_leaves_nothing(lived, other):
    before = tables(other)
    with pytest.raises(Stopped):
        other.import_pack(lived.after, progress=stop)
    assert tables(other) == before
    other.import_pack(lived.after)


@pytest.mark.parametrize("at", ["INSERT INTO event_log", "INSERT INTO contents", "INSERT INTO organiser_runs"])
def test_an_import_stopped_while_it_writes_leaves_nothing(lived, other, at):
    """The log, the contents, the state: what stands of it when it stops is taken back, and the next one does it all."""
    before = tables(other)

    def stop_there(connection, cursor, statement, *rest) -> None:
        if statement.startswith(at):
            raise Stopped

    engine = other.store.db.engine()
    event.listen(engine, "before_cursor_execute", stop_there)
    with pytest.raises(Stopped):
        other.import_pack(lived.after)
    event.remove(engine, "before_cursor_execute", stop_there)
    assert tables(other) == before
    assert other.import_pack(lived.after).namespaces == ["home", "work"]


def test_a_folder_with_something_in_it_is_refused(lived, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "new").mkdir()
    with opened(lived.url, lived.now) as ebb:
        with pytest.raises(BadInput, match="new or empty"):
            ebb.export_pack(tmp_path / "full")
        with pytest.raises(BadInput, match="make it first"):
            ebb.export_pack(tmp_path / "no" / "such" / "folder")
        ebb.export_pack(tmp_path / "new")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


def test_an_export_sees_one_instant_of_the_store(make_url_for, tmp_path):
    """Somebody writes between the events and the operations: neither is in the pack."""
    url = make_url_for("postgresql")
    with opened(url, "2026-03-02T00:00:00Z") as ebb, opened(url, "2026-03-02T00:00:00Z", 1 << 31) as writer:
        ebb.event("First.", namespace="busy", ref="e1")
        written = []

        def write(done: int, total: int) -> None:
            if not written:
                written.append(writer.event("Meanwhile.", namespace="busy", ref="e2"))

        done = ebb.export_pack(tmp_path / "pack", progress=write)
        assert written
        assert (done.events, done.operations, done.contents) == (1, 1, 1)
        assert ebb.export_pack(tmp_path / "later").events == 2
    with opened(make_url_for("duckdb"), "2026-03-02T00:00:00Z") as copy:
        assert copy.import_pack(tmp_path / "pack").events == 1
        assert copy.import_pack(tmp_path / "later").events == 1
        ledger.check(copy, "busy")


def test_an_empty_store_makes_an_empty_pack(other, tmp_path):
    done = other.export_pack(tmp_path / "empty")
    assert (done.namespaces, done.events, done.operations, done.is_full_export) == ([], 0, 0, True)
    assert other.import_pack(tmp_path / "empty").namespaces == []


# A person's own data


def test_a_subject_gets_what_is_kept_about_them(lived, tmp_path):
    with opened(lived.url, lived.now) as ebb:
        done = ebb.export_subject(tmp_path / "tom", subject="tom", namespace="work")
        kept = {memory.ref: memory for memory in ebb.memories(namespace="work", everything=True)}
        with pytest.raises(NotFound):
            ebb.export_subject(tmp_path / "nobody", subject="nobody")
        with pytest.raises(BadInput, match="one person"):
            ebb.import_pack(tmp_path / "tom")
    assert (done.memories, done.events) == (1, 1)
    document = json.loads((tmp_path / "tom" / "subject.json").read_text())
    (part,) = document["namespaces"]
    (memory,), (event,) = part["memories"], part["events"]
    assert memory["value"] == f"{eventful.CANARY} of Tom"
    assert memory["salience"] == kept["of-tom"].salience
    assert memory["history"][0]["op_type"] == "ASSERT"
    assert event["content"] == {"content": f"{eventful.CANARY} said Tom."}
    everything = b"".join(path.read_bytes() for path in (tmp_path / "tom").iterdir()).decode()
    assert "belief" not in everything
    assert "naïve" not in everything
    manifest = json.loads((tmp_path / "tom" / "manifest.json").read_text())
    assert (manifest["is_full_export"], manifest["subject"], manifest["event_count"]) == (False, "tom", 1)
    lines = [json.loads(line) for line in (tmp_path / "tom" / "entries.jsonl").read_text().splitlines()]
    assert len(lines) == done.entries == manifest["operation_count"] + 1


def test_of_an_erased_subject_the_skeleton_is_left(lived, tmp_path):
    with opened(lived.url, lived.now) as ebb:
        ebb.export_subject(tmp_path / "tom", subject="tom", namespace="home")
    everything = b"".join(path.read_bytes() for path in (tmp_path / "tom").iterdir()).decode()
    assert eventful.CANARY not in everything
    document = json.loads((tmp_path / "tom" / "subject.json").read_text())
    (memory,) = document["namespaces"][0]["memories"]
    assert memory["value"] is None
    assert [entry["op_type"] for entry in memory["history"]][-1] == "TOMBSTONE"


@pytest.mark.parametrize(("one", "another"), [DATABASES, DATABASES[::-1]])
def test_embeddings_come_along(make_url_for, tmp_path, one, another):
    """To the bit, from either database into the other."""
    with Ebbtide.open(make_url_for(one)) as ebb:
        said = {"epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
        ebb.assert_memory("With one.", ref="with", embedding=[0.1, 2 / 3, -1e-9], embedding_model="three", **said)
        ebb.assert_memory("Without.", ref="without", **said)
        ebb.export_pack(tmp_path / "pack")
        kept = tables(ebb)["contents"]
    with Ebbtide.open(make_url_for(another)) as ebb:
        ebb.import_pack(tmp_path / "pack")
        assert tables(ebb)["contents"] == kept
    assert [row["embedding"] for row in kept if row["embedding_model"]] == [[0.1, 2 / 3, -1e-9]]
