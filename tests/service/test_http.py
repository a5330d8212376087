"""The HTTP API: what a caller, an operator and an auditor may do, and how it is told what went wrong."""

from __future__ import annotations

import base64
import io
import json

import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select
from tests.conformance import ledger
from tests.service.serving import BELIEF, HERE, NS, problem, serving

from ebbtide.service.http import edge
from ebbtide.store.tables import event_log


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def whole(request, make_url_for_module):
    yield from serving(make_url_for_module(request.param))


@pytest.fixture
def served(request, whole):
    """The service. A connection kept open spares DuckDB from opening the file for each request."""
    if request.node.get_closest_marker("lets_go"):
        yield whole
    else:
        with whole.ebb.store.db.engine().connect():
            yield whole


@pytest.fixture
def writer(served):
    return served.mine["writer"]


@pytest.fixture
def operator(served):
    return served.mine["operator"]


def entries(served, namespace=NS) -> int:
    query = select(func.count()).select_from(event_log).where(event_log.c.namespace_id == namespace)
    with served.ebb.store.begin() as connection:
        return connection.execute(query).scalar_one()


def asserted(writer, value, **more):
    found = writer.post(f"{HERE}/memories", json={"value": value, **BELIEF, **more})
    assert found.status_code == 201, found.text
    return found


# Memories


def test_a_memory_is_asserted_read_and_listed(served, writer):
    made = asserted(writer, {"city": "Zürich"}, ref="r/1 ?#%", subject="zoe", salience=0.7)
    assert made.headers["ETag"] == '"1"'
    assert made.json()["duplicate"] is False
    path = f"{HERE}/memories/r%2F1%20%3F%23%25"
    one = writer.get(path)
    assert (one.status_code, one.headers["ETag"], one.json()["value"]) == (200, '"1"', {"city": "Zürich"})
    assert writer.get(made.headers["Location"]).json()["ref"] == "r/1 ?#%"
    (listed,) = writer.get(f"{HERE}/memories", params={"subject": "zoe"}).json()["memories"]
    assert listed["id"] == one.json()["id"]
    assert writer.get(f"{HERE}/memories", params={"text": "züRICH"}).json()["memories"][0]["subject"] == "zoe"


def test_what_is_said_again_is_the_one_that_is_there(writer):
    first = asserted(writer, "Said twice.").json()
    again = writer.post(f"{HERE}/memories", json={"value": "Said twice.", **BELIEF})
    assert (again.status_code, again.json()["duplicate"], again.json()["id"]) == (200, True, first["id"])


def test_every_action_is_a_post_whose_actor_is_the_tokens(served, writer):
    obj = f"{HERE}/memories/{asserted(writer, 'Acted upon.').json()['id']}"
    steps = [
        ("access", None, {}),
        ("reinforce", {"signal": "CONFIRMED", "session_id": "s1"}, {}),
        ("penalise", {"signal": "CORRECTED", "reason": "no"}, {}),
        ("pin", None, {"pinned": True}),
        ("unpin", {}, {"pinned": False}),
        ("hold", {"reason": "a case"}, {"held": True}),
        ("release", None, {"held": False}),
        ("suppress", {"expires_at": "2099-01-01T00:00:00Z", "freeze": True}, {"suppressed": True}),
        ("unsuppress", None, {"suppressed": False}),
        ("transition", {"to_type": "OBSERVED", "trigger_type": "user_correction"}, {"epistemic_type": "OBSERVED"}),
        ("archive", None, {"lifecycle_state": "ARCHIVED"}),
        ("restore", None, {"lifecycle_state": "ACTIVE"}),
    ]
    for version, (name, body, expected) in enumerate(steps, 2):
        done = writer.post(f"{obj}/{name}", json=body)
        assert done.status_code == 200, (name, done.text)
        assert done.headers["ETag"] == f'"{version}"', name
        assert expected.items() <= done.json().items(), name
    new = writer.post(f"{obj}/supersede", json={"value": "Acted upon, then replaced."}).json()
    assert writer.get(obj).json()["superseded_by"] == new["id"]
    assert writer.post(f"{HERE}/memories/{new['id']}/deprecate").json()["lifecycle_state"] == "DEPRECATED"
    told = writer.get(f"{obj}/history", params={"limit": 1000}).json()["entries"]
    assert {(one["actor_id"], one["actor_type"]) for one in told} == {("a-writer", "AI_AGENT")}
    maybe = {"value": "If it rains.", "epistemic_type": "CONDITIONAL", "source_type": "USER_STATED"}
    made = writer.post(f"{HERE}/memories", json=maybe).json()
    told = writer.post(f"{HERE}/memories/{made['id']}/condition", json={"condition": "TRUE"}).json()
    assert (told["condition"], told["eligible"]) == ("TRUE", True)


