"""Who may do what over HTTP: every route, every role, in its own namespace, in another's and in one that is not there.

What is decided before a database is asked is tried on PostgreSQL alone, which is ten times as quick.
"""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from tests.service.serving import BELIEF, HERE, NS, problem, serving

from ebbtide.access.rights import Right, Role
from ebbtide.service.http.app import _ROUTES, application
from ebbtide.store.tables import consumers, event_log, organiser_runs, policies, refusals

R, W, A, E, O = Right.READ, Right.WRITE, Right.AUDIT, Right.ERASE, Right.OPERATE  # noqa: E741
MAY = {
    "reader": {R},
    "writer": {R, W},
    "auditor": {R, A},
    "operator": {R, W, A, E, O},
}
"""What the roles are, once more and by hand."""
FILTER = {"subject": "nobody"}
RUN = "57d22044-7b7b-892c-854e-caf7d6d47861"
OF_NAMESPACE: list[tuple[str, str, Any, Right]] = [
    ("GET", "memories", None, R),
    ("POST", "memories", {"value": "x", **BELIEF}, W),
    ("GET", "memories/home-1", None, R),
    ("GET", "memories/home-1/history", None, R),
    ("GET", "memories/home-1/explain", None, R),
    ("POST", "memories/home-1/access", None, W),
    ("POST", "memories/home-1/reinforce", {"signal": "CONFIRMED"}, W),
    ("POST", "memories/home-1/penalise", {"signal": "UNUSED"}, W),
    *(("POST", f"memories/home-1/{name}", None, W) for name in ("pin", "unpin", "hold", "release")),
    *(("POST", f"memories/home-1/{name}", None, W) for name in ("suppress", "unsuppress", "archive", "restore")),
    ("POST", "memories/home-1/condition", {"condition": "TRUE"}, W),
    ("POST", "memories/home-1/transition", {"to_type": "OBSERVED", "trigger_type": "policy"}, W),
    ("POST", "memories/home-1/supersede", {"value": "y"}, W),
    ("POST", "memories/home-1/deprecate", None, W),
    ("POST", "events", {"content": "x"}, W),
    ("POST", "batches", None, W),
    ("GET", "log", None, R),
    ("POST", "suppressions", FILTER, W),
    ("POST", "suppressions/end", FILTER, W),
    ("POST", "entities", {"entity_type": "PERSON", "canonical_name": "Tom"}, W),
    ("POST", "entities/merge", {"primary": "a", "merged": "b"}, W),
    ("POST", "relations", {"source": "home-1", "edge_type": "IN", "target": "home-1"}, W),
    ("POST", "contradictions", {"object_a": "home-1", "object_b": "m1"}, W),
    ("POST", "rank", {"candidates": []}, R),
    ("GET", "evictions/vectors", None, R),
    ("POST", "evictions/vectors", {"position": "0@0"}, W),
    ("POST", "erase/preview", {"subject": "nobody"}, E),
    ("POST", "erase", {"subject": "nobody", "confirmation": "0"}, E),
    ("POST", "policy", {"policy": "default@1.0.0"}, O),
    ("POST", "fit", {}, A),
    ("GET", "subjects/maya", None, A),
    ("POST", "retry", None, O),
    ("GET", "proofs/1", None, A),
    ("GET", "tokens", None, O),
]
OF_STORE: list[tuple[str, str, Any, Right]] = [
    ("GET", "policies", None, R),
    ("GET", "policies/default@1.0.0", None, R),
    ("GET", "policies/default@1.0.0/diff?to=archivist@1.0.0", None, R),
    ("GET", "policies/default@1.0.0/curves", None, R),
    ("POST", "policies/check", {"id": "mine", "version": "1.0.0"}, R),
    ("POST", "policies", {"id": "mine", "version": "1.0.0"}, O),
    ("GET", "status", None, R),
    ("GET", "runs", None, A),
    ("POST", "runs", {"dry_run": True}, O),
    ("GET", f"runs/{RUN}", None, A),
    ("POST", f"runs/{RUN}/approve", None, O),
    ("POST", "simulations", {"policy": "default@1.0.0"}, A),
    ("POST", "replays/plan", {"replace": "default@1.0.0", "with": "archivist@1.0.0"}, A),
    ("POST", "replays/apply", {"replace": "default@1.0.0", "with": "archivist@1.0.0", "digest": "0"}, O),
    ("GET", "audit", None, A),
    ("GET", "audit/marks", None, A),
    ("POST", "sql", {"query": "SELECT 1"}, A),
    ("GET", "packs", None, O),
    ("POST", "packs", None, O),
    ("GET", "doctor", None, O),
    ("POST", "rebuild", {}, O),
    ("POST", "scrub", None, O),
    ("GET", "verify", None, A),
    ("POST", "verify", {}, A),
    ("GET", "digest", None, A),
]
EVERY = {("POST", f"/v1/{path}") for path in ("policies", "sql", "packs", "scrub")} | {("GET", "/v1/doctor")}
"""Routes of the whole store that no token of one namespace may ask."""
_SPEAK = ("status", "runs", "simulations", "verify", "digest", "replays/", "audit/", "rebuild")
SPEAKING = [(m, p, b) for m, p, b, _ in OF_STORE if p.startswith(_SPEAK) and not p.startswith("runs/")]
"""Routes of the whole store that can be asked of one namespace."""


