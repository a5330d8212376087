"""Draws the pictures of docs/dashboard.md: python -m tests.service.pictures (it needs Chromium and some minutes).

From examples/maya.jsonl, as it is at the end of November 2026.
"""

from __future__ import annotations

import re
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from ebbtide import Ebbtide
from ebbtide.model import instant
from ebbtide.service.http.app import application

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "maya.jsonl"
PICTURES = (
    ("overview", "/", 1440, 1180, "light"),
    ("memory", "/memories/{style-3}", 1440, 1000, "dark"),
    ("phone", "/memories/{task-dentist}", 390, 844, "light"),
    ("simulate", "/policies/simulate?policy=archivist@1.0.0", 1440, 900, "light"),
    ("corrections", "/corrections?replaced=default@1.0.0&by=archivist@1.0.0", 1440, 900, "dark"),
)


def main() -> None:
    at = instant.parse("2026-11-30T16:00:00Z")
    with tempfile.TemporaryDirectory() as folder, Ebbtide.open(f"duckdb:///{folder}/m.duckdb", clock=lambda: at) as ebb:
        with SAMPLE.open("rb") as lines:
            ebb.ingest(lines, SAMPLE.name, walk=True)
        ebb.organise()
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(application(ebb, insecure=True), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.1)
        draw(ebb, f"http://127.0.0.1:{listening.getsockname()[1]}")
        server.should_exit = True
        thread.join()


def draw(ebb: Ebbtide, base: str) -> None:
    refs = {one.ref: str(one.id) for one in ebb.memories(namespace="maya", everything=True)}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, path, width, height, scheme in PICTURES:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(base + re.sub(r"\{([\w-]+)\}", lambda ref: refs[ref[1]], path))
            file = ROOT / "docs" / "pictures" / f"dashboard-{name}.png"
            page.screenshot(path=file)
            Image.open(file).convert("P", palette=Image.Palette.ADAPTIVE, colors=255).save(file, optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