def test_of_two_writers_that_saw_the_same_version_the_second_loses(served, writer):
    obj = f"{HERE}/memories/{asserted(writer, 'Contended.').json()['id']}"
    seen = writer.get(obj).headers["ETag"]
    assert writer.post(f"{obj}/pin", headers={"If-Match": seen}).status_code == 200
    before = entries(served)
    lost = problem(writer.post(f"{obj}/unpin", headers={"If-Match": seen}), 412, "conflict")
    assert lost["rule"] == "expected_version"
    assert entries(served) == before
    assert writer.post(f"{obj}/unpin", headers={"If-Match": "*"}).status_code == 200
    for bad in ("3", 'W/"3"', '"x"', '"1", "2"', '"٣"'.encode()):
        assert problem(writer.post(f"{obj}/pin", headers={"If-Match": bad}), 422, "bad_input")["field"] == "If-Match"


def test_a_repeat_under_the_same_key_writes_nothing(served, writer):
    body = {"value": "Sent twice.", **BELIEF}
    first = writer.post(f"{HERE}/memories", json=body, headers={"Idempotency-Key": "k-1"})
    after = entries(served)
    again = writer.post(f"{HERE}/memories", json=body, headers={"Idempotency-Key": "k-1"})
    assert (again.status_code, again.json()) == (
        201,
        first.json() | {k: again.json()[k] for k in ("salience", "confidence")},
    )
    obj = f"{HERE}/memories/{first.json()['id']}/access"
    assert writer.post(obj, headers={"Idempotency-Key": "k-2"}).headers["ETag"] == '"2"'
    assert writer.post(obj, headers={"Idempotency-Key": "k-2"}).headers["ETag"] == '"2"'
    assert entries(served) == after + 1
    other = writer.post(f"{HERE}/memories", json=body | {"value": "Else."}, headers={"Idempotency-Key": "k-1"})
    assert problem(other, 409, "conflict")["rule"] == "idempotency_key"
    theirs = served.mine["operator"].post(obj, headers={"Idempotency-Key": "k-2"})
    assert theirs.headers["ETag"] == '"3"', "another actor's keys are its own"
    for bad in ("", "a b", "x" * 201, "é".encode()):
        answer = writer.post(obj, headers={"Idempotency-Key": bad})
        assert problem(answer, 422, "bad_input")["field"] == "Idempotency-Key"


def test_pages_cover_all_once_in_order(served, writer):
    for number in range(23):
        asserted(writer, f"Page {number}", subject="pages", salience=round(0.9 - 0.03 * (number % 7), 2))
    asked = {"subject": "pages", "limit": 5}
    seen, cursor, pages = [], None, 0
    while True:
        page = writer.get(f"{HERE}/memories", params=asked | ({} if cursor is None else {"cursor": cursor})).json()
        seen += page["memories"]
        pages += 1
        cursor = page["next"]
        if cursor is None:
            break
    assert (pages, len(seen), len({one["id"] for one in seen})) == (5, 23, 23)
    order = [(-one["salience"], one["created_at"]) for one in seen]
    assert [s for s, _ in order] == sorted(s for s, _ in order)
    whole = served.ebb.memories(namespace=NS)
    assert [one["id"] for one in seen] == [str(one.id) for one in whole if one.subject == "pages"]


