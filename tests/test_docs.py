"""The documentation is true: what it shows is run, what exists is in it, and its links lead somewhere.

In README.md, docs/*.md and docs/policies/*.md a block ```` ```console ```` is a session: every line `$ ebb …` is run,
in order, and what stands below it is what it prints, where `…` stands for anything. Each must end with exit code 0,
unless the line ends in `; echo $?`. Blocks of Python are executed, each going on from the one before; a block
```` ```text ```` right after one is what it prints. A block with a file name, as in ```` ```toml mine.toml ````, is
written to that file first; JSON Lines without one are ingested. Each page has a folder and a store of its own.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from pydantic import BaseModel

from ebbtide import Ebbtide
from ebbtide.cli import main
from ebbtide.log.canonical import COLUMNS
from ebbtide.memory.requests import AnyRequest
from ebbtide.model.state import BITS, GROUPS
from ebbtide.policy.document import Policy
from ebbtide.policy.files import library
from ebbtide.store.tables import metadata
from tests import query_page

COMMAND = typer.main.get_command(main.app)
"""Made once, since that takes as long as many a command."""
ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "policies").glob("*.md"))]
SAMPLE = DOCS / "views" / "README.md"
VIEWS = [page for page in sorted((DOCS / "views").glob("*.md")) if page != SAMPLE]
"""The pages of the views, which show what they give on the sample that their index makes."""
REQUESTS = DOCS / "requests.md"
"""Played by tests/test_surface.py, which also looks at what it leaves."""
VECTORS = DOCS / "vector-store.md"
"""Done by tests/service/test_vector_store.py, which has a pgvector for it."""
EVERY_PAGE = [*PAGES, SAMPLE, *VIEWS, ROOT / "CHANGELOG.md", *sorted((DOCS / "decisions").glob("*.md"))]

FENCE = re.compile(r"^```(\w*)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# What the pages show


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it is to be written to, its text, and what it prints if that is shown."""

    language: str
    file: str | None
    text: str
    line: int
    printed: str | None


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, but those that show what the Python before them prints."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    matches = list(FENCE.finditer(text))
    skip = False
    for match, after in zip_longest(matches, matches[1:]):
        if skip:
            skip = False
            continue
        language, file, body = match.groups()
        printed = None
        between = None if after is None else text[match.end() : after.start()]
        if language == "python" and after is not None and after[1] == "text" and not (between or "").strip():
            printed, skip = after[3], True
        found.append(Block(language, file, body, text.count("\n", 0, match.start()) + 2, printed))
    return found


@dataclass(frozen=True)
class Step:
    """A command of a session and what is shown below it."""

    command: str
    shown: str


def session(text: str) -> list[Step]:
    """The commands of a console block, each with the lines below it; a command goes on after a backslash."""
    steps: list[Step] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command = command[:-1] + next(lines).strip()
            steps.append(Step(command, ""))
        elif steps:
            steps[-1] = Step(steps[-1].command, steps[-1].shown + line + "\n")
    return steps


def run_ebb(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs one command line in this process; what it wrote, and the exit code where the line asks for it."""
    asked = command.endswith("; echo $?")
    out = io.StringIO()
    monkeypatch.setattr(sys, "argv", shlex.split(command.removesuffix("; echo $?")))
    with redirect_stdout(out), redirect_stderr(out):
        code = main._run(COMMAND)
    assert asked or code == 0, f"`{command}` ended with {code}: {out.getvalue()}"
    return out.getvalue() + (f"{code}\n" if asked else "")


def tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def same(shown: str, printed: str) -> bool:
    """Whether a text is what is shown, `…` standing for anything."""
    pattern = ".*".join(re.escape(part) for part in re.split(" *… *", tidy(shown)))
    return re.fullmatch(pattern, tidy(printed), re.DOTALL) is not None


def run_python(block: Block, page: Path, names: dict[str, Any]) -> str:
    out = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, name_of(page), "exec")
    with redirect_stdout(out):
        exec(code, names)
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to be in, with the samples and policy files beside it as in a checkout, and no settings."""
    for name in [name for name in os.environ if name.startswith("EBB_") or name == "FORCE_COLOR"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EBB_URL", "duckdb:///ebbtide.duckdb")
    for name in ("examples", "policies"):
        (tmp_path / name).symlink_to(ROOT / name)
    with chdir(tmp_path):
        yield tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if page not in (REQUESTS, VECTORS)], ids=name_of)
def test_what_a_page_shows_is_what_happens(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(page, folder, monkeypatch)


def play(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does everything that a page shows, and compares what it gives."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            printed = run_python(block, page, names)
            assert block.printed is None or same(block.printed, printed), f"{name_of(page)}:{block.line}\n{printed}"
        elif block.language == "jsonl" and block.file is None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(block.text.encode()), encoding="utf-8"))
            run_ebb("ebb ingest -", monkeypatch)
        elif block.language == "console":
            for step in session(block.text):
                if step.command.startswith("ebb "):
                    printed = run_ebb(step.command, monkeypatch)
                    assert not step.shown or same(step.shown, printed), (
                        f"{name_of(page)}:{block.line} $ {step.command}\n{printed}"
                    )


