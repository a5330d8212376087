"""The fold: what an entry does to the state of its object. Pure, and the oracle that everything else is tested against.

An entry carries its result, so the fold applies and never recomputes: last writer wins, per group of columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from ebbtide.model.entry import SCHEMA_VERSION, Entry
from ebbtide.model.state import GROUPS, ID_COLUMNS, MemoryState
from ebbtide.model.upcast import upcast
from ebbtide.model.words import LifecycleState, OpType, StreamType


def apply(state: MemoryState | None, entry: Entry) -> MemoryState:
    """The state of the entry's object after the entry; None is the state before its first."""
    changes: dict[str, Any] = {"version": entry.version, "head_hash": entry.hash}
    if entry.fact_version is not None:
        changes |= {"fact_version": entry.fact_version, "fact_at": entry.effective_at}
    if entry.op_type == OpType.CENTRALITY_BOOST:
        changes["fact_at"] = entry.effective_at
    if entry.lifecycle_state is not None:
        changes["lifecycle_state"] = LifecycleState(entry.lifecycle_state)
    if entry.salience is not None:
        changes |= {"salience": entry.salience, "confidence": entry.confidence}
    if entry.op_type == OpType.DECAY_APPLIED:
        changes["decayed_at"] = entry.effective_at
    if entry.after is not None:
        after = json.loads(entry.after)
        if entry.schema_version != SCHEMA_VERSION:
            after = upcast(entry.schema_version, entry.op_type, (json.loads(entry.payload), after))[1]
        changes |= columns_of(after)
    if state is None:
        return MemoryState(
            namespace_id=entry.namespace_id, object_id=entry.stream_id, **{"decayed_at": None, **changes}
        )
    return replace(state, **changes)


def columns_of(after: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The columns that the groups of an entry's `after` set."""
    return {
        column: UUID(values[column]) if column in ID_COLUMNS and values[column] else values[column]
        for group, values in after.items()
        for column in GROUPS[group]
    }


def fold(entries: Iterable[Entry]) -> dict[UUID, MemoryState]:
    """The state of every object of a log, read in order of seq."""
    states: dict[UUID, MemoryState] = {}
    for entry in entries:
        if entry.stream_type == StreamType.OBJECT:
            states[entry.stream_id] = apply(states.get(entry.stream_id), entry)
    return states
