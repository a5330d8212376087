"""What went wrong in other people's memories, one test each, on both databases. What decides is the whole kind, which
other tests look at from all sides; here each report stands under its own name.
"""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from ledger import check, differences, entries_of, read
from sqlalchemy import text

from ebbtide import Conflict, Ebbtide, Refused
from ebbtide.model import instant
from ebbtide.model.identity import id_of_ref
from ebbtide.policy.document import policy_from

DAY, SECOND = instant.DAY, instant.SECOND
BEGIN = instant.parse("2026-03-02T00:00:00Z")
BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


@pytest.fixture
def ebb(url, clock) -> Iterator[Ebbtide]:
    """A store whose passes take a hundred objects at a time; a connection kept open spares opening the file."""
    with Ebbtide.open(url, clock=clock, chunk_size=100) as opened, opened.store.db.connect():
        yield opened


def remember(ebb: Ebbtide, *refs: str, **said: Any) -> None:
    ebb.ask(*(BELIEF | {"ref": ref, "value": f"value of {ref}"} | said for ref in refs))


def under(ebb: Ebbtide, **params: Any) -> None:
    """Puts the default namespace under a policy of its own."""
    ebb.register_policy(policy_from({"id": "own", "version": "1.0.0", "params": params}))
    ebb.assign_policy("own@1.0.0")


def state_of(ebb: Ebbtide, ref: str) -> Any:
    return read(ebb).live[id_of_ref("default", ref)]


# Decay


def test_decay_applied_again_to_its_own_output(ebb, clock) -> None:
    """Eighty passes over ten days and one give the same bits, and they are those of the formula."""
    under(ebb, schedule={"decay_medium": 3, "decay_rapid_fast": 3})
    remember(ebb, "often", salience=0.87)
    for _ in range(80):
        clock.forward(hours=3)
        ebb.organise(tasks=["decay_medium"])
    ebb.ask(BELIEF | {"ref": "once", "value": 1, "salience": 0.87, "effective_at": instant.iso(BEGIN)})
    clock.forward(hours=3)
    ebb.organise(tasks=["decay_medium"])
    often, once = state_of(ebb, "often"), state_of(ebb, "once")
    assert (often.version, once.version) == (82, 2)
    assert (often.salience, often.confidence) == (once.salience, once.confidence)
    assert often.salience == math.floor(0.87 * math.exp(-0.020 * 81 / 8) * 1e9 + 0.5) / 1e9


def test_factors_per_tick(ebb, clock) -> None:
    """Sixty passes of a minute, and one of an hour over what was asserted at the same instant."""
    under(ebb, schedule={"decay_rapid_fast": 1 / 60})
    remember(ebb, "minutely", epistemic_type="HYPOTHETICAL")
    for _ in range(60):
        clock.forward(seconds=60)
        ebb.organise(tasks=["decay_rapid_fast"])
    assert state_of(ebb, "minutely").version == 61
    half_life_of_rapid = math.log(2) / 0.200
    assert state_of(ebb, "minutely").salience == pytest.approx(0.5 * 0.5 ** (1 / 24 / half_life_of_rapid), abs=1e-9)


CLOCKS = ("accessed_at", "reinforced_at", "modified_at", "restored_at", "created_at", "decayed_at")
MOVES = [
    ({"op": "ACCESS", "object": "a", "metadata": {"tag": "seen"}}, {"accessed_at"}),
    ({"op": "REINFORCE", "object": "a", "signal": "REFERENCED"}, {"reinforced_at"}),
    ({"op": "REINFORCE", "object": "spent", "signal": "REFERENCED", "session_id": "s"}, set()),
    ({"op": "PENALTY", "object": "a", "signal": "CORRECTED", "reason": "no"}, set()),
    ({"op": "PIN", "object": "a", "metadata": {"tag": "kept"}}, set()),
    ({"op": "UNPIN", "object": "a"}, set()),
    ({"op": "HOLD", "object": "a", "reason": "court"}, set()),
    ({"op": "RELEASE", "object": "a"}, set()),
    ({"op": "SUPPRESS", "object": "a"}, set()),
    ({"op": "UNSUPPRESS", "object": "a"}, set()),
    ({"op": "SUPPRESS", "subject": "maya"}, set()),
    ({"op": "RELATE", "edge_type": "NEAR", "source": "a", "target": "spent", "metadata": {"tag": "x"}}, set()),
    ({"op": "CONTRADICTION_NOTED", "object_a": "a", "object_b": "spent"}, set()),
    ({"op": "EPISTEMIC_TRANSITION", "object": "a", "to_type": "OBSERVED", "trigger_type": "policy"}, {"modified_at"}),
]