def test_what_the_pages_of_the_views_show_is_what_they_give(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for page in (SAMPLE, *VIEWS):
        assert any(block.language == "console" for block in blocks(page)), page
        play(page, folder, monkeypatch)


# What exists is in the pages


def section(page: Path, heading: str) -> str:
    """What stands under a heading, down to the next one of its level or above."""
    text = page.read_text(encoding="utf-8")
    for match in HEADING.finditer(text):
        if match[2] == heading:
            rest = text[match.end() :]
            end = re.search(rf"^#{{1,{len(match[1])}}} ", rest, re.MULTILINE)
            return rest[: end.start()] if end else rest
    raise AssertionError(f"{name_of(page)} has no heading {heading!r}")


def first_cells(text: str) -> list[str]:
    """All names in backticks in the first cells of a section's tables, in order."""
    rows = re.findall(r"^\| (`[^|]*`) +\|", text, re.MULTILINE)
    return [name for cell in rows for name in re.findall(r"`([^`]+)`", cell)]


def commands() -> Iterator[tuple[str, Any]]:
    def below(group: Any, path: str) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from below(command, f"{path} {name}")
            else:
                yield f"{path} {name}", command

    yield from below(COMMAND, "ebb")


COMMANDS = dict(commands())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_is_in_the_reference(command: str) -> None:
    page = DOCS / "commands.md"
    own, shared = section(page, f"`{command}`"), section(page, "Options that many commands take")
    assert f"{command} " in own or f"{command}\n" in own, "no example"
    for parameter in COMMANDS[command].params:
        for option in getattr(parameter, "opts", []):
            if option.startswith("--"):
                assert f"`{option}" in own + shared, option


def test_every_operation_has_an_example_line() -> None:
    lines = "".join(block.text for block in blocks(DOCS / "commands.md") if block.language == "jsonl")
    shown = set(re.findall(r'"op":"([A-Z_]+)"', lines))
    assert shown == {kind.model_fields["op"].default for kind in get_args(AnyRequest)}


@pytest.mark.parametrize("table", metadata.tables)
def test_every_column_of_a_table_is_in_the_log_page(table: str) -> None:
    documented = first_cells(section(DOCS / "log.md", f"`{table}`"))
    assert documented == [column.name for column in metadata.tables[table].columns]


TYPES = {"VARCHAR": "text", "TIMESTAMP WITH TIME ZONE": "timestamptz"}


def test_every_view_has_a_page_with_its_columns_and_their_types(tmp_path: Path) -> None:
    with Ebbtide.open(f"duckdb:///{tmp_path / 'views.duckdb'}") as ebb, ebb.store.begin() as connection:
        rows = connection.exec_driver_sql(
            "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'audit' "
            "ORDER BY table_name, ordinal_position"
        ).all()
    views: dict[str, list[tuple[str, str]]] = {}
    for view, column, kind in rows:
        views.setdefault(view, []).append((column, TYPES.get(kind, kind.lower())))
    assert {page.stem for page in VIEWS} == set(views)
    index = SAMPLE.read_text(encoding="utf-8")
    for view, columns in views.items():
        text = (DOCS / "views" / f"{view}.md").read_text(encoding="utf-8")
        assert re.findall(r"^\| `(\w+)` \| (\w+) \| \S", text, re.MULTILINE) == columns, view
        assert f"]({view}.md)" in index, view


def test_the_groups_and_the_canonical_form_are_in_the_log_page() -> None:
    groups = section(DOCS / "log.md", "`after` and `carries`")
    for group, columns in GROUPS.items():
        row = next(line for line in groups.splitlines() if line.startswith(f"| `{group}` | {BITS[group]} |"))
        assert re.findall(r"`([^`]+)`", row)[1:] == list(columns), group
    canonical = section(DOCS / "log.md", "Canonical form and hash")
    assert ", ".join(COLUMNS) in " ".join(canonical.split())


def parameters(model: type[BaseModel], path: str) -> Iterator[tuple[str, str, Any]]:
    """Every field of a policy document: the heading it stands under, its name in a file, and its default."""
    for name, field in model.model_fields.items():
        yield path, field.alias or name, field.default
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from parameters(inner, field.alias or name)


def test_every_named_query_is_in_the_audit_page_as_its_header_has_it() -> None:
    """`python tests/query_page.py` writes the chapter."""
    assert query_page.PAGE.read_text(encoding="utf-8").endswith(query_page.chapter())


def test_every_policy_parameter_is_in_the_policies_page_with_its_default() -> None:
    page = (DOCS / "policies.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for path, name, default in parameters(Policy, "the document"):
        mine = [row for row in rows if row.startswith(f"| `{name}` |")]
        assert mine, f"{name} of {path} is missing"
        if isinstance(default, bool | int | float | str) and default != "":
            shown = str(default).lower() if isinstance(default, bool) else default
            text = f"{shown:g}" if isinstance(shown, int | float) else str(shown)
            assert any(f"| {text} |" in row or f"| `{text}` |" in row for row in mine), f"{name} of {path}: {text}"


def test_every_number_of_a_signal_and_every_built_in_policy_is_in_the_policies_page() -> None:
    page = (DOCS / "policies.md").read_text(encoding="utf-8")
    params = library()["default@1.0.0"][0].params
    for numbers in (params.reinforcement.gamma, params.reinforcement.delta, params.reinforcement.ceiling):
        for word, number in numbers.items():
            assert f"`{word}` {number:.2f}" in page, word
    for task, hours in params.schedule.items():
        assert f"`{task}` {hours:g}" in page, task
    for policy in library():
        assert f"`{policy}`" in page


# Links


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are derived on the pages of a repository."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    slugs = (re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for _, heading in HEADING.findall(text))
    return set(slugs)


@pytest.mark.parametrize("page", EVERY_PAGE, ids=name_of)
def test_relative_links_resolve(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_every_page_can_be_reached_from_the_index() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    for page in [path for folder in (".", "decisions", "policies") for path in (DOCS / folder).glob("*.md")]:
        if page.name != "README.md":
            assert f"({page.relative_to(DOCS)})" in index, page.name