def test_filters_are_of_words_flags_and_instants(writer):
    asserted(writer, "Likes tea.", object_type="PREFERENCE", subject="filters", decay_profile="SLOW")
    kept = asserted(writer, "Likes 100% coffee_.", subject="filters").json()
    writer.post(f"{HERE}/memories/{kept['id']}/archive")

    def found(**asked):
        return [
            one["value"]
            for one in writer.get(f"{HERE}/memories", params={"subject": "filters", **asked}).json()["memories"]
        ]

    assert found() == ["Likes tea."]
    assert set(found(all=True)) == {"Likes tea.", "Likes 100% coffee_."}
    assert found(all=True, lifecycle_state="ARCHIVED") == ["Likes 100% coffee_."]
    assert found(all=True, text="100% COFFEE_") == ["Likes 100% coffee_."]
    assert found(all=True, text="1__%") == []
    assert found(object_type="PREFERENCE", decay_profile="SLOW") == ["Likes tea."]
    assert found(pinned=True) == []
    assert found(as_of="2026-01-01T00:00:00Z", all=True) == []
    for forged in ("nonsense", "é", base64.urlsafe_b64encode(b'[0, NaN, 0, "' + b"0" * 32 + b'"]').decode()):
        asked = writer.get(f"{HERE}/memories", params={"cursor": forged})
        assert problem(asked, 422, "bad_input")["field"] == "cursor"
    assert problem(writer.get(f"{HERE}/memories", params={"limit": 1001}), 422, "bad_input")["field"] == "limit"
    assert problem(writer.get(f"{HERE}/memories", params={"colour": "red"}), 422, "bad_input")["field"] == "colour"


def test_history_and_log_are_paged(writer):
    obj = f"{HERE}/memories/{asserted(writer, 'With a history.').json()['id']}"
    for _ in range(4):
        writer.post(f"{obj}/access")
    first = writer.get(f"{obj}/history", params={"limit": 3}).json()
    rest = writer.get(f"{obj}/history", params={"limit": 3, "cursor": first["next"]}).json()
    assert [one["version"] for one in first["entries"] + rest["entries"]] == [1, 2, 3, 4, 5]
    assert rest["next"] is None
    log, cursor = [], "0"
    while page := writer.get(f"{HERE}/log", params={"limit": 7, "cursor": cursor}).json():
        log, cursor = log + page["entries"], page["next"]
        if not page["entries"]:
            break
    assert [one["seq"] for one in log] == list(range(1, len(log) + 1))
    told = writer.get(f"{obj}/explain").json()
    assert told["memory"]["value"] == "With a history."
    assert told["forecast"]


# Events, batches and what lies between memories


