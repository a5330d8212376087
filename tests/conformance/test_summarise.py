"""Event windows become summaries: once each, with no transaction open meanwhile, and only while their events last."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ledger import check, read
from sqlalchemy import text, update

from ebbtide import BadInput, Ebbtide
from ebbtide.model import instant
from ebbtide.model.identity import id_of_ref, uuid8
from ebbtide.organise import extract as built_in
from ebbtide.organise import summarise
from ebbtide.policy.document import policy_from
from ebbtide.store.tables import leases

DAY, HOUR = instant.DAY, instant.HOUR
BEGIN = instant.parse("2026-03-02T00:00:00Z")
NAME = "default"
KNOWN = {"epistemic_type": "ASSERTED", "source_type": "USER_STATED"}


class Teller:
    """A summariser that counts, keeps what it was given, and does what it is told to do before it answers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.first: Callable[[tuple[str, ...]], object] = lambda _: None

    def __call__(self, texts: Any) -> str:
        self.calls.append(tuple(texts))
        self.first(tuple(texts))
        return f"{len(texts)} said, first {texts[0]}"


@pytest.fixture
def teller() -> Teller:
    return Teller()


@pytest.fixture
def ebb(url: str, clock: Any, teller: Teller) -> Iterator[Ebbtide]:
    """A store with a summariser of its own, checked as a whole after each test."""
    with Ebbtide.open(url, clock=clock, summariser=teller) as opened:
        yield opened
        check(opened, NAME)


def say(ebb: Ebbtide, *refs: str, day: float = 0, stream: str = "chat", **said: Any) -> None:
    """Messages, a minute apart, from an instant of the day on; the clock goes along."""
    begin = BEGIN + round(day * DAY)
    ebb._clock.now = max(ebb._clock.now, begin + len(refs) * instant.MINUTE)
    ebb.ask(
        *(
            {"op": "EVENT", "ref": ref, "stream": stream, "content": f"{ref}.", "actor_id": "maya"}
            | {"actor_type": "HUMAN_USER", "effective_at": instant.iso(begin + n * instant.MINUTE)}
            | said
            for n, ref in enumerate(refs)
        )
    )


def fives(letter: str) -> list[str]:
    return [f"{letter}{n}" for n in range(5)]


def summaries(ebb: Ebbtide) -> list[Any]:
    found = [memory for memory in ebb.memories(everything=True) if memory.type == "SUMMARY"]
    return sorted(found, key=lambda memory: str(memory.value))


def run(ebb: Ebbtide) -> Any:
    [one] = ebb.organise(tasks=["summarise"])
    return one


def reports(ebb: Ebbtide) -> list[dict[str, Any]]:
    """What the runs say they left out, and why."""
    entries = [entry for entry in read(ebb, NAME).entries if entry.op_type == "ORGANISER_RUN"]
    return [one for entry in entries for one in json.loads(entry.payload).get("not_summarised", [])]


def test_a_day_of_a_stream_becomes_a_memory(ebb, clock, teller) -> None:
    say(ebb, "m3", "m4", "m5", day=0.5)
    say(ebb, "m1", "m2", day=0.25)
    clock.now = BEGIN + DAY
    found = run(ebb)
    assert (found.status, found.examined, found.entries, found.as_of) == ("done", 1, 2, BEGIN + DAY)
    assert teller.calls == [("m1.", "m2.", "m3.", "m4.", "m5.")]
    [memory] = summaries(ebb)
    assert memory.value == "5 said, first m1."
    assert (memory.epistemic_type, memory.source_type, memory.subject) == ("INFERRED", "SYSTEM_INFERRED", "maya")
    assert (memory.salience, memory.confidence, memory.decay_profile) == (0.5, 0.55, "FAST")
    events = [id_of_ref(NAME, ref) for ref in ("m1", "m2", "m3", "m4", "m5")]
    assert memory.evidence == events
    assert memory.id == uuid8("summary", NAME, "chat", "maya", BEGIN, 24)
    asserted, created = [entry for entry in read(ebb, NAME).entries if entry.stream_id == memory.id]
    assert (asserted.op_type, created.op_type) == ("ASSERT", "SUMMARY_CREATED")
    assert {asserted.actor_id, created.actor_id} == {"ebbtide"}
    assert {asserted.effective_at, created.effective_at} == {BEGIN + DAY}
    assert json.loads(created.payload) == {
        "object_ids_summarised": [str(event) for event in events],
        "time_window": {"from": "2026-03-02T00:00:00Z", "to": "2026-03-03T00:00:00Z"},
        "summary_type": "event_window",
        "stream": "chat",
    }
    [batch] = [b for b in read(ebb, NAME).batches if b["first_seq"] <= asserted.seq < b["first_seq"] + b["entries"]]
    assert batch["entries"] == 3
    assert not any("said" in entry.payload for entry in (asserted, created))
    assert ebb.rebuild().equal
    assert ebb.verify().ok


