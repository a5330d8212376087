"""Who gets in, and what a page, a form and a cookie may do: the dashboard without a browser."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from starlette.testclient import TestClient
from tests.conftest import Clock, counted_entropy
from tests.service.furnished import NAMESPACE, SPOKEN, furnish

from ebbtide import Ebbtide
from ebbtide.service.http.app import application
from ebbtide.service.pages.sessions import COOKIE, IDLE, Sessions
from ebbtide.service.pages.visit import HEADERS, local

POLICY = HEADERS["Content-Security-Policy"]


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def store(request, make_url_for_module):
    """An open store with a token of each role; a new one for each database."""
    clock = Clock()
    with Ebbtide.open(make_url_for_module(request.param), clock=clock, entropy=counted_entropy()) as ebb:
        furnish(ebb, clock)
        ebb.tokens_of = {
            role: ebb.create_token(role, namespace=NAMESPACE, actor=f"the-{role}").token
            for role in ("reader", "writer", "operator", "auditor")
        }
        ebb.tokens_of["every"] = ebb.create_token("operator", every_namespace=True).token
        ebb.app = application(ebb)
        yield ebb


def client(store, **more):
    return TestClient(store.app, follow_redirects=False, **more)


def signed_in(store, role="operator", **more):
    browser = client(store, **more)
    answer = browser.post("/login", data={"token": store.tokens_of[role], "next": "/"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return browser


def csrf(page):
    return re.search(r'name="csrf" value="([^"]+)"', page.text)[1]


def id_of(store, ref, namespace=NAMESPACE):
    return store.memory(ref, namespace=namespace).id


PAGES = (
    "/",
    "/?days=7",
    "/memories",
    "/memories?which=all&lifecycle_state=DEPRECATED",
    "/memories?text=tolly",
    "/policies",
    "/policies/default@1.0.0",
    "/policies/diff?a=default@1.0.0&b=permastore@1.0.0",
    "/policies/simulate?policy=archivist@1.0.0&until=2026-09-01",
    "/runs",
    "/corrections",
    "/corrections?replaced=default@1.0.0&by=slower@1.0.0",
    "/audit",
    "/audit/transitions",
    "/audit/transitions?days=90",
)


def test_without_a_token_there_is_nothing_but_the_door(store):
    browser = client(store)
    for path in (*PAGES, f"/memories/{id_of(store, 'home')}", "/receipt"):
        answer = browser.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login")
        assert not answer.content
        assert "set-cookie" not in answer.headers
    assert browser.post(f"/memories/{id_of(store, 'home')}/pin").headers["location"] == "/login"
    assert browser.get("/login").status_code == 200
    for wrong in ("", "ebb_nonsense", store.tokens_of["reader"][:-2] + "xx", "ebb_" + "é" * 9):
        answer = browser.post("/login", data={"token": wrong})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert wrong[4:] == "" or wrong not in answer.text


def test_the_cookie_is_read_by_no_script_and_sent_by_no_other_site(store):
    answer = client(store).post("/login", data={"token": store.tokens_of["reader"]})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert store.tokens_of["reader"] not in cookie
    answer = client(store, base_url="https://testserver").post("/login", data={"token": store.tokens_of["reader"]})
    assert "Secure" in answer.headers["set-cookie"].split("; ")


def test_signing_in_leads_nowhere_else(store):
    elsewhere = ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:evil()", "\t//evil.example")
    for there in elsewhere:
        answer = client(store).post("/login", data={"token": store.tokens_of["reader"], "next": there})
        assert answer.headers["location"] == "/"
        assert not local(there)
        assert "evil" not in client(store).get("/login", params={"next": there}).text
    answer = client(store).get("/memories?which=all")
    assert answer.headers["location"] == "/login?next=%2Fmemories%3Fwhich%3Dall"
    assert "/memories?which=all" in unescape(client(store).get(answer.headers["location"]).text)


def test_every_page_is_made_under_a_strict_policy(store):
    browser = signed_in(store)
    paths = [*PAGES, f"/memories/{id_of(store, 'spoken')}", f"/memories/{id_of(store, 'home')}/erase", "/nowhere/else"]
    for path in paths:
        page = browser.get(path)
        assert page.status_code == (404 if path == "/nowhere/else" else 200), (path, page.text[-500:])
        if page.status_code == 404:
            continue
        assert page.headers["content-security-policy"] == POLICY
        assert page.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in POLICY
        assert "unsafe" not in POLICY
        for forbidden in ("<script", "<style", ' style="', "javascript:", "<b>Maya"):
            assert forbidden not in page.text, (path, forbidden)
        assert not re.findall(r"\son\w+=", re.sub(r">[^<]*<", "><", page.text))
        assert not re.findall(r'(?:src|href|action)="(?!/|#)', page.text)
        assert store.tokens_of["operator"] not in page.text
    assert unescape(re.search(r"<h1[^>]*>(.*?)</h1>", browser.get(paths[-3]).text)[1]) == SPOKEN


def test_a_form_from_elsewhere_does_nothing(store):
    browser = signed_in(store, "writer")
    home = id_of(store, "home")
    good = csrf(browser.get(f"/memories/{home}"))
    other = csrf(signed_in(store, "writer").get(f"/memories/{home}"))
    version = store.memory(home, namespace=NAMESPACE).version
    for form, headers in (
        ({}, {}),
        ({"csrf": ""}, {}),
        ({"csrf": "é"}, {}),
        ({"csrf": other}, {}),
        ({"csrf": good}, {"origin": "https://evil.example"}),
        ({"csrf": good}, {"origin": "null"}),
        ({"csrf": good}, {"origin": "http://testserver.evil.example"}),
        ({"csrf": good}, {"sec-fetch-site": "cross-site"}),
        ({"csrf": good}, {"sec-fetch-site": "same-site"}),
    ):
        answer = browser.post(f"/memories/{home}/pin", data=form, headers=headers)
        assert answer.status_code == 403, (form, headers)
    assert browser.get(f"/memories/{home}/pin").status_code == 405
    foreign = client(store).post("/login", data={"token": good}, headers={"origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert store.memory(home, namespace=NAMESPACE).version == version
    from_here = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}
    answer = browser.post(f"/memories/{home}/pin", data={"csrf": good}, headers=from_here)
    assert answer.headers["location"] == f"/memories/{home}"
    assert store.memory(home, namespace=NAMESPACE).pinned
    assert store.history(home)[-1].actor_id == "the-writer"
    assert "Pinned" in browser.get(f"/memories/{home}").text
    assert browser.post(f"/memories/{home}/unpin", data={"csrf": good}).status_code == 303
    assert not store.memory(home, namespace=NAMESPACE).pinned


def test_what_another_was_first_with_is_said(store):
    browser = signed_in(store, "writer")
    page = f"/memories/{id_of(store, 'home')}"
    form = {"csrf": csrf(browser.get(page)), "version": "1", "back": page}
    answer = browser.post(f"{page}/hold", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, page)
    told = browser.get(page).text
    assert 'class="note refused"' in told
    assert 'class="note refused"' not in browser.get(page).text
    assert not store.memory("home", namespace=NAMESPACE).held
    answer = browser.post(f"{page}/hold", data={**form, "back": "//evil.example"})
    assert answer.status_code == 412


def test_another_namespace_is_not_there(store):
    """Be it there or not: the same answer, but for the name that was asked for."""
    browser = signed_in(store)
    theirs = id_of(store, "elsewhere", "other")
    for path in ("/", "/memories", "/runs", "/audit/transitions", "/corrections", f"/memories/{theirs}"):
        answers = [browser.get(path, params={"namespace": name}) for name in ("other", "never")]
        assert [one.status_code for one in answers] == [404, 404]
        assert answers[0].text.replace("other", "never") == answers[1].text
    assert browser.get(f"/memories/{theirs}").status_code == 404
    run = next(one for one in store.runs(namespace="other"))
    assert browser.get(f"/runs/{run.run_id}").status_code == 404
    form = {"csrf": csrf(browser.get("/")), "namespace": "other"}
    for path in (f"/memories/{theirs}/pin", f"/memories/{theirs}/erase", "/verify", f"/runs/{run.run_id}/approve"):
        assert browser.post(path, data=form).status_code == 404
    assert "secret" not in browser.get("/memories?which=all&text=secret").text.replace('value="secret"', "")
    everywhere = signed_in(store, "every")
    assert everywhere.get(f"/memories/{theirs}?namespace=other").status_code == 200
    assert "A secret of another." in everywhere.get("/memories?namespace=other&which=all").text
    assert everywhere.get("/?namespace=never").status_code == 404


def test_a_role_sees_and_does_what_it_may(store):
    home, held = id_of(store, "home"), next(one for one in store.runs(namespace=NAMESPACE) if one.status == "held")
    allowed = {
        "reader": {"/", "/memories", "/policies"},
        "writer": {"/", "/memories", "/policies", f"/memories/{home}/pin"},
        "auditor": {"/", "/memories", "/policies", "/runs", "/audit", "/corrections"},
    }
    for role, mine in allowed.items():
        browser = signed_in(store, role)
        token = csrf(browser.get("/"))
        for path in ("/", "/memories", "/policies", "/runs", "/audit", "/corrections", f"/memories/{home}/erase"):
            assert browser.get(path).status_code == (200 if path in mine else 403), (role, path)
        for path in (f"/memories/{home}/pin", f"/memories/{home}/erase", f"/runs/{held.run_id}/approve", "/verify"):
            expected = 303 if path in mine else 403
            assert browser.post(path, data={"csrf": token}).status_code == expected, (role, path)
        page = browser.get(f"/memories/{home}").text
        assert ("Erase…" in page, ">Hold<" in page) == (False, role == "writer")
        assert "Approve" not in browser.get("/").text
    assert store.run(held.run_id).status == "held"
    assert store.memory(home, namespace=NAMESPACE).erased_at is None


def test_a_token_that_has_ended_opens_nothing(store):
    made = store.create_token("reader", namespace=NAMESPACE)
    expires = datetime(2026, 3, 2, tzinfo=UTC) + timedelta(days=91)
    short = store.create_token("reader", namespace=NAMESPACE, expires_at=expires)
    store.tokens_of |= {"ends": made.token, "short": short.token}
    revoked, expired, left = signed_in(store, "ends"), signed_in(store, "short"), signed_in(store, "reader")
    assert [one.get("/").status_code for one in (revoked, expired, left)] == [200, 200, 200]
    store.revoke_token(made.id)
    assert revoked.get("/").headers["location"] == "/login"
    store._clock.forward(days=2)
    assert expired.get("/").headers["location"] == "/login"
    cookie = left.cookies[COOKIE]
    assert left.post("/logout", data={"csrf": csrf(left.get("/"))}).headers["location"] == "/login"
    assert client(store, cookies={COOKIE: cookie}).get("/").status_code == 303
    assert client(store, cookies={COOKIE: "guessed"}).get("/").status_code == 303


def test_a_session_that_nobody_uses_ends():
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    name, session = sessions.open("ebb_secret")
    assert "secret" not in repr(session)
    now[0] = IDLE - 1
    assert sessions.find(name) is session
    now[0] += IDLE
    assert sessions.find(name) is None
    assert sessions.find(None) is None
    assert sessions.open("a")[0] != sessions.open("a")[0]


def test_a_download_is_the_whole_answer(store):
    browser = signed_in(store, "auditor")
    answer = browser.get("/audit/transitions/csv?days=90")
    assert answer.headers["content-disposition"] == 'attachment; filename="transitions.csv"'
    rows = answer.text.splitlines()
    expected = store.audit("transitions", {"days": 90, "namespace": NAMESPACE})
    assert rows[0].split(",") == expected.columns
    assert len(rows) - 1 == len(expected.rows) > 0
    assert browser.get("/audit/transitions/parquet").content[:4] == b"PAR1"
    assert f"{len(expected.rows)} row" in browser.get("/audit/transitions?days=90&ask=yes").text
    assert "CSV" not in browser.get("/audit/transitions").text
    assert browser.get("/audit/transitions/exe").status_code == 404
    assert browser.get("/audit/nothing").status_code == 404
    assert browser.get("/audit/transitions?days=many").status_code == 422


def test_what_would_go_has_to_be_what_was_shown(store):
    """A confirmation is of exactly what a page showed; without it, or with a hold, nothing goes."""
    browser = signed_in(store)
    made = store.assert_memory("To go.", namespace=NAMESPACE, epistemic_type="ASSERTED", source_type="USER_STATED")
    page = browser.get(f"/memories/{made.id}/erase")
    shown = re.search(r'name="confirmation" value="([^"]+)"', page.text)[1]
    form = {"csrf": csrf(page), "confirmation": shown}
    assert browser.post(f"/memories/{made.id}/erase", data={**form, "confirmation": ""}).status_code == 409
    store.hold(made.id, namespace=NAMESPACE)
    assert browser.post(f"/memories/{made.id}/erase", data=form).status_code == 409
    store.release(made.id, namespace=NAMESPACE)
    answer = browser.post(f"/memories/{made.id}/erase", data=form)
    assert answer.status_code == 200
    assert store.memory(made.id, namespace=NAMESPACE).erased_at is not None
    receipt = browser.get("/receipt").json()
    assert receipt["objects"] == [str(made.id)]
    assert store.verify(namespace=NAMESPACE).ok
    assert signed_in(store).get("/receipt").status_code == 404


def test_a_correction_is_applied_as_it_was_shown(store):
    browser = signed_in(store)
    page = browser.get("/corrections?replaced=default@1.0.0&by=slower@1.0.0")
    names = ("csrf", "digest", "replaced", "by", "begins")
    asked = page.text[page.text.index('<form method="post" action="/corrections"') :]
    form = {name: re.search(rf'name="{name}" value="([^"]*)"', asked)[1] for name in names}
    assert browser.post("/corrections", data={**form, "digest": "0" * 64}).status_code == 409
    answer = browser.post("/corrections", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/corrections")
    assert "Applied: " in browser.get("/corrections").text
    assert store.memory("sinks-1", namespace=NAMESPACE).policy == "slower@1.0.0"
    assert store.history("sinks-1", namespace=NAMESPACE)[-1].actor_id == "the-operator"


def test_without_tokens_this_machine_is_answered_and_forms_are_guarded(store):
    app = application(store, insecure=True)
    browser = TestClient(app, base_url="http://127.0.0.1", follow_redirects=False)
    page = browser.get("/memories?namespace=maya")
    assert page.status_code == 200
    assert COOKIE in page.headers["set-cookie"]
    assert "set-cookie" not in browser.get("/").headers
    assert browser.get("/login").headers["location"] == "/"
    home = f"/memories/{id_of(store, 'home')}"
    form = {"namespace": NAMESPACE}
    assert browser.post(f"{home}/pin", data=form).status_code == 403
    form["csrf"] = csrf(browser.get(f"{home}?namespace=maya"))
    assert browser.post(f"{home}/pin", data=form).status_code == 303
    assert TestClient(app, base_url="http://evil.example").get("/").status_code == 403