def test_a_batch_is_all_or_nothing_and_changes_nothing_twice(served, writer):
    lines = [
        {"op": "EVENT", "ref": "b-m1", "content": "I like jazz."},
        {"op": "ASSERT", "ref": "b-1", "object_type": "PREFERENCE", "value": "Jazz.", "evidence": ["b-m1"], **BELIEF},
        {"op": "REINFORCE", "object": "b-1", "signal": "CONFIRMED", "effective_at": "2026-03-01T00:00:00Z"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    assert writer.post(f"{HERE}/batches", content=text).json() == {"appended": 3, "unchanged": 0, "refused": []}
    assert writer.post(f"{HERE}/batches", content=text).json() == {"appended": 0, "unchanged": 3, "refused": []}
    assert writer.get(f"{HERE}/memories/b-1/history").json()["entries"][0]["actor_id"] == "a-writer"
    before = entries(served)
    bad = '{"op":"EVENT","ref":"b-m2","content":"x"}\n{"op":"PIN","object":"nothing","ref":"b-2"}\n'
    told = problem(writer.post(f"{HERE}/batches", content=bad), 404, "not_found")
    assert told["line"] == 2
    assert entries(served) == before
    partly = writer.post(f"{HERE}/batches", params={"keep_going": True}, content=bad).json()
    assert (partly["appended"], [one["line"] for one in partly["refused"]]) == (1, [2])


@pytest.mark.parametrize("member", [{"namespace": "tom"}, {"actor_id": "root"}, {"actor_type": "HUMAN_USER"}])
def test_no_line_speaks_for_another(served, writer, member):
    before = entries(served), entries(served, "tom")
    line = {"op": "EVENT", "ref": "forged", "content": "x"} | member
    told = problem(writer.post(f"{HERE}/batches", content=json.dumps(line)), 422, "bad_input")
    assert (told["field"], told["line"]) == (next(iter(member)), 1)
    assert (entries(served), entries(served, "tom")) == before
    assert problem(writer.post(f"{HERE}/events", json={"content": "x"} | member), 422, "bad_input")


def test_entities_relations_contradictions_and_filters(writer):
    a, b = (asserted(writer, value).json()["id"] for value in ("It is blue.", "It is red."))
    for path, body in (
        ("entities", {"entity_type": "PERSON", "canonical_name": "Tom", "ref": "e-tom"}),
        ("entities", {"entity_type": "PERSON", "canonical_name": "Tommy", "ref": "e-tommy"}),
        ("entities/merge", {"primary": "e-tom", "merged": "e-tommy"}),
        ("relations", {"source": a, "edge_type": "ABOUT", "target": "e-tom", "confidence": 0.5}),
        ("contradictions", {"object_a": a, "object_b": b, "conflict_description": "two colours"}),
        ("suppressions", {"subject": "colours", "reason": "quiet"}),
        ("suppressions/end", {"subject": "colours"}),
        ("events", {"content": {"tool": "said"}, "stream": "tools", "role": "TOOL"}),
    ):
        made = writer.post(f"{HERE}/{path}", json=body)
        assert (made.status_code, made.json()["unchanged"]) == (201, False), made.text


def test_ranking_and_following(writer):
    first = asserted(writer, "To be found.", ref="f-1").json()
    asserted(writer, "To be dropped.", ref="f-2")
    writer.post(f"{HERE}/memories/f-2/archive")
    found = [
        {"object": "f-1", "similarity": 0.9},
        {"object": "f-2", "similarity": 0.8},
        {"object": "f-3", "similarity": 1},
    ]
    ranked = writer.post(f"{HERE}/rank", json={"candidates": found}).json()
    assert [one["memory"]["id"] for one in ranked["ranked"]] == [first["id"]]
    assert {(one["object"], one["reason"]) for one in ranked["withheld"]} == {("f-2", "archived"), ("f-3", "unknown")}
    gone = writer.get(f"{HERE}/evictions/vectors%2F1").json()
    assert "f-2" in {one["ref"] for one in gone["evictions"]}
    assert writer.post(f"{HERE}/evictions/vectors%2F1", json={"position": gone["position"]}).status_code == 204
    assert writer.get(f"{HERE}/evictions/vectors%2F1").json()["evictions"] == []


# Erasing


@pytest.mark.lets_go
def test_an_erasure_takes_exactly_what_was_shown(served, operator):
    for value in ("Private 1.", "Private 2."):
        asserted(operator, value, subject="gone")
    what = {"subject": "gone"}
    before = entries(served)
    shown = operator.post(f"{HERE}/erase/preview", json=what).json()
    assert shown["erased"] == {"objects": 2, "events": 0, "contents": 2}
    assert shown == operator.post(f"{HERE}/erase/preview", json=what).json()
    assert entries(served) == before
    asserted(operator, "Private 3.", subject="gone")
    late = operator.post(f"{HERE}/erase", json=what | {"confirmation": shown["confirmation"], "scrub": False})
    assert problem(late, 409, "conflict")["rule"] == "confirmation"
    assert len(operator.get(f"{HERE}/memories", params=what).json()["memories"]) == 3
    shown = operator.post(f"{HERE}/erase/preview", json=what).json()
    receipt = operator.post(f"{HERE}/erase", json=what | {"confirmation": shown["confirmation"]}).json()
    assert (receipt["erased"], len(receipt["tombstones"])) == ({"objects": 3, "events": 0, "contents": 3}, 3)
    assert operator.get(f"{HERE}/memories", params=what | {"all": True}).json()["memories"][0]["value"] is None
    problem(operator.post(f"{HERE}/erase", json=what | {"confirmation": shown["confirmation"]}), 404, "not_found")
    assert operator.post("/v1/verify", json={"receipt": receipt}).json()["ok"] is True


@pytest.mark.lets_go
def test_what_is_held_is_not_erased_and_the_refusal_is_kept(served, operator):
    asserted(operator, "Evidence.", ref="held-1")
    operator.post(f"{HERE}/memories/held-1/hold")
    told = problem(operator.post(f"{HERE}/erase/preview", json={"objects": ["held-1"]}), 409, "refused")
    assert (told["rule"], told["object"]) == ("held", "held-1")
    rows = operator.get("/v1/audit/refusals").json()
    assert "columns" in rows, rows
    place = rows["columns"].index("rule")
    assert "held" in {row[place] for row in rows["rows"]}
    for bad in ({}, {"subject": "a", "everything": True}, {"objects": ["held-1"], "subject": "a"}):
        assert problem(operator.post(f"{HERE}/erase/preview", json=bad), 422, "bad_input")["field"] == "object"


# Policies, runs, corrections, audit, proof


def test_policies_are_registered_compared_assigned_and_corrected(served):
    every = served.operator
    document = every.get("/v1/policies/default%401.0.0").json()
    corrected = document | {"version": "1.0.1", "params": document["params"] | {"rho": 0.2}}
    assert every.post("/v1/policies", json=corrected).json() == {"policy": "default@1.0.1", "registered": True}
    assert every.post("/v1/policies", json=corrected).json()["registered"] is False
    clash = every.post("/v1/policies", json=corrected | {"note": "another"})
    assert problem(clash, 409, "conflict")["rule"] == "policy_immutable"
    wrong = every.post("/v1/policies", json=corrected | {"version": "1.0.2", "params": {"mu_multiplier": -1}})
    assert problem(wrong, 422, "bad_input")["field"] == "params.mu_multiplier"
    assert "default@1.0.1" in {one["policy"] for one in every.get("/v1/policies").json()["policies"]}
    differs = every.get("/v1/policies/default@1.0.0/diff", params={"to": "default@1.0.1"}).json()
    assert [one["path"] for one in differs["parameters"]] == ["rho"]
    tom = served.theirs["operator"]
    tom.post("/v1/namespaces/tom/memories/home-1/reinforce", json={"signal": "CONFIRMED"})
    simulated = tom.post("/v1/simulations", json={"policy": "archivist@1.0.0", "against": corrected}).json()
    assert (simulated["namespace_id"], simulated["active"]) == ("tom", 1)
    correction = {"replace": "default@1.0.0", "with": "default@1.0.1"}
    plan = tom.post("/v1/replays/plan", json=correction).json()
    assert (plan["objects"], plan["changed"]) == (1, 1)
    wrong = tom.post("/v1/replays/apply", json=correction | {"digest": "0" * 64})
    assert problem(wrong, 409, "conflict")["rule"] == "plan_outdated"
    applied = tom.post("/v1/replays/apply", json=correction | {"digest": plan["digest"]}).json()
    assert applied["changed"] == 1
    assert tom.post("/v1/replays/plan", json=correction).json()["changed"] == 0
    assigned = tom.post("/v1/namespaces/tom/policy", json={"policy": "archivist@1.0.0"}).json()
    assert assigned == {"policy": "archivist@1.0.0", "namespace_id": "tom", "changed": 1}
    assert tom.get("/v1/namespaces/tom/memories/home-1").json()["policy"] == "archivist@1.0.0"


@pytest.mark.lets_go
def test_named_queries_in_three_forms(served):
    auditor = served.mine["auditor"]
    names = {one["name"] for one in auditor.get("/v1/audit").json()["queries"]}
    assert {"transitions", "at_risk"} <= names
    rows = auditor.get("/v1/audit/marks", params={"days": 4000}).json()
    table = pq.read_table(
        io.BytesIO(
            auditor.get(
                "/v1/audit/marks", params={"days": 4000}, headers={"Accept": "application/vnd.apache.parquet"}
            ).content
        )
    )
    csv = auditor.get("/v1/audit/marks", params={"days": 4000}, headers={"Accept": "text/csv;q=0.9, image/png"})
    assert csv.headers["content-type"].startswith("text/csv")
    assert csv.text.splitlines()[0].split(",") == rows["columns"] == table.column_names
    assert len(csv.text.splitlines()) - 1 == len(rows["rows"]) == table.num_rows > 0
    assert {row[rows["columns"].index("namespace_id")] for row in rows["rows"]} == {NS}
    refused = auditor.get("/v1/audit/marks", headers={"Accept": "image/png"})
    problem(refused, 406, "not_acceptable")
    assert problem(auditor.get("/v1/audit/marks", params={"days": "x"}), 422, "bad_input")["field"] == "days"
    assert problem(auditor.get("/v1/audit/marks", params={"colour": "x"}), 422, "bad_input")["field"] == "colour"
    problem(auditor.get("/v1/audit/marks?days=1&days=2"), 422, "bad_input")
    problem(auditor.get("/v1/audit/nothing"), 404, "not_found")


def test_proof_by_itself_and_against_what_was_kept(served, operator):
    kept = operator.get("/v1/digest").json()
    assert [head["namespace_id"] for head in kept["heads"]] == [NS]
    asserted(operator, "One more.")
    told = operator.post("/v1/verify", json={"digest": kept, "record": True}).json()
    assert (told["ok"], told["recorded"]) == (True, [NS])
    forged = kept | {"heads": [kept["heads"][0] | {"hash": "0" * 64}]}
    told = operator.post("/v1/verify", json={"digest": forged}).json()
    assert (told["ok"], told["first_bad"]["namespace_id"]) == (False, NS)
    proof = operator.get(f"{HERE}/proofs/1").json()
    assert proof["entry"]["namespace_id"] == NS
    assert operator.get("/v1/verify").json()["ok"] is True
    auditor = served.mine["auditor"]
    assert auditor.post("/v1/verify", json={}).json()["ok"] is True
    problem(auditor.post("/v1/verify", json={"record": True}), 403, "forbidden")


def test_no_namespace_is_broken_by_any_of_it(served):
    for name in (NS, "tom"):
        ledger.check(served.ebb, name)


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_the_first_and_the_last_instant_can_be_asked_for(served, when):
    auditor = served.mine["auditor"]
    for name in ("as_of", "known_at"):
        for path in ("/v1/status", f"{HERE}/memories", f"{HERE}/memories/home-1", f"{HERE}/memories/home-1/explain"):
            answer = auditor.get(path, params={name: when})
            assert answer.status_code in (200, 404), (path, answer.text)


# What is refused before any route


def test_bodies_and_lines_are_bounded(writer):
    line = json.dumps({"op": "EVENT", "ref": "long", "content": "x" * (1 << 20)})
    told = problem(writer.post(f"{HERE}/batches", content=line), 422, "bad_input")
    assert told["line"] == 1
    whole = b"\n" * (edge.LARGEST_BODY + 1)
    problem(writer.post(f"{HERE}/batches", content=whole), 413, "too_large")
    parts = (whole[: 1 << 20] for _ in range(17))
    problem(writer.post(f"{HERE}/batches", content=parts), 413, "too_large")
    problem(writer.post(f"{HERE}/events", content=(whole[: 1 << 20] for _ in range(17))), 413, "too_large")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"[]", "body"),
        (b"{", "body"),
        (b'{"content": "\\ud800"}', "content"),
        (b'{"content": "a\\u0000b"}', "content"),
        (b'{"content": null}', "content"),
        (b'{"content": NaN}', "content"),
        (b'{"content": 1, "\\ud800": 2}', "body"),
        (b'{"content": 1, "stream": ""}', "stream"),
        (b'{"content": 1, "stream": "a\\nb"}', "stream"),
        (b'{"content": 1, "effective_at": "2026-01-01"}', "effective_at"),
        (b'{"content": 1, "effective_at": "2999-01-01T00:00:00Z"}', "effective_at"),
        (b'{"content": 1, "role": "KING"}', "role"),
        (b'{"content": 1, "metadata": {"a": "\\u0000"}}', "metadata.a"),
        (b'{"content": ' + b"[" * 400 + b"]" * 400 + b"}", None),
        (b'{"content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
        (b'{"content": ' + b"9" * 5000 + b"}", None),
    ],
)
def test_what_is_no_request_is_refused_with_its_field(served, writer, body, field):
    before = entries(served)
    answer = writer.post(f"{HERE}/events", content=body, headers={"Content-Type": "application/json"})
    if field is None:
        assert answer.status_code in (201, 400, 422)
        return
    assert problem(answer, 422, "bad_input")["field"] == field
    assert entries(served) == before