def test_windows_are_by_day_stream_and_subject(ebb, clock, teller) -> None:
    """On Monday five by Maya, five by Tom, five elsewhere and one before midnight; then five with one after it."""
    say(ebb, *fives("a"))
    say(ebb, *fives("b"), subject="tom")
    say(ebb, *fives("c"), stream="mail")
    say(ebb, *fives("d")[:4], day=1)
    say(ebb, "before", "after", day=1 - 0.5 / 1440)
    say(ebb, *fives("few")[:4], stream="few")
    clock.now = BEGIN + 2 * DAY
    assert run(ebb).examined == 4
    assert sorted((calls[0], len(calls)) for calls in teller.calls) == [("a0.", 6), ("b0.", 5), ("c0.", 5), ("d0.", 5)]
    assert sorted((one.subject, len(one.evidence)) for one in summaries(ebb)) == [
        ("maya", 5),
        ("maya", 5),
        ("maya", 6),
        ("tom", 5),
    ]


def test_a_window_is_summarised_once_and_only_when_it_has_ended(ebb, clock, teller) -> None:
    say(ebb, *fives("a"))
    clock.now = BEGIN + DAY - 1
    run(ebb)
    assert teller.calls == []
    for day in (1, 2, 3):
        clock.now = BEGIN + day * DAY
        run(ebb)
        assert ebb.organise(tasks=["summarise"]) == []
    assert len(teller.calls) == len(summaries(ebb)) == 1
    say(ebb, "late", day=0.9)
    clock.forward(days=1)
    assert run(ebb).status == "nothing_due"
    assert len(teller.calls) == 1


def test_missed_days_are_made_up_and_a_walk_takes_each_in_its_time(ebb, clock, teller) -> None:
    for day, letter in enumerate("abc"):
        say(ebb, *fives(letter), day=day)
    clock.now = BEGIN + 3 * DAY
    ebb.walk(instant.to_datetime(BEGIN), None, tasks=["summarise"])
    assert [calls[0] for calls in teller.calls] == ["a0.", "b0.", "c0."]
    assert sorted(memory.created_at for memory in summaries(ebb)) == [
        instant.to_datetime(BEGIN + day * DAY) for day in (1, 2, 3)
    ]


def test_it_runs_by_itself_only_where_the_policy_says_so(ebb, clock, teller) -> None:
    say(ebb, *fives("a"))
    clock.now = BEGIN + DAY
    assert "summarise" not in {one.task for one in ebb.organise()}
    assert "summarise" not in {task.task for task in ebb.status().tasks}
    rules = {"enabled": True, "window_hours": 6, "min_events": 2}
    ebb.register_policy(policy_from({"id": "brief", "version": "1.0.0", "params": {"summarise": rules}}))
    ebb.assign_policy("brief@1.0.0", namespace=NAME)
    assert "summarise" in {task.task for task in ebb.status().tasks}
    say(ebb, "b0", "b1", day=0.25)
    assert "summarise" in {one.task for one in ebb.organise()}
    assert [calls[0] for calls in sorted(teller.calls)] == ["a0.", "b0."]


def test_what_is_gone_meanwhile_is_not_written(ebb, clock, teller) -> None:
    """While the summariser runs, one message of its window is erased: the summary is left out, and the run says so."""
    say(ebb, *fives("a"), subject="ann")
    say(ebb, *fives("b"), subject="bob")
    ebb.ask({"op": "ASSERT", "ref": "fact", "object_type": "FACT", "value": "f", "evidence": ["a2"]} | KNOWN)

    def erase(texts: tuple[str, ...]) -> None:
        if texts[0] == "a0.":
            ebb.erase("fact", scrub=False)

    teller.first = erase
    clock.now = BEGIN + DAY
    found = run(ebb)
    assert (found.status, found.examined, found.entries) == ("done", 2, 2)
    assert [memory.subject for memory in summaries(ebb)] == ["bob"]
    day = {"from": "2026-03-02T00:00:00Z", "to": "2026-03-03T00:00:00Z"}
    assert reports(ebb) == [{"stream": "chat", "subject": "ann", **day, "why": "gone_meanwhile"}]
    teller.first = lambda _: None
    clock.forward(days=1)
    run(ebb)
    # Four are left of Ann's, which are too few.
    assert [memory.subject for memory in summaries(ebb)] == ["bob"]