@pytest.mark.parametrize("clock_of_policy", ["last_reinforced", "last_accessed", "created"])
def test_a_scoring_pass_a_tag_or_a_metadata_write_touched_the_clock(ebb, clock, clock_of_policy) -> None:
    """Each moves what it names; the age that the policy's clock gives begins anew by nothing else."""
    restarts = {"last_reinforced": {"reinforced_at"}, "last_accessed": {"reinforced_at", "accessed_at"}}
    profile = {"lambda": 0.02, "clock": clock_of_policy}
    under(ebb, profiles={"MEDIUM": profile, "SLOW": profile | {"lambda": 0.005}})
    remember(ebb, "a", "spent", subject="maya", salience=0.9)
    for number in range(6):  # 0.40 is all that one session gives
        ebb.reinforce("spent", signal="CONFIRMED", session_id="s", actor=f"person-{number}", actor_type="HUMAN_USER")
    for request, moved in MOVES:
        clock.forward(days=1)
        ebb.organise(tasks=["decay_medium", "decay_slow"])
        before = read(ebb).live
        ebb.ask(request)
        for object_id, new in read(ebb).live.items():
            changed = differences(before[object_id], new).keys()
            clocks = changed & {
                "accessed_at",
                "reinforced_at",
                "modified_at",
                "restored_at",
                "created_at",
                "decayed_at",
            }
            mine = new.ref == request.get("object")
            assert clocks == (moved if mine else set()), request
            if mine and "segment_at" in changed:
                restarted = bool(moved & restarts.get(clock_of_policy, set()))
                assert (new.segment_age == 0) == restarted, request


def test_a_time_in_the_future_gave_a_huge_score(ebb, clock) -> None:
    remember(ebb, "soon", "near", effective_at=instant.iso(clock.now + 5 * instant.MINUTE))
    ebb.reinforce("near", signal="CONFIRMED", at=instant.to_datetime(clock.now + 5 * instant.MINUTE))
    ebb.organise()
    for _ in range(2):
        soon, near = ebb.memory("soon"), ebb.memory("near")
        assert (soon.salience, soon.confidence) == (0.5, 0.80)
        assert near.salience == pytest.approx(0.5 + 0.15 * 0.5 * 0.5 + 0.15, abs=1e-9)
        clock.forward(seconds=150)


def test_at_exactly_180_days_one_path_said_exempt_and_another_did_not(ebb, clock) -> None:
    """Reading, reading as of then, a pass, a fact, and the log refolded: one boundary."""
    names = ("read", "passed", "reinforced")
    remember(ebb, *names, epistemic_type="OBSERVED")
    clock.now = BEGIN + 180 * DAY
    under(ebb, schedule={"decay_slow": 24})
    assert {ebb.memory(name).confidence for name in names} == {0.90}
    ebb.organise(tasks=["decay_slow"])
    assert state_of(ebb, "passed").confidence == 0.90
    ebb.penalise("reinforced", signal="UNUSED")
    assert ebb.reinforce("reinforced", signal="REFERENCED").confidence == pytest.approx(0.90 + 0.08 * 0.10)
    boundary = ebb.memory("read").confidence
    clock.forward(days=1)
    ebb.organise(tasks=["decay_slow"])
    assert ebb.memory("read", as_of=instant.to_datetime(BEGIN + 180 * DAY)).confidence == boundary
    later = pytest.approx(0.90 * math.exp(-0.0025), abs=1e-9)
    assert state_of(ebb, "read").confidence == state_of(ebb, "passed").confidence == later
    check(ebb)


