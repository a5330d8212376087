"""The long-horizon test of RFC-0007, section 13: precision@5 after 30, 90 and 180 days, against no decay.

Each policy lives through the same corpus (benchmarks/corpus.py) in a store of its own. What is told is asserted as of
its day, with a salience of 0.5, as known how it is. Every third day each person asks a question: the SEARCHED most
similar of their memories go to `Ebbtide.rank`, the best five are shown, each of them gets an ACCESS, and a REINFORCE
(signal REFERENCED, by an AI_AGENT) with the probability `right` where it answers and `wrong` where it does not.

Before each question the organiser runs `lifecycle` and `retention`, which comes to the same as every night: a rule is
judged at its instant, and nothing happens to a memory in between. Decay passes write down scores and change none.

What is measured: on the days of HORIZONS, EXAMINED questions on each topic go the same way and leave no trace; of each
the share of answers among the best five counts. No decay is the five most similar of all memories.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpus import KINDS, Person, Question
from ebbtide import Ebbtide
from ebbtide.model import instant

BEGIN = instant.parse("2026-01-01T08:00:00Z")
HORIZONS = (30, 90, 180)
SEARCHED, SHOWN, EXAMINED, EVERY = 30, 5, 3, 3
NO_DECAY = "no decay"
TASKS = ("lifecycle", "retention")

Key = tuple[int, str, str]
"""A horizon, a kind and a person."""
Precisions = dict[Key, float]


@dataclass(frozen=True)
class Setting:
    """What is varied: the corpus, and how people use what they are shown."""

    name: str = "as described"
    persons: int = 20
    seed: int = 1
    remarks: float = 1.0
    blur: float = 0.05
    right: float = 0.5
    wrong: float = 0.1
    asks: bool = True

    def people(self) -> list[Person]:
        """The persons of the corpus."""
        return [Person(self.seed, n, remarks=self.remarks, blur=self.blur) for n in range(self.persons)]


def precision(best: Sequence[str], wanted: set[str], places: int = SHOWN) -> float:
    """The share of the first places that hold what is wanted; a place that is empty holds nothing."""
    return sum(ref in wanted for ref in best[:places]) / places


def nearest(person: Person, question: Question, day: int, count: int) -> list[tuple[str, float]]:
    """What the person's search finds: the most similar of what was told before, with the similarity."""
    there = [place for place, one in enumerate(person.told) if one.day < day]
    there.sort(key=lambda place: -question.similarity[place])
    return [(person.told[place].ref, float(question.similarity[place])) for place in there[:count]]