def test_a_window_that_another_summarised_meanwhile_is_left(ebb, clock, teller, url) -> None:
    """The first one takes longer than its lease."""
    say(ebb, *fives("a"))
    clock.now = BEGIN + DAY
    with Ebbtide(url, clock=clock, summariser=lambda texts: "the other was first") as other:

        def take_over(_: Any) -> None:
            with other.store.begin() as connection:
                connection.execute(update(leases).values(lease_until=0))
            assert [one.status for one in other.organise(tasks=["summarise"])] == ["done"]

        teller.first = take_over
        assert ebb.organise(tasks=["summarise"]) == [], "overtaken, it writes nothing"
    assert [memory.value for memory in summaries(ebb)] == ["the other was first"]
    assert [entry.op_type for entry in read(ebb, NAME).entries].count("SUMMARY_CREATED") == 1
    assert len(read(ebb, NAME).runs) == 1


def test_a_window_summarised_in_another_slot_meanwhile_is_left(ebb, clock, teller) -> None:
    """The slot of the 3rd is at work while that of the 4th is run to its end."""
    say(ebb, *fives("a"))
    clock.now = BEGIN + DAY

    def next_day(_: Any) -> None:
        teller.first = lambda _: None
        clock.now = BEGIN + 2 * DAY
        ebb.walk("2026-03-04T00:00:00Z", None, tasks=["summarise"])

    teller.first = next_day
    assert run(ebb).entries == 0
    assert len(summaries(ebb)) == 1
    assert len(read(ebb, NAME).runs) == 2
    assert [one["why"] for one in reports(ebb)] == ["summarised_meanwhile"]


def test_one_that_fails_is_reported_and_tried_again_and_the_others_go_on(ebb, clock, teller, caplog) -> None:
    say(ebb, *fives("a"))
    say(ebb, *fives("b"), subject="tom")

    def fail(texts: tuple[str, ...]) -> None:
        if texts[0] == "a0.":
            raise RuntimeError(f"cannot read {texts[0]}")

    teller.first = fail
    clock.now = BEGIN + DAY
    found = run(ebb)
    assert (found.status, found.entries) == ("done", 2)
    assert [(one["subject"], one["why"]) for one in reports(ebb)] == [("maya", "RuntimeError")]
    assert "RuntimeError" in caplog.text
    assert "a0." not in caplog.text
    teller.first = lambda _: None
    clock.forward(days=1)
    run(ebb)
    assert [memory.subject for memory in summaries(ebb)] == ["maya", "tom"]


@pytest.mark.parametrize("answer", ["", " \n", None, 7, "nul \x00", "half \ud800"])
def test_what_is_no_text_is_not_taken(url, clock, answer) -> None:
    with Ebbtide(url, clock=clock, summariser=lambda texts: answer) as ebb:
        say(ebb, *fives("a"))
        clock.now = BEGIN + DAY
        run(ebb)
        assert summaries(ebb) == []
        assert [one["why"] for one in reports(ebb)] == ["no_text"]
        check(ebb, NAME)


def test_nothing_is_held_while_a_summariser_runs(ebb, clock, teller, url) -> None:
    """Another thread, with a store of its own, writes to the same namespace meanwhile; on DuckDB it has the file."""
    say(ebb, *fives("a"))
    wrote: list[str] = []

    def write(_: Any) -> None:
        def other() -> None:
            with Ebbtide(url, clock=clock, wait=5) as store:
                store.event("meanwhile", ref="meanwhile")
                wrote.append("done")

        thread = threading.Thread(target=other)
        thread.start()
        thread.join(30)

    teller.first = write
    clock.now = BEGIN + DAY
    run(ebb)
    assert wrote == ["done"]
    assert len(summaries(ebb)) == 1


def test_many_windows_are_written_in_parts_and_a_stop_keeps_what_is_done(ebb, clock, teller, monkeypatch) -> None:
    monkeypatch.setattr("ebbtide.organise.run.WINDOWS", 3)
    monkeypatch.setattr(summarise, "WINDOWS", 3)
    for number in range(8):
        say(ebb, *fives(f"s{number}-"), stream=f"s{number}")
    clock.now = BEGIN + DAY
    assert ebb.organise(tasks=["summarise"], stopping=lambda: len(teller.calls) >= 4) == []
    assert len(summaries(ebb)) == 4
    found = run(ebb)
    assert (found.status, found.examined, found.entries) == ("done", 8, 16)
    assert (len(summaries(ebb)), len(teller.calls)) == (8, 8)