def test_a_boost_unused_for_a_year_came_back_whole_with_the_next_touch(ebb, clock) -> None:
    """What is left of 0.15 after 30 days is 0.15·e⁻³; the next touch adds its 0.08 to that."""
    remember(ebb, "known", decay_profile="PERMANENT", salience=0.2)
    ebb.reinforce("known", signal="CONFIRMED")
    clock.forward(days=30)
    ebb.reinforce("known", signal="REFERENCED")
    assert state_of(ebb, "known").boost == pytest.approx(0.15 * math.exp(-3) + 0.08, abs=1e-9)
    clock.forward(days=365)
    ebb.penalise("known", signal="TASK_FAILED_WITH")
    assert state_of(ebb, "known").boost == pytest.approx(0, abs=1e-9)


def test_most_of_a_store_sat_at_the_ceiling_because_search_reinforced_what_it_showed(ebb, clock) -> None:
    refs = [f"m{n}" for n in range(20)]
    remember(ebb, *refs)
    before = entries_of(ebb)
    for _ in range(10):
        ebb.memories(limit=5)
        ebb.rank([(ref, 0.9) for ref in refs], limit=5)
        ebb.memory("m0"), ebb.history("m0"), ebb.status()
    assert entries_of(ebb) == before, "no read records anything by itself"
    ebb.ask(*({"op": "ACCESS", "object": ref} for ref in refs for _ in range(10)))
    assert {(memory.salience, memory.confidence) for memory in ebb.memories()} == {(0.5, 0.80)}
    assert {state.reinforced_at for state in read(ebb).live.values()} == {None}


def test_reinforcing_at_the_ceiling_lowered_the_score(ebb, clock) -> None:
    """Imported above its ceiling, at it, and just below it."""
    for ref, confidence in (("above", 0.99), ("at", 0.92), ("below", 0.9199)):
        remember(ebb, ref, source_type="IMPORTED", confidence=confidence, salience=1.0)
        memory = ebb.reinforce(ref, signal="CONFIRMED")
        assert (memory.salience, memory.confidence) == (1.0, max(confidence, 0.92))


# Forgetting too much, or never


def test_the_oldest_rows_were_never_reached(ebb, clock) -> None:
    """600 are due, more than any window of the newest; one pass takes them all, the oldest with them."""
    for begin in range(0, 600, 200):
        ebb.ask(*(BELIEF | {"ref": f"m{n}", "value": n} for n in range(begin, begin + 200)))
        clock.forward(hours=1)
    under(ebb, guard={"max_fraction": 1.0})
    clock.forward(days=200)
    [run] = ebb.organise(tasks=["lifecycle"])
    assert (run.examined, run.archived + run.deprecated) == (600, 600)
    counted = {(one.lifecycle_state, one.objects) for one in ebb.status().counts}
    assert {state for state, _ in counted} <= {"ARCHIVED", "DEPRECATED"}
    assert ebb.memory("m0").lifecycle_state != "ACTIVE"


def test_most_were_marked_archived_and_still_returned(ebb, clock) -> None:
    names = [f"m{n}" for n in range(10)]
    remember(ebb, *names, salience=0.9)
    for name, call in zip(names, [ebb.archive, ebb.deprecate] * 4, strict=False):
        call(name)
    ebb.supersede("m8", "newer", ref="newer")
    left = {"m9", "newer"}
    assert {memory.ref for memory in ebb.memories()} == left
    assert {memory.ref for memory in ebb.memories(as_of=instant.iso(clock.now))} == left
    ranked = ebb.rank([(name, 1.0) for name in [*names, "newer"]])
    assert {one.memory.ref for one in ranked.ranked} == left
    with ebb.store.begin() as connection:
        assert set(connection.execute(text("SELECT ref FROM audit.eligible_memories")).scalars()) == left


