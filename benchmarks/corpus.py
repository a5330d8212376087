"""A made corpus for the long-horizon test: what persons tell over months, and what they ask.

Every person is drawn from a seed of their own and has topics, each with six words that no other topic has. A question
on a topic holds three of them, a fact three and words of its own, a remark two. So all that was ever said about a
topic is about as similar to a question on it, and similarity alone cannot tell what still holds.

Kinds of topics:
- changing: five attributes, each told anew after 30 to 60 days; only the newest value holds, and nobody marks the old.
- fading: projects of 30 days, one after the other, of six facts each; half of the questions name the project, the
  others the kind of thing only. What belongs to a project that is over does not hold.
- returning: five facts from the first days, asked for until day 30 and again from day 180 on.
- evergreen: five facts from the first days that always hold and are seldom asked for.
Beside them remarks, about one a day, on any topic: they are never what a question wants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

DAYS = 180
CHANGING, FADING, RETURNING, EVERGREEN = KINDS = ("changing", "fading", "returning", "evergreen")
ASKED = {CHANGING: 0.4, FADING: 0.3, RETURNING: 0.2, EVERGREEN: 0.1}
"""How often a question is on a kind of topic, of those that can be asked for on that day."""
TOPICS = {CHANGING: 4, FADING: 1, RETURNING: 3, EVERGREEN: 4}
ATTRIBUTES = 5
PROJECT_DAYS, PROJECT_FACTS = 30, 6
SEASON_ENDS, SEASON_RETURNS = 30, 180

Words = Sequence[str]


@dataclass(frozen=True)
class Told:
    """Something a person told: on which day, what kind of belief it is, and from which day until which it holds."""

    ref: str
    day: int
    text: str
    topic: str
    object_type: str
    epistemic_type: str
    source_type: str
    until: int
    """The first day on which it does not hold any more; that of a remark is the day it was told."""


@dataclass(frozen=True)
class Question:
    """What a person asks, and how similar each memory of theirs is to it."""

    kind: str
    topic: str
    similarity: np.ndarray


class Person:
    """One person's months: `told` by day, and questions with what they want."""

    def __init__(self, seed: int, number: int, *, remarks: float = 1.0, blur: float = 0.05) -> None:
        self.name = f"person-{number}"
        self._seed, self._number, self._blur = seed, number, blur
        self._random = np.random.default_rng([seed, number])
        self._words: dict[str, list[str]] = {}
        self.topics = {kind: [f"{kind}{place}" for place in range(TOPICS[kind])] for kind in KINDS}
        self.told = sorted([*self._facts(), *self._remarks(remarks)], key=lambda one: one.day)
        self.place = {one.ref: place for place, one in enumerate(self.told)}
        # Every word is a term, weighed by how few of the person's texts hold it.
        self._terms = TfidfVectorizer(analyzer=str.split)
        self._texts = self._terms.fit_transform([one.text for one in self.told])

    def alive(self, day: int) -> list[str]:
        """The kinds that can be asked for on a day."""
        return [kind for kind in KINDS if kind != RETURNING or not SEASON_ENDS < day < SEASON_RETURNS]

    def wanted(self, question: Question, day: int) -> set[str]:
        """The facts that answer a question on a day: all on its topic that were told before and hold."""
        return {one.ref for one in self.told if one.topic == question.topic and one.day < day < one.until}

    def asks(self, day: int) -> Question:
        """The one question of a day on which the person asks."""
        random = np.random.default_rng([self._seed, self._number, 1, day])
        kinds = self.alive(day)
        shares = np.array([ASKED[kind] for kind in kinds])
        kind = kinds[random.choice(len(kinds), p=shares / shares.sum())]
        topic = self.topics[kind][random.integers(TOPICS[kind])]
        return self._question(kind, topic, day, random)

    def examined(self, day: int, kind: str, times: int) -> Iterator[Question]:
        """Questions to measure by: so many on each topic of a kind."""
        random = np.random.default_rng([self._seed, self._number, 2, day, KINDS.index(kind)])
        for topic in self.topics[kind]:
            for _ in range(times):
                yield self._question(kind, topic, day, random)

    def _question(self, kind: str, topic: str, day: int, random: np.random.Generator) -> Question:
        words = list(random.choice(self._of(topic, 6), 3, replace=False))
        if kind == FADING and random.random() < 0.5:
            words[:2] = self._of(_project(day), 2)
        exact = (self._texts @ self._terms.transform([" ".join(words)]).T).toarray()[:, 0]
        return Question(kind, topic, np.clip(exact + random.normal(0, self._blur, len(exact)), 0, 1))

    def _facts(self) -> Iterator[Told]:
        for topic in self.topics[CHANGING]:
            for attribute in range(ATTRIBUTES):
                day = int(self._random.integers(0, 10))
                while day <= DAYS:
                    until = day + int(self._random.integers(30, 61))
                    yield self._fact(topic, day, until, f"{topic}-{attribute}")
                    day = until
        for begin in range(-PROJECT_DAYS // 2, DAYS + 1, PROJECT_DAYS):
            for _ in range(PROJECT_FACTS):
                day = max(0, begin + int(self._random.integers(0, 10)))
                yield self._fact(self.topics[FADING][0], day, begin + PROJECT_DAYS, _project(begin))
        for topic in (*self.topics[RETURNING], *self.topics[EVERGREEN]):
            for attribute in range(ATTRIBUTES):
                yield self._fact(topic, int(self._random.integers(0, 10)), DAYS * 10, f"{topic}-{attribute}")

    def _fact(self, topic: str, day: int, until: int, about: str) -> Told:
        """A fact: three words of its topic, two of what it is about, and three of its own."""
        words = [*self._random.choice(self._of(topic, 6), 3, replace=False), *self._of(about, 2), *self._new(3)]
        task = topic in self.topics[FADING] and self._random.random() < 0.5
        observed = self._random.random() < 0.3
        known = ("OBSERVED", "TOOL_OUTPUT") if observed else ("ASSERTED", "USER_STATED")
        return self._one(topic, day, until, words, "TASK" if task else "FACT", *known)

    def _remarks(self, each_day: float) -> Iterator[Told]:
        everything = [topic for kind in KINDS for topic in self.topics[kind]]
        for day in range(DAYS + 1):
            for _ in range(self._random.poisson(each_day)):
                topic = everything[self._random.integers(len(everything))]
                words = [*self._random.choice(self._of(topic, 6), 2, replace=False), *self._new(4)]
                guessed = self._random.random() < 0.5
                known = ("INFERRED", "SYSTEM_INFERRED") if guessed else ("ASSERTED", "USER_STATED")
                yield self._one(topic, day, day, words, "FACT", *known)

    def _one(self, topic: str, day: int, until: int, words: Words, *kind: str) -> Told:
        self._count = getattr(self, "_count", 0) + 1
        return Told(f"{self.name}-{self._count}", day, " ".join(words), topic, *kind, until)

    def _of(self, about: str, count: int) -> list[str]:
        """The words of a topic, an attribute or a project."""
        return self._words.setdefault(about, [f"{about}.{place}" for place in range(count)])

    def _new(self, count: int) -> list[str]:
        """Words from the thousand that everything else is told in."""
        return [f"w{number}" for number in self._random.integers(0, 1000, count)]


def _project(day: int) -> str:
    """The project that is on, on a day."""
    return f"project{(day + PROJECT_DAYS // 2) // PROJECT_DAYS}"