def test_a_dry_run_counts_and_asks_nobody(ebb, clock, teller) -> None:
    say(ebb, *fives("a"))
    clock.now = BEGIN + DAY
    [found] = ebb.organise(tasks=["summarise"], dry_run=True)
    assert (found.status, found.examined, found.entries, teller.calls) == ("done", 1, 2, [])
    assert read(ebb, NAME).runs == []
    run(ebb)
    assert len(summaries(ebb)) == 1


def test_erased_events_take_their_summary_along_for_good(ebb, clock, teller) -> None:
    say(ebb, *fives("a"))
    say(ebb, *fives("b"), subject="tom")
    clock.now = BEGIN + DAY
    run(ebb)
    receipt = ebb.erase(subject="maya", scrub=False)
    assert receipt.erased.model_dump() == {"objects": 1, "events": 5, "contents": 6}
    for _ in range(2):
        clock.forward(days=1)
        run(ebb)
    assert {memory.subject: memory.withheld for memory in summaries(ebb)} == {"maya": "erased", "tom": None}
    assert len(teller.calls) == 2
    with ebb.store.begin() as connection:
        left = connection.execute(text("SELECT content FROM contents")).scalars().all()
    assert not any("a0" in content for content in left)
    assert ebb.rebuild().equal
    assert ebb.verify().ok


def test_a_summary_ages_and_is_erased_by_name_without_its_events(ebb, clock) -> None:
    say(ebb, *fives("a"))
    clock.now = BEGIN + DAY
    run(ebb)
    [memory] = summaries(ebb)
    receipt = ebb.erase(memory.id, scrub=False)
    assert receipt.erased.model_dump() == {"objects": 1, "events": 0, "contents": 1}
    clock.forward(days=1)
    assert run(ebb).status == "nothing_due"


# The built-in one


def test_the_built_in_summariser_picks_what_the_others_speak_of() -> None:
    """Three of five sentences are about the same thing; the two that stand alone go first."""
    said = ["Maya moved to London.", "It rains. Maya likes London.", "Maya works in London.", "Bye!"]
    assert built_in.extract(said, sentences=3) == "Maya moved to London. Maya likes London. Maya works in London."
    assert built_in.extract(said, sentences=9) == " ".join(said)
    assert built_in.extract(["Yes.", "Yes.", "Yes."], sentences=1) == "Yes."
    assert built_in.extract(["👍", "👍👍", "?!", "…"], sentences=2)
    assert built_in.extract(["", "  "], sentences=2) == ""


def test_the_built_in_summariser_is_used_unless_another_is_given(url, clock) -> None:
    rules = {"enabled": True, "max_sentences": 2, "min_events": 3}
    with Ebbtide(url, clock=clock) as ebb:
        ebb.register_policy(policy_from({"id": "brief", "version": "1.0.0", "params": {"summarise": rules}}))
        ebb.assign_policy("brief@1.0.0", namespace=NAME)
        for ref, said in (("a", "The boiler leaks."), ("b", "It rains."), ("c", "The boiler is old."), ("d", {"x": 1})):
            say(ebb, ref, content=said)
        clock.now = BEGIN + DAY
        ebb.organise()
        assert [memory.value for memory in summaries(ebb)] == ["The boiler leaks. The boiler is old."]
        check(ebb, NAME)


def test_without_its_libraries_it_is_refused_by_name_and_skipped_by_schedule(url, clock, monkeypatch) -> None:
    monkeypatch.setattr(built_in, "find_spec", lambda name: None)
    with Ebbtide(url, clock=clock) as ebb:
        rules = {"enabled": True}
        ebb.register_policy(policy_from({"id": "brief", "version": "1.0.0", "params": {"summarise": rules}}))
        ebb.assign_policy("brief@1.0.0", namespace=NAME)
        say(ebb, *fives("a"))
        clock.now = BEGIN + DAY
        with pytest.raises(BadInput, match=r"pip install 'ebbtide\[summarise\]'"):
            ebb.organise(tasks=["summarise"])
        assert "summarise" in {one.task for one in ebb.organise()}
        assert [one["why"] for one in reports(ebb)] == ["NotInstalled"]
        monkeypatch.undo()
        clock.forward(days=1)
        ebb.organise()
        assert len(summaries(ebb)) == 1
