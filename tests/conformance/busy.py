"""A process that asks a lot of a store which others ask as well, and keeps a record of its own of what became of it.

It is imported by those processes, so it imports as little as it can.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from random import Random
from typing import Any

from ebbtide import Conflict, Ebbtide, Refused

BELIEF = {"op": "ASSERT", "object_type": "FACT", "epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
COMMON = [f"common-{number}" for number in range(8)]
"""Memories that all processes ask about."""
PATIENCE = 300.0


@dataclass
class Record:
    """What one process was told: entries by place in the log, refusals, repeats, and how often it was a race."""

    name: str
    taken: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    refused: list[tuple[str, str]] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    conflicts: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    expected: dict[int, int] = field(default_factory=dict)
    requests: int = 0


class Caller:
    """Asks at random, of its own memories and of those that all ask about."""

    def __init__(self, ebb: Ebbtide, name: str) -> None:
        self.ebb, self.rng, self.record = ebb, Random(name), Record(name)
        self.who = {"actor_id": name, "actor_type": "HUMAN_USER"}
        self.own: list[str] = []
        self.numbers = iter(range(1, 1_000_000))

    def live(self, requests: int) -> Record:
        while self.record.requests < requests:
            kind = self.rng.choices([self.several, self.careful, self.again, self.forget], [12, 3, 3, 1])[0]
            kind()
        return self.record

    def several(self) -> None:
        """One call with several requests; a refused one takes all of them along."""
        self.ask([self.one() for _ in range(self.rng.randint(1, 9))])

    def one(self) -> dict[str, Any]:
        obj = self.rng.choice(self.own if self.own and self.rng.random() < 0.5 else COMMON)
        if self.rng.random() < 0.1:
            return self.new()
        return self.rng.choice(
            [
                {"op": "EVENT", "content": "something happened", "stream": self.rng.choice(["all", self.record.name])},
                {"op": "ACCESS", "object": obj},
                {"op": "ACCESS", "object": obj},
                {"op": "REINFORCE", "object": obj, "signal": "REFERENCED", "session_id": self.record.name},
                {"op": "PENALTY", "object": obj, "signal": "TASK_FAILED_WITH"},
                {"op": "PIN", "object": obj},
                {"op": "UNPIN", "object": obj},
                {"op": "HOLD", "object": self.rng.choice(COMMON)},
                {"op": "SUPPRESS", "object": obj},
                {"op": "RELATE", "edge_type": "NEAR", "source": obj, "target": self.rng.choice(COMMON)},
                {"op": "ENTITY_CREATE", "entity_type": "PERSON", "canonical_name": "somebody"},
            ]
        )

    def new(self) -> dict[str, Any]:
        ref = f"{self.record.name}-{next(self.numbers)}"
        self.record.values[ref] = f"value of {ref}"
        return BELIEF | {"ref": ref, "value": f"value of {ref}", "subject": self.record.name}

    def careful(self) -> None:
        """Reads a version and asks for it to be the one that is changed: of those who saw the same, one wins."""
        obj = self.rng.choice(COMMON)
        seen = self.ebb.memory(obj).fact_version
        request = {"op": "PENALTY", "object": obj, "signal": "IGNORED_REPEATEDLY", "expected_version": seen}
        for seq in self.ask([request]):
            self.record.expected[seq] = seen

    def again(self) -> None:
        """Says what others say under the same name: whoever is first writes it, and the rest changes nothing."""
        number = self.rng.randint(1, 40)
        self.ask([BELIEF | {"ref": f"shared-{number}", "value": f"shared {number}", "actor_id": "anybody"}])

    def forget(self) -> None:
        """Erases a memory of its own."""
        if not self.own:
            return
        ref = self.own.pop(self.rng.randrange(len(self.own)))
        self.record.requests += 1
        receipt = self.ebb.erase(ref, actor=self.record.name, scrub=False)
        assert receipt.erased.objects == 1
        self.record.erased.add(ref)

    def ask(self, lines: list[dict[str, Any]]) -> Iterator[int]:
        """One call; the places of its entries."""
        self.record.requests += len(lines)
        new = [line["ref"] for line in lines if line["op"] == "ASSERT"]
        places: list[int] = []
        try:
            for line, taken in zip(lines, self.ebb.ask(*(self.who | line for line in lines)), strict=True):
                if taken.unchanged:
                    self.record.unchanged.append(line["ref"])
                for entry in taken.entries:
                    assert entry.seq not in self.record.taken
                    self.record.taken[entry.seq] = (str(entry.op_type), str(entry.id), str(entry.stream_id))
                    places.append(entry.seq)
        except Refused as refused:
            self.record.conflicts += isinstance(refused, Conflict)
            self.record.refused.append((self.record.name, refused.rule))
            for ref in new:
                self.record.values.pop(ref, None)
            return iter(())
        for ref in new:
            if ref in self.record.values:
                self.own.append(ref)
        return iter(places)


def work(url: str, name: str, requests: int, gate: Barrier, told: Any) -> None:
    """What a process does: waits for the others, asks, and tells its record."""
    with Ebbtide(url, wait=PATIENCE) as ebb:
        gate.wait(PATIENCE)
        told.put(Caller(ebb, name).live(requests))


_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["ebbtide", "busy"])


def at_once(url: str, names: list[str], requests: int) -> list[Record]:
    """The records of processes that ask at the same time."""
    gate, told = _processes.Barrier(len(names)), _processes.Queue()
    started = [_processes.Process(target=work, args=(url, name, requests, gate, told)) for name in names]
    for process in started:
        process.start()
    records = [told.get(timeout=2 * PATIENCE) for _ in started]
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * len(names)
    return records
