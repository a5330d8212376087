"""The dashboard in a browser: every page is walked, nothing is asked of another host, and operators get things done."""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright
from tests.conftest import Clock, counted_entropy
from tests.service.furnished import NAMESPACE, SINKING, furnish

from ebbtide import Ebbtide
from ebbtide.service.http.app import application

QUIETLY = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SIZES = {"narrow": {"width": 390, "height": 844}, "wide": {"width": 1440, "height": 900}}
EACH = 2
"""So many pages of one kind are walked: there is one for each memory, run and so on."""


@pytest.fixture(scope="module")
def chromium():
    """A browser of the system."""
    found = os.environ.get("EBB_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.fail("the dashboard's tests need Chromium: apt-get install chromium, or set EBB_TEST_CHROMIUM to one")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=QUIETLY)
        yield browser
        browser.close()


class Served:
    """A store that is served, with a token for each of two roles."""

    def __init__(self, ebb: Ebbtide) -> None:
        self.ebb = ebb
        self.operator = ebb.create_token("operator", namespace=NAMESPACE, actor="olga").token
        self.reader = ebb.create_token("reader", namespace=NAMESPACE, actor="rhea").token
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.server = uvicorn.Server(uvicorn.Config(application(ebb), log_level="warning"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})

    def __enter__(self) -> Served:
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def served(request, make_url_for_module):
    clock = Clock()
    with Ebbtide.open(make_url_for_module(request.param), clock=clock, entropy=counted_entropy()) as ebb:
        furnish(ebb, clock)
        with Served(ebb) as found:
            yield found


class Walker:
    """One window: it notes whatever a page complains of, and whatever is asked of another host."""

    def __init__(self, browser, served, *, size="wide", scheme="light") -> None:
        self.served = served
        self.context = browser.new_context(
            viewport=SIZES[size], color_scheme=scheme, java_script_enabled=True, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", lambda said: self.wrong.append(f"{self.page.url}: {said.type} {said.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(f"{self.page.url}: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("request", self._asked)

    def _failed(self, request) -> None:
        # A browser leaves off loading a page that turns out to be a download.
        if request.failure != "net::ERR_ABORTED":
            self.wrong.append(f"failed: {request.url} {request.failure}")

    def _asked(self, request) -> None:
        if not request.url.startswith((self.served.url, "data:")):
            self.wrong.append(f"another host: {request.url}")

    def sign_in(self, token):
        self.page.goto(self.served.url)
        expect(self.page.get_by_role("heading", name="Ebbtide")).to_be_visible()
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("heading", level=1)).to_have_text(NAMESPACE)
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.wrong == []


@pytest.fixture
def walker(chromium, served):
    """Windows that are closed in the end, with nothing wrong in any of them."""
    opened: list[Walker] = []

    def one(**options):
        opened.append(Walker(chromium, served, **options))
        return opened[-1]

    yield one
    for window in opened:
        window.close()


def kind(url: str) -> str:
    """Pages that are made by the same template: ids and names in the path do not matter."""
    parts = urlsplit(url)
    path = re.sub(r"[0-9a-f-]{36}", "ID", parts.path)
    path = re.sub(r"^/(policies|audit)/(?!diff|simulate)[^/]+", r"/\1/ONE", path)
    return path + "".join(f"?{name}" for name in ("cursor", "ask") if f"{name}=" in parts.query)


def walked(walker):
    """Every page that a link leads to, from the overview on, some of each kind; each is open when it is yielded."""
    page, base = walker.page, walker.served.url
    pending, seen, kinds = [f"{base}/"], set(), {}
    pending += [f"{base}/policies/diff?a=default@1.0.0&b=permastore@1.0.0"]
    pending += [f"{base}/policies/simulate?policy=slower@1.0.0&until=2026-10-01"]
    pending += [f"{base}/corrections?replaced=default@1.0.0&by=slower@1.0.0"]
    pending += [f"{base}/audit/transitions?days=90&ask=yes"]
    while pending:
        url = pending.pop(0)
        if url in seen or kinds.get(kind(url), 0) == EACH:
            continue
        seen.add(url)
        kinds[kind(url)] = kinds.get(kind(url), 0) + 1
        assert page.goto(url).status == 200, url
        yield url
        for link in page.evaluate("[...document.links].map(link => link.href)"):
            there = urlsplit(link)._replace(fragment="").geturl()
            assert there.startswith(base), there
            if not re.search(r"/(csv|parquet)(\?|$)", there):
                pending.append(there)


def serious(page):
    """What axe-core calls serious, or worse, of a page."""
    found = Axe().run(page).response["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


EVERY_KIND = {
    *("/", "/memories", "/memories/ID", "/memories/ID/erase", "/runs", "/runs/ID", "/policies", "/policies/ONE"),
    *(
        "/policies/diff",
        "/policies/simulate",
        "/corrections",
        "/audit",
        "/audit/ONE",
        "/audit/ONE?ask",
        "/memories?cursor",
    ),
}


@pytest.mark.parametrize(("size", "scheme"), [("wide", "light"), ("narrow", "dark")])
def test_every_page_is_sound_and_usable_by_everyone(walker, served, size, scheme):
    """Nothing to complain of, nothing wider than the window, one heading, and no violation that axe calls serious."""
    window = walker(size=size, scheme=scheme)
    page, met = window.sign_in(served.operator), set()
    for url in walked(window):
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{url} is too wide"
        assert page.get_by_role("heading", level=1).count() == 1, url
        for drawing in page.get_by_role("img").all():
            assert drawing.get_attribute("aria-labelledby"), url
        if kind(url) not in met:
            page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            assert serious(page) == [], url
        met.add(kind(url))
    assert met >= EVERY_KIND


def test_the_door_is_usable_and_says_what_is_wrong(walker, served):
    window = walker(size="narrow")
    page = window.page
    page.goto(f"{served.url}/memories?which=all")
    assert [
        one["id"] for one in Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")
    ] == []
    page.get_by_label("Token").fill("ebb_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("opens nothing here")
    # The browser says of every answer that is none of 2xx that it failed to load: that one was wanted.
    assert [one for one in window.wrong if "401" not in one] == []
    window.wrong.clear()
    page.get_by_label("Token").fill(served.reader)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Memories")
    assert page.url == f"{served.url}/memories?which=all"
    assert page.context.cookies()[0]["httpOnly"]
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.goto(served.url)
    assert page.url == f"{served.url}/login"


def test_everything_is_reached_by_the_keyboard(walker, served):
    """The first stop skips to the page; every stop can be seen, and there is no trap."""
    page = walker().sign_in(served.operator)
    page.goto(f"{served.url}/memories")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    stops = []
    for _ in range(14):
        page.keyboard.press("Tab")
        where = page.evaluate(
            "() => { const one = document.activeElement, style = getComputedStyle(one);"
            " return [one.textContent.trim() || one.name, style.outlineStyle !== 'none']; }"
        )
        stops.append(where)
    assert all(seen for _, seen in stops)
    assert [name for name, _ in stops][:8] == [
        *("Ebbtide", "Overview", "Memories", "Policies", "Runs", "Corrections", "Audit", "Sign out")
    ]


def test_an_operator_finds_and_pins_a_memory(walker, served):
    page = walker().sign_in(served.operator)
    page.get_by_role("link", name="Memories", exact=True).click()
    page.get_by_label("Find").fill("lisbon")
    page.get_by_label("Show").select_option("all memories")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name="Maya lives in Lisbon.").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Maya lives in Lisbon.")
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Pinned")
    assert served.ebb.memory("home", namespace=NAMESPACE).pinned
    page.get_by_text("Suppress", exact=True).first.click()
    page.get_by_label("Until").fill("2026-12-24T18:30")
    page.locator("form.filters").get_by_role("button", name="Suppress").click()
    expect(page.get_by_role("status")).to_contain_text("Suppressed")
    (found,) = served.ebb.explain("home", namespace=NAMESPACE).flags.suppressions
    assert (str(found.expires_at), found.suppressed_by) == ("2026-12-24 18:30:00+00:00", "olga")
    page.get_by_role("button", name="End the suppression").click()
    expect(page.get_by_role("button", name="Unpin")).to_be_visible()
    assert not served.ebb.memory("home", namespace=NAMESPACE).suppressed


def test_an_operator_approves_a_held_run(walker, served):
    page = walker(size="narrow").sign_in(served.operator)
    (run,) = [one for one in served.ebb.runs(namespace=NAMESPACE) if one.status == "held"]
    held = page.get_by_role("region", name="Held run")
    expect(held).to_contain_text(f"{SINKING} of ")
    held.get_by_role("link", name="Look at it").click()
    assert page.url == f"{served.url}/runs/{run.run_id}"
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status")).to_contain_text("Approved")
    assert served.ebb.run(run.run_id).status == "done"
    gone = served.ebb.history("sinks-7", namespace=NAMESPACE)[-1]
    assert gone.lifecycle_state in ("ARCHIVED", "DEPRECATED")
    page.goto(served.url)
    expect(page.get_by_role("region", name="Held run")).to_have_count(0)


def test_an_operator_erases_with_confirmation(walker, served, tmp_path):
    page = walker().sign_in(served.operator)
    wanted = served.ebb.memory("spoken", namespace=NAMESPACE).id
    page.goto(f"{served.url}/memories/{wanted}")
    page.get_by_role("link", name="Erase…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Erase this memory?")
    page.get_by_role("link", name="Keep it").click()
    assert served.ebb.memory(wanted, namespace=NAMESPACE).erased_at is None
    page.get_by_role("link", name="Erase…").click()
    page.get_by_role("button", name="Erase for good").click()
    expect(page.get_by_role("status")).to_contain_text("1 memory")
    assert served.ebb.memory(wanted, namespace=NAMESPACE).erased_at is not None
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the receipt").click()
    file = tmp_path / "receipt.json"
    download.value.save_as(file)
    assert served.ebb.verify(namespace=NAMESPACE, receipt=file).ok
    page.goto(f"{served.url}/memories/{wanted}")
    expect(page.get_by_role("heading", level=1)).to_have_text("What it said is gone")
    expect(page.get_by_role("link", name="Erase…")).to_have_count(0)
