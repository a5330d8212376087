"""What is published for RFC-0007, section 13: its measures by hand, its corpus, and a small life and walk."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks import rfc13
from benchmarks.corpus import CHANGING, EVERGREEN, FADING, RETURNING, Person, Question
from benchmarks.horizon import Life, Setting, interval, nearest, precision, rows, without_decay

from ebbtide.policy.files import library

PERSON = Person(1, 0)


def test_precision_of_a_ranking_made_by_hand() -> None:
    assert precision(["a", "b", "c", "d", "e"], {"a", "c", "x"}) == 2 / 5
    assert precision(["b", "b2", "b3", "b4", "b5", "a"], {"a"}) == 0, "the sixth place does not count"
    assert precision(["a", "b"], {"a", "b", "c"}) == 2 / 5, "nor does a place that is empty"
    assert precision([], {"a"}) == 0


def test_gains_are_person_by_person() -> None:
    """Two persons, two kinds: 0.2 more in the mean over kinds for one, 0.4 more for the other."""
    base = {(30, kind, who): 0.2 for kind in (CHANGING, FADING) for who in ("p", "q")}
    found = base | {(30, CHANGING, "p"): 0.6, (30, CHANGING, "q"): 1.0}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("benchmarks.horizon.HORIZONS", (30,))
        by_kind = {row.kind: row for row in rows("x", found, base)}
    assert by_kind["all"].gain.mean == pytest.approx(0.3)
    assert (by_kind["all"].gain.low, by_kind["all"].gain.high) == pytest.approx((0.2, 0.4)), "both drawn twice"
    assert by_kind[CHANGING].precision.mean == pytest.approx(0.8)
    assert by_kind[FADING].gain == interval([0.0, 0.0])


@pytest.mark.parametrize("day", [30, 90, 180])
def test_what_questions_want(day: int) -> None:
    """Of what changes each attribute's newest value, which no later one replaced; of projects the one that is on."""
    told = {one.ref: one for one in PERSON.told}
    for kind, many in ((CHANGING, 5), (FADING, 6), (RETURNING, 5), (EVERGREEN, 5)):
        for question in PERSON.examined(day, kind, 1):
            wanted = [told[ref] for ref in PERSON.wanted(question, day)]
            assert len(wanted) == many
            about = {next(word for word in one.text.split() if "-" in word or "project" in word) for one in wanted}
            if kind == CHANGING:
                assert {word.partition(".")[0] for word in about} == {f"{question.topic}-{n}" for n in range(5)}
                for one in wanted:
                    attribute = next(w.partition(".")[0] for w in one.text.split() if "-" in w)
                    later = [o for o in PERSON.told if one.day < o.day < day and f"{attribute}.0" in o.text.split()]
                    assert not later
            if kind == FADING:
                assert {word.partition(".")[0] for word in about} == {f"project{ {30: 1, 90: 3, 180: 6}[day] }"}
    assert (RETURNING in PERSON.alive(day)) == (day != 90)


def test_nothing_is_found_before_it_is_told() -> None:
    (question, *_) = PERSON.examined(30, EVERGREEN, 1)
    assert isinstance(question, Question)
    found = nearest(PERSON, question, 30, 1_000)
    assert {ref for ref, _ in found} == {one.ref for one in PERSON.told if one.day < 30}
    assert [x for _, x in found] == sorted((x for _, x in found), reverse=True)
    assert Person(1, 0).told == PERSON.told, "the same seed gives the same person"


def test_a_small_life(make_url_for) -> None:
    """Nothing decays under `recency` but by recency itself, and on the day when all was told there is none of it: what
    is shown is what similarity alone shows."""
    setting = Setting(persons=1, remarks=0.0, asks=False)
    people = setting.people()
    for person in people:
        person.told = [replace(one, day=0 if one.day < 10 else 999) for one in person.told]
    life = Life(make_url_for("duckdb"), "recency@1.0.0", setting, people)
    with life.ebb, pytest.MonkeyPatch.context() as patched:
        patched.setattr("benchmarks.horizon.HORIZONS", (2,))
        found = life.live(2, (2,))
        assert found == pytest.approx(without_decay(people))
        assert not life.ebb.memories(limit=1)[0].accessed_at, "measuring leaves no trace"


def test_a_small_walk(url: str) -> None:
    found = rfc13.transitions(url, 120)
    assert found["wrong"] == found["left_behind"] == []
    assert found["verified"]
    assert found["rebuilt_equal"]
    assert found["requests"] + found["refused"] + found["passes"] == 120
    assert set(found["rules"]) >= {"warning", "archive"}


def test_decay_against_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rfc13, "AGES", 60)
    for one in rfc13.decay_correctness([library()[f"{name}@1.0.0"][0] for name in ("default", "permastore", "fsrs")]):
        assert one["largest_error"] < 5.001e-10, "what 9 decimals make"
        assert one["left_at_half_life"] in (None, pytest.approx(0.5, abs=1e-9))
