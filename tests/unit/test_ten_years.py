"""Ten years of slots in UTC under twenty values of TZ: none twice, none missed, and the same in each zone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

ZONES = (
    "UTC", "Europe/London", "Europe/Berlin", "Europe/Moscow", "America/New_York", "America/Los_Angeles",
    "America/St_Johns", "America/Sao_Paulo", "America/Asuncion", "Africa/Casablanca", "Africa/Cairo", "Asia/Tehran",
    "Asia/Kathmandu", "Asia/Kolkata", "Asia/Gaza", "Australia/Lord_Howe", "Australia/Sydney", "Pacific/Chatham",
    "Pacific/Kiritimati", "Pacific/Pago_Pago",
)  # fmt: skip
HOURS = {
    "lifecycle": 24, "retention": 24, "decay_rapid_fast": 6, "decay_medium": 24, "decay_slow": 168, "centrality": 168,
    "dedup": 168, "summarise": 24,
}  # fmt: skip

CHILD = """
import hashlib, json, random, sys, time
from ebbtide.model import instant
from ebbtide.model.words import Task
from ebbtide.organise.ledger import Ledger
from ebbtide.policy.files import library
from ebbtide.policy.schedule import starts_between
import os
policy = library(None)["default@1.0.0"][0]
intervals = {task: policy.interval(task) for task in Task}
begin, end = instant.parse("2026-01-01T00:00:00Z"), instant.parse("2036-01-01T00:00:00Z")
told = {}
for zone in sys.argv[1:]:
    os.environ["TZ"] = zone
    time.tzset()
    every = list(starts_between(intervals, begin, end))
    # An organiser that wakes up whenever it likes, now and then not for weeks, and whose clock jumps back at times.
    ledger, chance, ran, at = Ledger(intervals, tuple(Task), {}, {}, begin), random.Random(7), [], begin
    while at < end:
        back = chance.random() < 0.05
        for start, task in ledger.due(tuple(Task), at - instant.HOUR if back else at):
            ran.append((str(task), start))
            ledger.last[task] = start
        at += round(chance.choice([1, 20, 40, 900]) * chance.random() * instant.HOUR)
    text = json.dumps([[start, str(task)] for start, task in every] + ran)
    names = {str(task): [start for start, one in every if one is task] for task in Task}
    told[zone] = {
        "offset": time.strftime("%z", time.localtime(1783000000)) + time.strftime("%z", time.localtime(1799000000)),
        "same": hashlib.sha256(text.encode()).hexdigest(),
        "ran": len(ran), "twice": len(ran) - len(set(ran)),
        "ordered": all(sorted(s for t, s in ran if t == name) == [s for t, s in ran if t == name] for name in names),
        "starts": names if zone == "UTC" else None,
    }
print(json.dumps(told))
"""


def test_ten_years_under_twenty_zones() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, *ZONES],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"TZ": "UTC"},
    )
    told = json.loads(ended.stdout)
    assert len({one["offset"] for one in told.values()}) >= 15, "the zones do differ"
    assert {one["same"] for one in told.values()} == {told["UTC"]["same"]}
    assert {(one["twice"], one["ordered"]) for one in told.values()} == {(0, True)}
    assert told["UTC"]["ran"] > 2000
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
    monday = datetime(1970, 1, 5, tzinfo=UTC)
    for task, hours in HOURS.items():
        step = timedelta(hours=hours)
        start = monday + -(-(begin - monday) // step) * step
        expected = []
        while start <= end:
            expected.append(round(start.timestamp()) * 1_000_000)
            start += step
        assert told["UTC"]["starts"][task] == expected, task
