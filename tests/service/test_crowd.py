"""200 writers at once through HTTP on PostgreSQL: what each was told is what the log says, no more and no less."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from tests.conformance import ledger
from tests.service.serving import BELIEF, HERE, NS, listener

from ebbtide import Ebbtide

WRITERS = 200
SHARED = "shared"


def test_nothing_is_lost_or_doubled(make_url_for):
    with Ebbtide.open(make_url_for("postgresql"), wait=60) as ebb:
        ebb.assert_memory("Everybody's.", namespace=NS, ref=SHARED, **BELIEF)
        ebb.assert_memory("Contended.", namespace=NS, ref="contended", **BELIEF)
        token = ebb.create_token("writer", namespace=NS, actor="crowd").token
        start = threading.Barrier(WRITERS)

        def one(number: int) -> dict[str, Any]:
            key = {"Idempotency-Key": f"w-{number}"}
            with httpx.Client(base_url=at, headers={"Authorization": f"Bearer {token}"}, timeout=120) as client:
                start.wait()
                body = {"value": f"Memory {number}", "subject": f"s{number % 7}", **BELIEF}
                made = client.post(f"{HERE}/memories", json=body, headers=key)
                again = client.post(f"{HERE}/memories", json=body, headers=key)
                signal = client.post(
                    f"{HERE}/memories/{SHARED}/access", headers={"Idempotency-Key": f"a-{number // 2}"}
                )
                contended = client.post(f"{HERE}/memories/contended/access", headers={"If-Match": '"1"'})
            return {"made": made, "again": again, "signal": signal, "contended": contended}

        with listener(ebb) as at, ThreadPoolExecutor(WRITERS) as pool:
            told = list(pool.map(one, range(WRITERS)))
        assert Counter(one["made"].status_code for one in told) == {201: WRITERS}
        assert Counter(one["again"].status_code for one in told) == {201: WRITERS}
        assert all(one["made"].json()["id"] == one["again"].json()["id"] for one in told)
        ids = {one["made"].json()["id"] for one in told}
        memories = {str(one.id): one for one in ebb.memories(namespace=NS)}
        assert len(ids) == WRITERS
        assert set(memories) - ids == {str(ebb.memory(ref, namespace=NS).id) for ref in (SHARED, "contended")}
        assert all(memories[one].version == 1 for one in ids)
        assert Counter(one["signal"].status_code for one in told) == {200: WRITERS}
        assert ebb.memory(SHARED, namespace=NS).version == 1 + WRITERS // 2, "each key once"
        assert Counter(one["contended"].status_code for one in told) == {200: 1, 412: WRITERS - 1}
        assert ebb.memory("contended", namespace=NS).version == 2
        ledger.check(ebb, NS)