class Life:
    """A policy's life through a corpus, in an empty store that it sets up."""

    def __init__(self, url: str, policy: str, setting: Setting, people: list[Person]) -> None:
        self._now = BEGIN
        self.ebb = Ebbtide.open(url, clock=lambda: self._now)
        self.ebb.assign_policy(policy)
        self._setting, self._people = setting, people
        self.found: Precisions = {}

    def live(self, days: int, horizons: Sequence[int] = HORIZONS, tasks: Sequence[str] = TASKS) -> Precisions:
        """Lives until a day, and measures on the way."""
        before = 0
        for day in range(days + 1):
            asks = self._setting.asks and day % EVERY == 1
            if day in horizons or asks:
                self._now = BEGIN + day * instant.DAY
                self.ebb.ask(*self._told(before, day))
                self.ebb.organise(tasks=tasks, no_guard=True)
                before = day
            if day in horizons:
                self._measure(day)
            if asks:
                self._use(day)
        return self.found

    def _told(self, begin: int, end: int) -> Iterator[dict[str, Any]]:
        """What was told from one day to the day before another."""
        for person in self._people:
            for one in person.told:
                if begin <= one.day < end:
                    yield {
                        "op": "ASSERT",
                        "ref": one.ref,
                        "value": one.text,
                        "object_type": one.object_type,
                        "epistemic_type": one.epistemic_type,
                        "source_type": one.source_type,
                        "subject": person.name,
                        "effective_at": instant.iso(BEGIN + one.day * instant.DAY),
                    }

    def _best(self, day: int, questions: Sequence[tuple[Person, Question]]) -> list[list[str]]:
        """What is shown for a question of each of several persons: one call ranks for all."""
        candidates = [one for person, question in questions for one in nearest(person, question, day, SEARCHED)]
        ranked = self.ebb.rank(candidates).ranked
        by_person: dict[str, list[str]] = defaultdict(list)
        for one in ranked:
            ref = str(one.memory.ref)
            by_person[ref.rpartition("-")[0]].append(ref)
        return [by_person[person.name][:SHOWN] for person, _ in questions]

    def _use(self, day: int) -> None:
        asked = [(person, person.asks(day)) for person in self._people]
        lines = []
        for (person, question), best in zip(asked, self._best(day, asked), strict=True):
            wanted = person.wanted(question, day)
            for ref in best:
                luck = np.random.default_rng([self._setting.seed, day, *ref.encode()]).random()
                lines.append({"op": "ACCESS", "object": ref, "actor_id": "agent", "actor_type": "AI_AGENT"})
                if luck < (self._setting.right if ref in wanted else self._setting.wrong):
                    lines.append({**lines[-1], "op": "REINFORCE", "signal": "REFERENCED", "session_id": f"day-{day}"})
        self.ebb.ask(*lines)

    def _measure(self, day: int) -> None:
        for kind in KINDS:
            if kind not in self._people[0].alive(day):
                continue
            rounds = zip(*(person.examined(day, kind, EXAMINED) for person in self._people), strict=True)
            scores = []
            for questions in rounds:
                asked = list(zip(self._people, questions, strict=True))
                shown = self._best(day, asked)
                scores.append([precision(b, p.wanted(q, day)) for b, (p, q) in zip(shown, asked, strict=True)])
            for person, mean in zip(self._people, np.mean(scores, axis=0), strict=True):
                self.found[day, kind, person.name] = float(mean)


def lived(policy: str, setting: Setting, people: list[Person]) -> Precisions:
    """What a policy comes to, in a store of its own."""
    with tempfile.TemporaryDirectory(prefix="ebb-horizon-") as folder:
        life = Life(f"duckdb:///{Path(folder) / 'life.duckdb'}", policy, setting, people)
        with life.ebb, life.ebb.store.session():  # The file stays open: to open it takes most of a call.
            return life.live(max(HORIZONS))


def without_decay(people: list[Person]) -> Precisions:
    """What similarity alone comes to."""
    return {
        (day, kind, person.name): float(
            np.mean(
                [
                    precision([ref for ref, _ in nearest(person, q, day, SHOWN)], person.wanted(q, day))
                    for q in person.examined(day, kind, EXAMINED)
                ]
            )
        )
        for day in HORIZONS
        for person in people
        for kind in person.alive(day)
    }


@dataclass(frozen=True)
class Interval:
    """A mean over persons, and where 95 % of the means lie of persons drawn anew."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float], seed: int = 0, resamples: int = 5_000) -> Interval:
    """The percentile bootstrap over persons."""
    given = np.asarray(values)
    drawn = np.random.default_rng(seed).integers(0, len(given), (resamples, len(given)))
    low, high = np.percentile(given[drawn].mean(axis=1), [2.5, 97.5])
    return Interval(float(given.mean()), float(low), float(high))


@dataclass(frozen=True)
class Row:
    """Of a policy at a horizon and of a kind (`all` is the mean over kinds): its precision, and how far it is above
    that of no decay, person by person."""

    policy: str
    days: int
    kind: str
    precision: Interval
    gain: Interval


def rows(policy: str, found: Precisions, base: Precisions) -> Iterator[Row]:
    """What is to be said of a policy, beside no decay on the same corpus."""
    for day in HORIZONS:
        kinds = [kind for kind in KINDS if any(key[:2] == (day, kind) for key in found)]
        people = sorted({person for _, _, person in found})
        for kind in ("all", *kinds):
            of = kinds if kind == "all" else [kind]
            mine = [float(np.mean([found[day, one, person] for one in of])) for person in people]
            others = [float(np.mean([base[day, one, person] for one in of])) for person in people]
            gains = [a - b for a, b in zip(mine, others, strict=True)]
            yield Row(policy, day, kind, interval(mine), interval(gains))
