"""What docs/http.md shows of curl is what happens: its commands against a real server, its roles and its routes."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from string import Template

import httpx
from tests.service.serving import listener
from tests.test_docs import DOCS, blocks, folder, same, section, session

from ebbtide import Ebbtide
from ebbtide.access.rights import Role
from ebbtide.service.http.app import application

__all__ = ["folder"]
PAGE = DOCS / "http.md"


def curl(command: str, variables: dict[str, str]) -> str:
    """What the command prints: as much of curl as the page uses."""
    known = argparse.ArgumentParser()
    known.add_argument("url")
    known.add_argument("-s", action="store_true")
    known.add_argument("-o", type=Path)
    known.add_argument("-X", default="GET")
    known.add_argument("-H", action="append", default=[])
    known.add_argument("-d", "--data-binary", dest="data")
    asked = known.parse_args(shlex.split(Template(command).substitute(variables))[1:])
    data = asked.data
    if data is not None:
        data = Path(data[1:]).read_bytes() if data.startswith("@") else data.encode()
    headers = dict(one.split(": ", 1) for one in asked.H)
    method = asked.X if data is None else "POST"
    answer = httpx.request(method, asked.url, headers=headers, content=data, timeout=60)
    if asked.o is not None:
        asked.o.write_bytes(answer.content)
        return ""
    return answer.text


def test_what_the_page_shows_is_what_happens(folder: Path, make_url_for):
    with Ebbtide.open(make_url_for("postgresql")) as ebb, listener(ebb) as at:
        token = ebb.create_token("operator", namespace="maya", actor="assistant").token
        done = 0
        for block in blocks(PAGE):
            if block.file:
                (folder / block.file).write_text(block.text, encoding="utf-8")
            for step in session(block.text) if block.language == "console" else ():
                printed = curl(step.command, {"EBB": at, "TOKEN": token})
                assert not step.shown or same(step.shown, printed), f"{block.line}: {step.command}\n{printed}"
                done += 1
        assert done > 7


def test_every_route_is_on_the_page(make_url_for):
    page = PAGE.read_text(encoding="utf-8")
    with Ebbtide.open(make_url_for("duckdb")) as ebb:
        paths = application(ebb).openapi()["paths"]
    for path in paths:
        short = path.removeprefix("/v1/namespaces/{namespace}/").removeprefix("/v1/")
        action = re.fullmatch(r"memories/{obj}/(\w+)", short)
        assert f"`{action[1] if action else short}" in page, path


def test_every_role_is_on_the_page():
    rows = re.findall(r"^\| `(\w+)` \|", section(PAGE, "Tokens"), re.MULTILINE)
    assert set(rows) == set(Role)
