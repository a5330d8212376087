"""The forgetting chapter lived through under `recency`: dilution, the four tools in order, growth; on both databases.

Its arithmetic is in tests/unit/test_growth.py, its recency table in tests/unit/test_built_in_pages.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import Clock

from ebbtide import Ebbtide
from ebbtide.model import instant
from ebbtide.model.instant import DAY, HOUR, to_datetime

KNOWN = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
TOWNS = ("Leeds", "Bristol", "York", "London", "Paris")
"""Where Maya lived, one after the other."""
SCORES = {"London": 0.89, "Paris": 0.88, "Bristol": 0.88, "York": 0.86, "Leeds": 0.85}


@pytest.fixture
def recency(ebb: Ebbtide) -> Ebbtide:
    ebb.assign_policy("recency@1.0.0")
    return ebb


def card(ref: str, subject: str = "maya", **more: Any) -> dict[str, Any]:
    return KNOWN | {"ref": ref, "value": f"what {ref} says", "subject": subject} | more


def test_retrieval_dilution(recency):
    """Precision at 3 is 1/3 where all five addresses are open, and 1 where each move replaced the last."""
    recency.assign_policy("recency@1.0.0", namespace="appended")
    for namespace in ("default", "appended"):
        for place, town in enumerate(TOWNS):
            value = f"Maya lives in {town}."
            if place == 0 or namespace == "appended":
                recency.ask(card(town, value=value, namespace=namespace))
            else:
                recency.supersede(TOWNS[place - 1], value, ref=town)

    def shown(namespace: str) -> list[str]:
        found = recency.rank(list(SCORES.items()), namespace=namespace, limit=3).ranked
        return [str(one.memory.ref) for one in found]

    assert set(shown("appended")) == {"London", "Paris", "Bristol"}
    assert shown("appended").count("Paris") / len(shown("appended")) == pytest.approx(1 / 3)
    assert shown("default") == ["Paris"]


def test_the_four_tools_in_their_order(recency, clock):
    """Dedup, supersede, decay, erase: Maya from 3 memories to 0 while Tom keeps his 2."""
    meant = {"embedding_model": "two"}
    recency.ask(
        card("home", value="Maya lives in London.", embedding=[1.0, 0.0], **meant),
        card("tea", "tom"),
        card("job", "tom"),
    )
    # 1. The same words, and a cosine of 0.96: neither is stored. One of 0.94 is.
    recency.ask(
        card("again", value="Maya lives in London."),
        card("reworded", value="London is where Maya lives.", embedding=[0.96, 0.28], **meant),
        card("other", value="Maya likes London.", embedding=[0.94, 0.3412], **meant),
    )
    assert sorted(str(one.ref) for one in recency.memories()) == ["home", "job", "other", "tea"]
    # 2. The card that changed is closed, and the auditor still sees it.
    recency.supersede("home", "Maya lives in Paris.", ref="home-2")
    closed = recency.memory("home")
    assert (closed.lifecycle_state, closed.eligible, closed.value) == ("SUPERSEDED", False, "Maya lives in London.")
    # 3. An event fades 90 days after its last use, a fact does not.
    recency.ask(card("trip", object_type="SUMMARY"), card("errand", object_type="TASK"))
    clock.forward(days=60)
    recency.access("trip")
    clock.forward(days=31)
    runs = recency.organise()
    assert sum(run.expired for run in runs) == 1, "the nightly job says how many"
    assert sorted(str(one.ref) for one in recency.memories()) == ["home-2", "job", "other", "tea", "trip"]
    assert (recency.memory("errand").lifecycle_state, recency.memory("errand").value) == (
        "ARCHIVED",
        "what errand says",
    )
    assert (recency.memory("trip").expires_at - to_datetime(clock.now)).days == 59
    # 4. Everything about one person, and nothing about another.
    recency.erase(subject="maya", scrub=False)
    assert sorted(str(one.ref) for one in recency.memories()) == ["job", "tea"]
    hers = [one for one in recency.memories(everything=True) if one.subject == "maya"]
    assert {one.value for one in hers} == {None}
    assert all(one.erased_at for one in hers)


def test_a_store_grows_as_the_chapter_says(recency: Ebbtide, clock: Clock):
    """Two years of 3.3 cards added a day, two in five of them events: what may be retrieved at the end of a month."""
    begin, cards = instant.parse("2024-01-01T12:00:00Z"), []
    for day in range(720):
        while len(cards) < 3.3 * (day + 1) - 1e-6:
            event = len(cards) * 2 % 5 < 2
            cards.append(
                card(
                    f"c{len(cards)}",
                    object_type="SUMMARY" if event else "FACT",
                    effective_at=instant.iso(begin + day * DAY),
                )
            )
    clock.now = begin + 721 * DAY
    recency.ask(*cards)
    for month, kept in ((3, 297), (12, 832), (24, 1544)):
        there = recency.memories(as_of=instant.iso(begin + month * 30 * DAY - 12 * HOUR))
        assert len(there) == pytest.approx(kept, abs=2), month