def test_names_that_nothing_can_bear_are_refused(served, writer):
    for name in ("%00", "%FF", "%20", "x" * 256, "%ED%A0%80"):
        assert problem(writer.get(f"{HERE}/memories/{name}"), 422, "bad_input")["field"] == "object"
    for name in ("%00", "%FF", "%20", "x" * 256):
        answer = served.operator.get(f"/v1/namespaces/{name}/tokens")
        assert problem(answer, 422, "bad_input")["field"] == "namespace"
    problem(writer.get(f"{HERE}/memories/nothing"), 404, "not_found")
    problem(writer.get("/v1/nothing"), 404, "not_found")
    answer = writer.delete(f"{HERE}/memories")
    problem(answer, 405, "method_not_allowed")
    assert answer.headers["Allow"] == "GET, POST"


def test_every_answer_is_private_and_there_is_no_cors(served, writer):
    for answer in (
        writer.get(f"{HERE}/memories", headers={"Origin": "https://elsewhere.example"}),
        served.client().get(f"{HERE}/memories"),
        writer.options(
            f"{HERE}/memories", headers={"Origin": "https://x.example", "Access-Control-Request-Method": "POST"}
        ),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_an_error_of_the_service_itself_tells_nothing(served, writer, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a secret")

    monkeypatch.setattr(served.ebb, "memory", broken)
    told = problem(writer.get(f"{HERE}/memories/home-1"), 500, "internal")
    assert "secret" not in json.dumps(told)