@pytest.fixture(scope="module")
def served(make_url_for_module):
    yield from serving(make_url_for_module("postgresql"))


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def both(request, make_url_for_module):
    yield from serving(make_url_for_module(request.param))


def rows_of(served, namespace: str) -> list[int]:
    """How many rows a namespace has in what is written by requests."""
    with served.ebb.store.begin() as connection:
        return [
            connection.execute(select(func.count()).select_from(t).where(t.c.namespace_id == namespace)).scalar_one()
            for t in (event_log, refusals, consumers, organiser_runs, policies)
        ]


def test_every_route_is_in_the_matrix():
    routes = [route for module in _ROUTES for route in module.router.routes if isinstance(route, APIRoute)]
    there = {(m, r.path_regex.pattern) for r in routes for m in r.methods if r.path.startswith("/v1")}
    assert len(there) == len(OF_NAMESPACE) + len(OF_STORE)
    asked = [(m, f"{HERE}/{p}") for m, p, *_ in OF_NAMESPACE] + [(m, f"/v1/{p}") for m, p, *_ in OF_STORE]
    for method, path in asked:
        fits = [r for r in routes if method in r.methods and r.path_regex.fullmatch(path.split("?")[0])]
        assert fits, path


def test_nobody_without_a_good_token_is_told_anything(served):
    ended = served.ebb.create_token("operator", every_namespace=True)
    served.ebb.revoke_token(ended.id)
    strangers = [served.client(), served.client("ebb_" + "A" * 64), served.client("x"), served.client(ended.token)]
    for method, path, body, _ in [(m, f"{HERE}/{p}", b, r) for m, p, b, r in OF_NAMESPACE] + [
        (m, f"/v1/{p}", b, r) for m, p, b, r in OF_STORE
    ]:
        told = [stranger.request(method, path, json=body) for stranger in strangers]
        for answer in told:
            problem(answer, 401, "unauthorised")
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert len({answer.text for answer in told}) == 1


@pytest.mark.parametrize("role", MAY)
def test_a_role_may_what_it_may_in_its_namespace_and_nothing_else(served, role):
    client, before = served.mine[role], rows_of(served, NS)
    for method, path, body, right in [(m, f"{HERE}/{p}", b, r) for m, p, b, r in OF_NAMESPACE] + [
        (m, f"/v1/{p}", b, r) for m, p, b, r in OF_STORE
    ]:
        answer = client.request(method, path, json=body)
        if right in MAY[role] and (method, path) not in EVERY:
            assert answer.status_code not in (401, 403, 500, 503), (path, answer.text)
            if answer.status_code == 404:
                assert answer.json()["detail"] != "there is no such namespace", path
        else:
            problem(answer, 403, "forbidden")
    if role in ("reader", "auditor"):
        assert rows_of(served, NS) == before


def test_what_concerns_every_namespace_takes_a_token_of_every_one(served):
    for role in MAY:
        for method, path, body, _ in OF_STORE:
            if (method, f"/v1/{path}") in EVERY:
                problem(served.mine[role].request(method, f"/v1/{path}", json=body), 403, "forbidden")
    document = {"id": "mine", "version": "1.0.0"}
    assert served.every["operator"].post("/v1/policies", json=document).status_code == 200


@pytest.mark.parametrize("role", MAY)
def test_another_namespace_is_not_there_be_there_one_or_not(served, role):
    """404 with the same words; nothing of it is written, and nothing told."""
    client, before = served.theirs[role], rows_of(served, NS)
    for method, path, body, _ in OF_NAMESPACE:
        there = client.request(method, f"{HERE}/{path}", json=body)
        none = client.request(method, f"/v1/namespaces/nothing/{path}", json=body)
        problem(there, 404, "not_found")
        assert (there.text, dict(there.headers)) == (none.text, dict(none.headers)), path
    assert rows_of(served, NS) == before


@pytest.mark.parametrize("role", ["operator", "auditor"])
def test_the_whole_store_is_one_namespace_to_whoever_has_one(both, role):
    client = both.theirs[role]
    for method, path, body in SPEAKING:
        if role == "auditor" and (method, path) in {("POST", "runs"), ("POST", "replays/apply"), ("POST", "rebuild")}:
            continue
        answers = []
        for name in (NS, "nothing"):
            if method == "GET":
                answers.append(client.get(f"/v1/{path}", params={"namespace": name}))
            else:
                answers.append(client.post(f"/v1/{path}", json=body | {"namespace": name}))
            problem(answers[-1], 404, "not_found")
        assert answers[0].text == answers[1].text, path
    assert {one["namespace_id"] for one in client.get("/v1/status").json()["counts"]} == {"tom"}
    assert [one["namespace_id"] for one in client.get("/v1/digest").json()["heads"]] == ["tom"]
    rows = client.get("/v1/audit/marks", params={"days": 4000}).json()
    assert {row[rows["columns"].index("namespace_id")] for row in rows["rows"]} <= {"tom"}
    receipt = {"namespace_id": NS, "tombstones": [RUN], "items": [], "head": {"seq": 1, "batch": 1, "hash": "0" * 64}}
    problem(client.post("/v1/verify", json={"receipt": receipt}), 404, "not_found")


