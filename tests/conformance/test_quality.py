"""The measures of forgetting, on histories short enough to count by hand, with equal answers of both databases."""

from __future__ import annotations

from contextlib import ExitStack
from math import exp, log

import pytest
from tests.conftest import DATABASES, Clock, counted_entropy

from ebbtide import Ebbtide
from ebbtide.model.errors import Refused
from ebbtide.policy.document import Policy

SAID = {"object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
MAYA = {"actor_id": "maya", "actor_type": "HUMAN_USER"}
POLICIES = (
    {
        "id": "short",
        "version": "1.0.0",
        "params": {
            "retention": [
                {"match": {"object_types": ["TASK"]}, "ttl_days": 20, "action": "archive"},
                {"match": {"object_types": ["INTENT"]}, "ttl_days": 10, "action": "erase"},
            ]
        },
    },
    {
        "id": "floored",
        "version": "1.0.0",
        "params": {
            "mu_multiplier": 0,
            "profiles": {
                "MEDIUM": {"lambda": 0.02, "salience_floor": 0.2, "floor_after": 1},
                "FAST": {"lambda": 0.1, "curve": "power_law"},
            },
        },
    },
    {
        "id": "endless",
        "version": "1.0.0",
        "params": {"tier_thresholds": {"archive": 0, "force_archive": 0, "deprecate_by_confidence": 0}},
    },
)
LEAVING, FADING = ("lifecycle", "retention"), ("decay_rapid_fast", "decay_medium")
SUNK = log(1.2) / 0.02
"""After so many days what began at 0.12 under MEDIUM is down at 0.10: 9.12."""


class Life:
    """A store and its clock, told what happens on which day."""

    def __init__(self, ebb: Ebbtide, clock: Clock) -> None:
        self.ebb, self.clock = ebb, clock
        self.began = clock.now

    def day(self, day: float, *lines: dict[str, object], namespace: str = "missed") -> None:
        self.clock.now = self.began
        self.clock.forward(days=day)
        self.ebb.ask(*({"namespace": namespace, **MAYA, **line} for line in lines))

    def organise(self, day: float, namespace: str, *tasks: str) -> None:
        self.clock.now = self.began
        self.clock.forward(days=day)
        self.ebb.organise(namespace=namespace, tasks=tasks)

    def at(self, day: float) -> str:
        moved = Clock()
        moved.now = self.began
        moved.forward(days=day)
        return moved.iso


def belief(ref: str, **more: object) -> dict[str, object]:
    return {"op": "ASSERT", "ref": ref, "value": f"what {ref} says", **SAID, **more}


def faint(ref: str, **more: object) -> dict[str, object]:
    """What is archived after 9.12 days."""
    return belief(ref, salience=0.12, **more)


def missed(life: Life) -> None:
    """Sixty days in which things are forgotten, and some of them missed."""
    life.ebb.assign_policy("short@1.0.0", namespace="missed", actor="ops")
    life.day(
        0,
        *(faint(ref) for ref in ("asked", "back", "again", "later", "refused", "nobody")),
        faint("again-elsewhere", subject="maya"),
        belief("hand"),
        belief("task", object_type="TASK"),
        belief("intent-1", object_type="INTENT"),
        belief("steady", decay_profile="PERMANENT"),
    )
    life.day(1, belief("intent-2", object_type="INTENT"))
    life.day(5, {"op": "ARCHIVE", "object": "hand"})
    life.day(6, {"op": "RESTORE", "object": "hand"}, {"op": "ACCESS", "object": "steady"})
    life.organise(12, "missed", *LEAVING)
    life.day(13, faint("new-intent", object_type="INTENT", reasserts_erased=True))
    life.day(15, {"op": "ACCESS", "object": "asked"}, {"op": "ACCESS", "object": "later", "effective_at": life.at(8)})
    with pytest.raises(Refused):
        life.day(16, {"op": "REINFORCE", "object": "refused", "signal": "CONFIRMED"})
    life.day(20, {"op": "RESTORE", "object": "back"})
    life.day(21, {"op": "ACCESS", "object": "task"}, {"op": "ACCESS", "object": "back"})
    life.day(25, belief("again-1", value="what again says"), belief("other", value="what again-elsewhere says"))
    life.organise(26, "missed", *LEAVING)
    life.day(50, {"op": "ACCESS", "object": "later"})


def stood(life: Life) -> None:
    """What stands at the ceiling, and what never leaves."""
    still = {"decay_profile": "PERMANENT"}
    life.ebb.assign_policy("floored@1.0.0", namespace="floored", actor="ops")
    life.ebb.assign_policy("endless@1.0.0", namespace="endless", actor="ops")
    life.day(
        0,
        belief("sure", confidence=0.88, salience=0.94, **still),
        belief("unsure", confidence=0.86, salience=0.96, **still),
        belief("seen", epistemic_type="OBSERVED", confidence=0.92, salience=0.5, **still),
        belief("pinned", confidence=0.5),
        belief("frozen"),
        belief("thawing"),
        belief("mortal"),
        belief("gone", **still),
        {"op": "PIN", "object": "pinned"},
        {"op": "SUPPRESS", "object": "frozen", "freeze": True},
        {"op": "SUPPRESS", "object": "thawing", "freeze": True, "expires_at": life.at(9)},
        {"op": "HOLD", "object": "sure"},
        {"op": "ARCHIVE", "object": "gone"},
        namespace="stood",
    )
    life.day(0, belief("used"), belief("unused"), belief("far", decay_profile="FAST"), namespace="floored")
    life.day(1, {"op": "REINFORCE", "object": "used", "signal": "CONFIRMED"}, namespace="floored")
    life.day(0, belief("endless"), namespace="endless")


def moved(life: Life) -> None:
    """What comes and goes, day by day."""
    life.ebb.assign_policy("short@1.0.0", namespace="moved", actor="ops")
    life.day(0, faint("sinks"), belief("a"), belief("b"), belief("c", object_type="INTENT"), namespace="moved")
    life.day(2, {"op": "ARCHIVE", "object": "a"}, belief("d"), namespace="moved")
    life.day(4, {"op": "RESTORE", "object": "a"}, namespace="moved")
    life.day(4, {"op": "SUPERSEDE", "object": "b", "ref": "b2", "value": "else"}, namespace="moved")
    life.organise(12, "moved", *LEAVING)


def faded(life: Life) -> None:
    """Daily passes over what nobody touches, and over what is reinforced once."""
    life.day(0, belief("medium"), belief("fast", decay_profile="FAST"), namespace="faded")
    life.day(0, belief("used", decay_profile="FAST"), namespace="used")
    life.organise(1, "faded", *FADING)
    life.organise(1, "used", FADING[0])
    life.day(1.5, {"op": "REINFORCE", "object": "used", "signal": "CONFIRMED"}, namespace="used")
    for day in range(2, 7):
        life.organise(day, "faded", *FADING)
        life.organise(day, "used", FADING[0])


@pytest.fixture(scope="module")
def stores(make_url_for_module):
    """The same histories in a store of each database, each asked on day 60."""
    with ExitStack() as stack:
        made = []
        for kind in DATABASES:
            clock = Clock()
            ebb = Ebbtide.open(make_url_for_module(kind), clock=clock, entropy=counted_entropy())
            stack.enter_context(ebb)
            with ebb.store.session():
                for policy in POLICIES:
                    ebb.register_policy(Policy.model_validate(policy))
                for happens in (missed, stood, moved, faded):
                    life = Life(ebb, Clock())
                    life.clock = clock
                    happens(life)
            clock.now = Clock().now
            clock.forward(days=60)
            made.append(ebb)
        yield made


def asked(stores, name: str, **given: object) -> list[dict[str, object]]:
    """The rows of a query, which are the same on both databases."""
    first, second = (ebb.audit(name, given) for ebb in stores)
    assert first == second
    return [dict(zip(first.columns, row, strict=True)) for row in first.rows]


def shown(rows: list[dict[str, object]], *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def test_regret_is_what_left_by_itself_and_was_missed_within_the_days(stores):
    rows = asked(stores, "regret", namespace="missed")
    days = {ref: round(day - SUNK, 2) for ref, day in {"asked": 15, "refused": 16, "back": 20, "again": 25}.items()}
    unmissed = [(row["ref"], row["rule"]) for row in rows if row["sign"] is None]
    assert sorted(unmissed) == [
        ("again-elsewhere", "archive"),
        ("intent-1", "ttl"),
        ("later", "archive"),
        ("new-intent", "archive"),
        ("nobody", "archive"),
    ]
    assert shown(rows, "ref", "sign", "days_later", "rule", "to_state", "erased") == [
        ("intent-2", "said_again", 2.0, "ttl", "ARCHIVED", True),
        ("asked", "asked", days["asked"], "archive", "ARCHIVED", False),
        ("refused", "asked", days["refused"], "archive", "ARCHIVED", False),
        ("back", "restored", days["back"], "archive", "ARCHIVED", False),
        ("task", "asked", 1.0, "ttl", "ARCHIVED", False),
        ("again", "said_again", days["again"], "archive", "ARCHIVED", False),
    ] + [(ref, None, None, rule, "ARCHIVED", "intent" in ref) for ref, rule in unmissed]


def test_whoever_watches_for_longer_sees_more_of_it(stores):
    later = [row for row in asked(stores, "regret", namespace="missed", days=45) if row["ref"] == "later"]
    assert shown(later, "sign", "days_later") == [("asked", round(50 - SUNK, 2))]
    assert asked(stores, "regret", namespace="missed", days=60) == []


def test_stale_served_is_what_was_shown_when_it_was_on_record_as_gone(stores):
    rows = asked(stores, "stale_served", namespace="missed", days=60)
    assert shown(rows, "ref", "state", "days_stale", "actor_id") == [
        ("asked", "ARCHIVED", round(15 - SUNK, 2), "maya"),
        ("task", "EXPIRED", 1.0, "maya"),
        ("later", "ARCHIVED", round(50 - SUNK, 2), "maya"),
    ]


def test_saturation_counts_what_is_within_a_twentieth_of_the_ceiling(stores):
    rows = asked(stores, "saturation", namespace="stood")
    assert shown(rows, "epistemic_type", "ceiling", "active", "confident", "salient") == [
        ("ASSERTED", 0.92, 6, 1, 1),
        ("OBSERVED", 0.97, 1, 1, 0),
    ]
    assert shown(rows, "confident_share") == [(1 / 6,), (1.0,)]


def test_immortals_are_told_by_what_keeps_them(stores):
    rows = asked(stores, "immortals")
    assert shown(rows, "namespace_id", "reason", "decay_profile", "memories", "held", "share") == [
        ("endless", "no_threshold", "MEDIUM", 1, 0, 1.0),
        ("floored", "beyond_horizon", "FAST", 1, 0, 1 / 3),
        ("floored", "floor", "MEDIUM", 1, 0, 1 / 3),
        ("missed", "no_decay", "PERMANENT", 1, 0, 1 / 5),
        ("stood", "frozen", "MEDIUM", 1, 0, 1 / 7),
        ("stood", "no_decay", "PERMANENT", 3, 1, 3 / 7),
        ("stood", "pinned", "MEDIUM", 1, 0, 1 / 7),
    ]


def test_pressure_adds_up_day_by_day(stores):
    rows = asked(stores, "pressure", namespace="moved", days=100)
    counts = ("asserted", "came_back", "left_by_decay", "left_by_ttl", "left_by_hand", "active")
    assert shown(rows, "day", *counts)[0][0] < shown(rows, "day")[1][0]
    assert [(str(row["day"]), *shown([row], *counts)[0]) for row in rows] == [
        ("2026-03-02", 4, 0, 0, 0, 0, 4),
        ("2026-03-04", 1, 0, 0, 0, 1, 4),
        ("2026-03-06", 1, 1, 0, 0, 1, 5),
        ("2026-03-11", 0, 0, 1, 0, 0, 4),
        ("2026-03-12", 0, 0, 0, 1, 0, 3),
    ]
    later = asked(stores, "pressure", namespace="moved", days=55)
    assert shown(later, *counts) == [(0, 0, 0, 0, 0, 5), (0, 0, 1, 0, 0, 4), (0, 0, 0, 1, 0, 3)]


def test_an_untouched_memory_halves_as_its_policy_says(stores):
    rows = asked(stores, "half_life", namespace="faded", days=60)
    assert shown(rows, "decay_profile", "policy", "memories", "intervals", "days", "observed_days", "ratio") == [
        ("FAST", "default@1.0.0", 1, 6, 6.0, 9.9, 1.0),
        ("MEDIUM", "default@1.0.0", 1, 6, 6.0, 34.66, 1.0),
    ]


def test_a_boost_shows_in_the_half_life_seen(stores):
    """γ is 0.15, so the decaying part is 0.5 + 0.15·0.5·0.5 on the boost's 0.15; seen is it from day 2 to day 6."""

    def salience(days: float) -> float:
        return 0.5375 * exp(-0.07 * days) + 0.15 * exp(-0.10 * days)

    (row,) = asked(stores, "half_life", namespace="used", days=60)
    # The first day, before it was reinforced, counts too; the half day that the REINFORCE begins does not.
    lost = log(salience(0.5) / salience(4.5)) + 0.07
    assert row["intervals"] == 5
    assert row["observed_days"] == pytest.approx(log(2) * 5 / lost, abs=0.006)
    assert row["observed_days"] < row["nominal_days"] == 9.9


def test_the_summary_counts_what_the_others_list(stores):
    rows = {
        row["measure"]: row for row in asked(stores, "quality", namespace="missed") if row["measure"] != "half_life"
    }
    assert {name: (row["value"], row["out_of"]) for name, row in rows.items()} == {
        "regret": (6, 11),
        "stale_served": (1, 1),
        "saturation_confidence": (0, 5),
        "saturation_salience": (0, 5),
        "immortals": (1, 5),
        "pressure": (0, 5),
    }
    assert rows["regret"]["share"] == 0.5455
    everywhere = asked(stores, "quality", days=60)
    assert {row["namespace_id"] for row in everywhere} == {None}
    assert [(row["about"], row["share"]) for row in everywhere if row["measure"] == "half_life"][1:] == [
        ("MEDIUM default@1.0.0", 1.0),
        ("MEDIUM short@1.0.0", 1.0),
    ]


def test_of_nothing_there_is_no_share(stores):
    rows = asked(stores, "quality", namespace="nobody's")
    assert [(row["value"], row["out_of"], row["share"]) for row in rows] == [(0, 0, None)] * 6
