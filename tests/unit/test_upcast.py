"""Entries of older forms are read in today's, step by step; those of newer ones are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ebbtide import Refused
from ebbtide.model.entry import SCHEMA_VERSION, Entry
from ebbtide.model.identity import id_of_ref
from ebbtide.model.upcast import UPCASTERS, Said, upcast
from ebbtide.model.words import OpType, StreamType
from ebbtide.project.fold import apply


def renamed(op_type: str, said: Said) -> Said:
    payload, after = said
    return ({"signal": payload["sig"]}, after) if op_type == "REINFORCE" else said


def scaled(op_type: str, said: Said) -> Said:
    payload, after = said
    return payload, after and {**after, "counts": {**after["counts"], "access_count": 2}}


def test_each_step_leads_to_the_next_form():
    steps = (renamed, scaled)
    old = {"sig": "CONFIRMED"}, {"counts": {"access_count": 1, "reinforce_count": 0}}
    today = {"signal": "CONFIRMED"}, {"counts": {"access_count": 2, "reinforce_count": 0}}
    assert upcast(1, "REINFORCE", old, steps) == today
    assert upcast(2, "REINFORCE", (today[0], old[1]), steps) == today
    assert upcast(3, "REINFORCE", today, steps) == today
    assert upcast(1, "ACCESS", ({"sig": 1}, None), steps) == ({"sig": 1}, None)
    with pytest.raises(Refused, match="form 4, and this Ebbtide reads up to 3"):
        upcast(4, "ACCESS", ({}, None), steps)


def test_every_older_form_has_its_upcaster():
    assert len(UPCASTERS) == SCHEMA_VERSION - 1


def test_the_fold_does_not_guess_at_a_newer_form():
    object_id = id_of_ref("tests", "one")
    entry = Entry(
        namespace_id="tests",
        seq=1,
        id=object_id,
        stream_type=StreamType.OBJECT,
        stream_id=object_id,
        version=1,
        op_type=OpType.ACCESS,
        recorded_at=0,
        effective_at=0,
        actor_id="a",
        actor_type="SYSTEM_PROCESS",
        payload="{}",
        after=json.dumps({"counts": {"access_count": 1, "reinforce_count": 0}}),
    )
    with pytest.raises(Refused, match="upgrade"):
        apply(None, replace(entry, schema_version=SCHEMA_VERSION + 1))