def test_a_run_of_another_namespace_is_no_run(both):
    both.ebb.organise(namespace=NS)
    run = both.ebb.runs(namespace=NS)[0].run_id
    assert both.mine["operator"].get(f"/v1/runs/{run}").json()["namespace_id"] == NS
    for path in (f"/v1/runs/{run}", f"/v1/runs?cursor={run}"):
        theirs = both.theirs["operator"].get(path)
        other = both.theirs["operator"].get(path.replace(str(run), RUN))
        assert theirs.json()["detail"].replace(str(run), RUN) == problem(other, 404, "not_found")["detail"]
    problem(both.theirs["operator"].post(f"/v1/runs/{run}/approve"), 404, "not_found")
    problem(both.mine["operator"].post(f"/v1/runs/{run}/approve"), 409, "refused")


def test_a_memory_is_found_in_its_own_namespace_only(both):
    home = both.ebb.memory("home-1", namespace=NS).id
    theirs = both.theirs["operator"]
    for path in ("", "/history", "/explain"):
        problem(theirs.get(f"/v1/namespaces/tom/memories/{home}{path}"), 404, "not_found")
    problem(theirs.post(f"/v1/namespaces/tom/memories/{home}/pin"), 404, "not_found")
    problem(theirs.post("/v1/namespaces/tom/erase/preview", json={"objects": [str(home)]}), 404, "not_found")
    ranked = theirs.post("/v1/namespaces/tom/rank", json={"candidates": [{"object": str(home), "similarity": 1}]})
    assert ranked.json()["withheld"] == [{"object": str(home), "reason": "unknown"}]
    linked = theirs.post("/v1/namespaces/tom/memories", json={"value": "z", "evidence": [str(home)], **BELIEF})
    assert linked.status_code in (404, 422)


def test_a_token_that_ends_is_out_at_once(both):
    made = both.ebb.create_token("reader", namespace=NS)
    client = both.client(made.token)
    assert client.get(f"{HERE}/memories").status_code == 200
    both.ebb.revoke_token(made.id)
    problem(client.get(f"{HERE}/memories"), 401, "unauthorised")


def test_health_is_told_to_all_and_numbers_to_those_who_may_see_the_store(served):
    assert served.client().get("/health/live").json() == {"live": True}
    assert served.client().get("/health").json() == {"live": True, "ready": True}
    assert served.mine["operator"].get("/health/ready").json() == {"live": True, "ready": True}
    assert served.every["reader"].get("/health").json()["problems"] == []
    problem(served.client().get("/metrics"), 401, "unauthorised")
    problem(served.mine["operator"].get("/metrics"), 403, "forbidden")
    problem(served.every["reader"].get("/metrics"), 404, "not_found")


def test_without_tokens_this_machine_alone_is_answered(both):
    app = application(both.ebb, insecure=True)
    for base in ("http://localhost", "http://127.0.0.1:8300", "http://[::1]:8300"):
        assert TestClient(app, base_url=base).get(f"{HERE}/memories").status_code == 200
    local = TestClient(app, base_url="http://localhost:8300")
    assert local.get(f"{HERE}/memories", headers={"Origin": "http://localhost:8300"}).status_code == 200
    for headers in ({"Host": "evil.example"}, {"Host": "evil.example:8300"}, {"Host": "localhost.evil.example"}):
        problem(local.get(f"{HERE}/memories", headers=headers), 403, "forbidden")
    for origin in ("https://evil.example", "null", "http://localhost:9999"):
        problem(local.post(f"{HERE}/memories/home-1/pin", headers={"Origin": origin}), 403, "forbidden")
    made = local.post(f"{HERE}/events", json={"content": "x"}).json()["id"]
    found = [one for one in both.ebb.follow(NS) if one.payload.get("event_id") == made]
    assert [one.actor_id for one in found] == ["local"]


def test_roles_are_what_this_test_takes_them_for():
    assert set(MAY) == set(Role)


def test_no_named_query_tells_of_other_namespaces(served):
    """Whoever has a namespace in which nothing happened is told nothing by any of them."""
    empty = served.client(served.ebb.create_token("auditor", namespace="empty").token)
    served.ebb.organise()
    told = 0
    for query in served.ebb.audit_queries():
        answer = empty.get(f"/v1/audit/{query.name}").json()
        values = [value for row in answer["rows"] for value in row]
        assert not [one for one in values if isinstance(one, int | float) and one != 0], query.name
        assert not {NS, "tom", f"{NS} lives in London.", "home-1"} & set(map(str, values)), query.name
        told += bool(served.every["auditor"].get(f"/v1/audit/{query.name}").json()["rows"])
    assert told > 5, "the store has something to tell"