def test_expired_rows_filled_the_top_fifty(ebb, clock) -> None:
    under(ebb, retention=[{"match": {"object_types": ["TASK"]}, "ttl_days": 1}])
    remember(ebb, *(f"gone{n}" for n in range(61)), object_type="TASK", salience=1.0)
    clock.forward(days=1)
    remember(ebb, *(f"here{n}" for n in range(50)), salience=0.2)
    here = {f"here{n}" for n in range(50)}
    for _ in range(2):
        assert {memory.ref for memory in ebb.memories(limit=50)} == here
        candidates = [(memory.ref, 1.0) for memory in ebb.memories(everything=True)]
        assert {one.memory.ref for one in ebb.rank(candidates, limit=50).ranked} == here
        ebb.organise()  # before any sweep, and after it


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles", "Asia/Kathmandu", "Europe/Berlin"])
def test_expiry_compared_a_local_date_with_utc(url, clock, monkeypatch, zone) -> None:
    """Ten days after 2026-03-20T22:30Z lie daylight saving and, somewhere, another date: it is the same instant."""
    monkeypatch.setenv("TZ", zone)
    monkeypatch.setenv("PGTZ", zone)
    time.tzset()
    try:
        clock.set("2026-03-20T22:30:00Z")
        with Ebbtide.open(url, clock=clock) as ebb, ebb.store.db.connect():
            under(ebb, retention=[{"ttl_days": 10, "action": "erase"}])
            remember(ebb, "short")
            clock.set("2026-03-30T22:29:59.999999Z")
            assert [memory.ref for memory in ebb.memories()] == ["short"]
            clock.set("2026-03-30T22:30:00Z")
            assert ebb.memories() == []
            assert ebb.memory("short").withheld == "expired"
            clock.set("2026-03-31T00:00:00Z")
            ebb.organise()
            last = ebb.history("short")[-1]
            assert (last.op_type, instant.iso(instant.to_micros(last.effective_at))) == (
                "TOMBSTONE",
                "2026-03-30T22:30:00Z",
            )
    finally:
        monkeypatch.undo()
        time.tzset()


def test_delete_all_of_a_user_wiped_every_user(ebb, clock) -> None:
    for subject in ("maya", "tom", "leila"):
        for namespace in ("default", "other"):
            refs = [f"{subject}-{n}" for n in range(4)]
            remember(ebb, *refs, subject=subject, namespace=namespace)
            ebb.event("hello", subject=subject, namespace=namespace, ref=f"said-{subject}")
    before = {name: check(ebb, name) for name in ("default", "other")}
    receipt = ebb.erase(subject="tom", scrub=False)
    assert receipt.erased.model_dump() == {"objects": 4, "events": 1, "contents": 5}
    assert receipt.kept.model_dump() == {"objects": 8, "events": 2, "contents": 10}
    after = check(ebb)
    for object_id, state in after.live.items():
        assert (state == before["default"].live[object_id]) == (state.subject != "tom")
    assert check(ebb, "other") == before["other"]
    assert len(ebb.memories()) == 8
    assert len(ebb.memories(namespace="other")) == 12


def dump(ebb: Ebbtide) -> str:
    """Every row of every table, as text."""
    with ebb.store.begin() as connection:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema IN ('main', 'public')"
        names = connection.execute(text(query + " AND table_type = 'BASE TABLE'")).scalars().all()
        return "".join(str(connection.execute(text(f"SELECT * FROM {name}")).all()) for name in sorted(names))


def test_deleted_text_stayed_in_the_vector_table_the_history_table_the_graph(ebb, clock) -> None:
    """Wherever it went on its way through the years: every copy goes in one transaction."""
    ebb.event("the CANARY sang", ref="heard")
    remember(ebb, "bird", value="the CANARY sings", evidence=["heard"], metadata={"CANARY": ["CANARY"]})
    ebb.reinforce("bird", signal="CONFIRMED", reason="I heard the CANARY")
    ebb.penalise("bird", signal="CORRECTED", reason="no CANARY")
    ebb.suppress("bird", reason="CANARY asleep", freeze=True)
    ebb.unsuppress("bird", reason="CANARY awake")
    remember(ebb, "nest")
    ebb.relate("bird", "LIVES_IN", "nest")
    clock.forward(days=40)
    ebb.organise()
    ebb.supersede("bird", "the CANARY is gone", ref="bird-2", evidence=["heard"], reason="CANARY left")
    clock.forward(days=400)
    ebb.organise()
    assert "CANARY" in dump(ebb)
    ebb.erase("bird", "bird-2", scrub=False)
    assert "CANARY" not in dump(ebb)
    assert ebb.memory("nest").value == "value of nest"
    check(ebb)


