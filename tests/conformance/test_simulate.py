"""A simulation says what then happens: compared with the log after the organiser has walked there; both databases."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest
from ledger import read
from lived import belief, later, live
from sqlalchemy import select
from tests.conftest import Clock, counted_entropy

from ebbtide import BadInput, Conflict, Ebbtide, NotFound
from ebbtide.model import instant
from ebbtide.model.instant import DAY
from ebbtide.organise.guard import holds
from ebbtide.policy.document import Guard, policy_from
from ebbtide.store.tables import event_log

BUILT_IN = ("archivist", "default", "fsrs", "permastore", "recency", "spaced")
TASKS = ("lifecycle", "retention", "decay_rapid_fast", "decay_medium", "decay_slow")
SPAN = 200

BRISK = {
    "id": "brisk",
    "version": "1.0.0",
    "params": {
        "guard": {"max_fraction": 1.0},
        "lambda_by_profile": {"SLOW": 0.02, "MEDIUM": 0.1, "FAST": 0.3, "RAPID": 1.0},
        "tier_thresholds": {"warning": 0.5, "archive": 0.2, "force_archive": 0.1, "archive_min_confidence": 0.6},
        "retention": [
            {"match": {"object_types": ["TASK", "DECISION"]}, "ttl_days": 50, "action": "erase"},
            {"match": {"object_types": ["FACT"], "epistemic_types": ["OBSERVED"]}, "ttl_days": 120},
            {"match": {"object_types": ["PREFERENCE"]}, "ttl_days": 0.5, "clock": "last_reinforced"},
        ],
    },
}


class Stands:
    """A clock that stands at an instant."""

    def __init__(self, at: int) -> None:
        self.now = at

    def __call__(self) -> int:
        return self.now


def of_all_kinds(ebb: Ebbtide, clock: Any) -> None:
    """Memories in every condition in which time or a policy can find them, after the history of `lived`."""
    live(ebb, clock)
    kinds = ("FACT", "PREFERENCE", "DECISION", "TASK", "INTENT")
    ebb.ask(
        *(
            belief(f"k{n}", object_type=kinds[n % 5], salience=0.04 + n / 50, confidence=0.1 + n % 9 / 10)
            for n in range(40)
        ),
        belief("thawing"),
        belief("frozen", object_type="TASK"),
        belief("pinned", object_type="PREFERENCE"),
        belief("kept", object_type="DECISION"),
        belief("back"),
        belief("gone"),
        belief("odd", epistemic_type="CONDITIONAL"),
    )
    clock.forward(days=3, seconds=7)
    ebb.ask(
        {"op": "SUPPRESS", "object": "thawing", "freeze": True, "expires_at": later(clock, 12)},
        {"op": "SUPPRESS", "object": "frozen", "freeze": True},
        {"op": "PIN", "object": "pinned"},
        {"op": "HOLD", "object": "kept"},
        {"op": "ARCHIVE", "object": "back", "reason": "old"},
        {"op": "ARCHIVE", "object": "gone", "reason": "old"},
        {"op": "REINFORCE", "object": "k30", "signal": "CONFIRMED"},
        *({"op": "ACCESS", "object": f"k{n}"} for n in range(0, 40, 3)),
    )
    clock.forward(days=1)
    ebb.ask({"op": "RESTORE", "object": "back"})
    # Nobody organised since: some of it is overdue.
    clock.forward(days=2, hours=5)


@pytest.fixture(scope="module", params=("duckdb", "postgresql"))
def lived_in(request: pytest.FixtureRequest, make_url_for_module: Any) -> tuple[str, str, int]:
    """The kind and the URL of a closed store in which all that happened, and the instant it is at."""
    clock = Clock()
    url = make_url_for_module(request.param)
    with Ebbtide.open(url, clock=clock, entropy=counted_entropy()) as ebb, ebb.store.session():
        of_all_kinds(ebb, clock)
        ebb.register_policy(policy_from(BRISK))
    return request.param, url, clock.now


@pytest.fixture
def copied(lived_in: tuple[str, str, int], make_url_for: Any) -> Any:
    kind, url, now = lived_in
    clock = Stands(now)
    with Ebbtide.open(make_url_for(kind, of=url), clock=clock) as ebb, ebb.store.session():
        yield ebb, clock


def day_of(at: int) -> Any:
    return datetime.fromtimestamp(at // 1_000_000, UTC).date()


def logged(ebb: Ebbtide, namespace: str | None, after: dict[str, int]) -> tuple[Counter[Any], dict[Any, Any]]:
    """What the log says happened since: how often what by day, and per object the rule and the instant."""
    counts, rules = Counter[Any](), dict[Any, Any]()
    with ebb.store.begin() as connection:
        rows = connection.execute(select(event_log).order_by(event_log.c.namespace_id, event_log.c.seq)).all()
    for row in rows:
        if row.seq <= after.get(row.namespace_id, 0) or row.stream_type != "object":
            continue
        words = {"DECAY_WARNING": "warned", "ARCHIVE": "archived", "DEPRECATE": "deprecated", "TOMBSTONE": "expired"}
        if row.op_type in words:
            counts[words[row.op_type], day_of(row.effective_at)] += 1
        if row.op_type in ("ARCHIVE", "DEPRECATE", "TOMBSTONE"):
            rules[row.stream_id] = row.effective_at
    return counts, rules


def heads(ebb: Ebbtide) -> dict[str, int]:
    return {head.namespace_id: head.seq for head in ebb.digest().heads}


def said(side: Any) -> Counter[Any]:
    names = ("warned", "archived", "deprecated", "expired")
    return Counter({(what, day.day): getattr(day, what) for day in side.days for what in names if getattr(day, what)})


@pytest.mark.parametrize("name", [None, *(f"{name}@1.0.0" for name in BUILT_IN), "keeping@1.0.0", "brisk@1.0.0"])
def test_what_is_simulated_is_what_then_happens(copied, name) -> None:
    ebb, clock = copied
    now = clock.now
    until = (now // DAY + SPAN) * DAY
    assigned = name or "archivist@1.0.0"
    before = ebb.digest().heads
    found = ebb.simulate(assigned, until=instant.iso(until), namespace="default", limit=1000)
    assert ebb.digest().heads == before
    if name is not None:
        ebb.assign_policy(name, namespace="default")
    side = found.against if name is None else found.under
    since = heads(ebb)
    days, tasks = ((*range(1, 15), SPAN), TASKS) if name is None else ((60, SPAN), TASKS[:2])
    for day in days:
        clock.now = (now // DAY + day) * DAY
        ebb.organise(tasks=tasks, namespace="default", no_guard=True)
    counts, rules = logged(ebb, "default", since)
    assert said(side) == counts
    assert sum(counts.values()) > 20
    for one in found.differences:
        fate = one.against if name is None else one.under
        memory = ebb.memory(str(one.id), namespace=one.namespace_id)
        assert (memory.lifecycle_state, memory.erased_at is not None) == (fate.lifecycle_state, fate.erased), one
        assert rules.get(one.id) == (None if fate.at is None else instant.to_micros(fate.at)), one
    memories = ebb.memories(everything=True, namespace="default", limit=10_000)
    assert side.active == sum(memory.lifecycle_state == "ACTIVE" for memory in memories)


def test_it_writes_nothing_and_says_of_each_slot_what_the_guard_then_says(copied) -> None:
    ebb, clock = copied
    strict = {"max_fraction": 0.2, "min_objects": 3}
    for number in (0, 1):
        params = BRISK["params"] | {"guard": strict if number else {"max_fraction": 1.0}}
        ebb.register_policy(policy_from({"id": f"wary-{number}", "version": "1.0.0", "params": params}))
    before = ebb.digest().heads, [asdict(read(ebb, name)) for name in ("default", "other")]
    until = instant.iso((clock.now // DAY + 55) * DAY)
    found = ebb.simulate("wary-1@1.0.0", until=until)
    unguarded = ebb.simulate("wary-0@1.0.0", "wary-1@1.0.0", until=until)
    assert (ebb.digest().heads, [asdict(read(ebb, name)) for name in ("default", "other")]) == before
    assert (unguarded.different, unguarded.under.held, unguarded.against) == (0, [], found.under)
    promised = {(one.namespace_id, one.task, one.slot): (one.due, one.of) for one in found.under.held}
    assert {task for _, task, _ in promised} == {"lifecycle", "retention"}
    for name in ("default", "other"):
        ebb.assign_policy("wary-1@1.0.0", namespace=name)
    said = {}
    end = instant.to_micros(found.until)
    for at in (clock.now, *range(clock.now + DAY - clock.now % DAY, end + 1, DAY)):
        clock.now = at
        for run in ebb.organise(tasks=["lifecycle", "retention"]):
            if run.verdict is None or run.status != "held":
                continue
            slot = instant.to_datetime(run.as_of)
            for namespace, due, of in (
                (run.namespace_id, run.verdict.due, run.verdict.of),
                (None, run.verdict.policy_due, run.verdict.policy_of),
            ):
                if of is not None and holds(due, of, Guard(**strict)):
                    said.setdefault((namespace, run.task, slot), (due, of))
            ebb.approve(run.run_id)
    assert {key: value for key, value in said.items() if key[0]} == {k: v for k, v in promised.items() if k[0]}
    assert {key[1:] for key in said} == {key[1:] for key in promised}


def test_an_unknown_policy_and_other_content_under_a_known_name_are_refused(copied) -> None:
    ebb, _ = copied
    with pytest.raises(NotFound):
        ebb.simulate("nobody@1.0.0")
    with pytest.raises(Conflict):
        ebb.simulate(policy_from(BRISK | {"params": {}}))
    with pytest.raises(BadInput, match="until"):
        ebb.simulate("default@1.0.0", until="2020-01-01T00:00:00Z")
    with pytest.raises(NotFound):
        ebb.simulate("default@1.0.0", namespace="nowhere")


def test_a_file_that_nobody_registered_is_simulated_in_chunks_as_in_one(copied) -> None:
    ebb, _ = copied
    mine = policy_from(BRISK | {"id": "mine"})
    whole = ebb.simulate(mine, "fsrs@1.0.0")
    ebb._chunk_size = 7
    assert ebb.simulate(mine, "fsrs@1.0.0") == whole
    assert mine.name not in {policy.name for policy in ebb.policies()}
    assert len(whole.differences) == 10 < whole.different
    assert ebb.simulate(mine, "fsrs@1.0.0", limit=3).differences == whole.differences[:3]