def test_a_forgotten_fact_came_back_after_a_rebuild_or_a_re_import(ebb, clock) -> None:
    """The same file again, the log folded anew, later passes and policies: it stays gone."""
    line = BELIEF | {"ref": "job", "value": "CANARY", "effective_at": instant.iso(clock.now)}
    lines = "\n".join(json.dumps(line | more) for more in ({}, {"ref": "job-2"}, {"ref": "job-3"}))
    ebb.ingest(io.BytesIO(lines.encode()))
    ebb.erase("job", "job-2", "job-3", scrub=False)
    ledger = check(ebb)
    assert {state.erased_at for state in ledger.refolded.values()} == {clock.now}
    again = ebb.ingest(io.BytesIO(lines.encode()))
    assert (again.appended, again.unchanged) == (0, 3)
    ebb.assign_policy("archivist@1.0.0")
    clock.forward(days=400)
    ebb.organise()
    for call in (ebb.restore, ebb.access, ebb.pin):
        with pytest.raises(Refused, match="erased"):
            call("job")
    assert "CANARY" not in dump(ebb)
    assert ebb.memories() == []
    check(ebb)


def test_delete_then_store_again_failed_on_a_unique_key(ebb, clock) -> None:
    """Allowed, twice over, and on record where the caller says so."""
    remember(ebb, "job")
    for number in (1, 2):
        ebb.erase("job" if number == 1 else f"job-{number - 1}", scrub=False)
        remember(ebb, f"job-{number}", value="value of job", reasserts_erased=True)
        assert ebb.history(f"job-{number}")[0].payload["reasserts_erased"] is True
    assert [memory.value for memory in ebb.memories()] == ["value of job"]
    check(ebb)


def test_a_restored_item_was_archived_again_that_night(ebb, clock) -> None:
    ebb.assign_policy("archivist@1.0.0")
    remember(ebb, "old", salience=0.3)
    clock.forward(days=200)
    ebb.organise()
    assert ebb.memory("old").lifecycle_state == "ARCHIVED"
    clock.forward(hours=10)
    restored = ebb.restore("old")
    assert restored.salience >= 0.30
    for _ in range(6):
        clock.forward(days=1)
        ebb.organise()
        assert ebb.memory("old").eligible
    clock.forward(days=100)
    ebb.organise()
    left = ebb.history("old")[-1]
    assert left.lifecycle_state == "ARCHIVED"
    sinks = math.log(0.3 / 0.1) / 0.02
    assert (left.effective_at - restored.restored_at).total_seconds() / 86_400 == pytest.approx(sinks, abs=1e-4)


def test_two_latest_versions_of_one_fact(url, clock) -> None:
    """Both saw the same version: one supersedes, the other is told, and there is one latest."""
    barrier = Barrier(2)

    def supersede(name: str) -> str:
        with Ebbtide(url, clock=clock) as mine:
            seen = mine.memory("home").fact_version
            barrier.wait(60)
            try:
                return str(mine.supersede("home", f"in {name}", ref=name, expected_version=seen).ref)
            except Conflict as conflict:
                return f"conflict ({conflict.rule}): {conflict}"

    with Ebbtide(url, clock=clock) as ebb:
        remember(ebb, "home")
        with ThreadPoolExecutor(2) as pool:
            told = list(pool.map(supersede, ("paris", "lyon")))
        (winner,) = [one for one in told if "conflict" not in one]
        (loser,) = [one for one in told if "conflict" in one]
        assert loser.startswith("conflict (expected_version): home is at version 2, not 1: ")
        assert [memory.ref for memory in ebb.memories()] == [winner]
        with pytest.raises(Refused, match="SUPERSEDED"):
            ebb.supersede("home", "once more", ref="again")
        check(ebb)
