"""What commands print: tables that fit a terminal, or one JSON document; results on standard output, the rest not."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ebbtide.api import Progress as Report
from ebbtide.memory.read import Memory
from ebbtide.model.instant import to_datetime
from ebbtide.model.words import RunStatus
from ebbtide.organise.approval import Held
from ebbtide.organise.ledger import Run
from ebbtide.organise.rehearsal import Rehearsal


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


def console() -> Console:
    """The terminal, or a plain text of a fixed width where output goes elsewhere."""
    return Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else 120)


def document(value: Any) -> None:
    """Prints one JSON document: stable keys, ISO 8601 UTC."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False, indent=2) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value)} has no JSON form")


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    numbers: Sequence[str] = (),
    cut: str | None = None,
) -> None:
    """Prints a table; the columns named in `numbers` are aligned to the right.

    `cut` names a column whose cells are cut where the others leave too little room, so that each row is one line.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    shown = Table(
        title=Text(printable(title)) if title else None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=None,
        pad_edge=False,
    )
    widths = [max([cell_len(name), *(cell_len(row[place]) for row in cells)]) for place, name in enumerate(columns)]
    room = console().width - sum(w + 2 for name, w in zip(columns, widths, strict=True) if name != cut)
    for name, width in zip(columns, widths, strict=True):
        justify: Literal["left", "right"] = "right" if name in numbers else "left"
        fixed = None if cut is None else max(12, min(width, room)) if name == cut else width
        shown.add_column(name, justify=justify, no_wrap=fixed is not None, overflow="ellipsis", width=fixed)
    for row in cells:
        shown.add_row(*(Text(cell) for cell in row))
    console().print(shown)


WIDE = 36
"""What is longer than an id may be broken into lines."""


def answer(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """What a query gave as a table; rows of more columns than there is room for one below the other, as records."""
    numbers = [name for place, name in enumerate(columns) if any(_is_number(row[place]) for row in rows)]
    cells = [[_exact(value) for value in row] for row in rows]
    widths = [max([cell_len(name), *(cell_len(row[place]) for row in cells)]) for place, name in enumerate(columns)]
    if sum(min(width, WIDE) + 2 for width in widths) <= console().width:
        table("", columns, cells, numbers=numbers)
        return
    for number, row in enumerate(cells, 1):
        table(f"row {number} of {len(rows)}", ("column", "value"), zip(columns, row, strict=True))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _exact(value: Any) -> str:
    """A value in full, but for fractions of a second and digits beyond the ninth."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return _cell(value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M}"
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return printable(str(value))


def printable(text: str) -> str:
    """A text as it may go to a terminal: control characters, which could steer it, are shown as such."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def bar(score: float, width: int = 10) -> str:
    """A score as a bar."""
    filled = round(score * width)
    return "█" * filled + "·" * (width - filled)


def memories(found: Sequence[Memory], title: str) -> None:
    """A table of memories."""
    table(
        title,
        ("ref", "value", "state", "salience", "", "conf.", "profile", "next"),
        (
            (
                memory.ref or str(memory.id)[:8],
                memory.value,
                state_of(memory),
                memory.salience,
                bar(memory.salience),
                memory.confidence,
                memory.decay_profile,
                f"{memory.due_rule} {memory.due_at:%Y-%m-%d}" if memory.due_at else None,
            )
            for memory in found
        ),
        numbers=("salience", "conf."),
        cut="value",
    )


def state_of(memory: Memory) -> str:
    """The lifecycle state with its marks, and why a memory is withheld."""
    marks = [word for word, on in (("pinned", memory.pinned), ("held", memory.held), ("warned", memory.warned)) if on]
    reason = [memory.withheld] if memory.withheld and memory.withheld != memory.lifecycle_state.lower() else []
    return " ".join([memory.lifecycle_state, *(marks if memory.lifecycle_state == "ACTIVE" else []), *reason])


def runs(found: Sequence[Run], title: str) -> None:
    """A table of runs."""
    numbers = ("examined", "decayed", "warned", "archived", "deprecated")
    table(
        title,
        ("namespace", "task", "as of", "status", *numbers),
        (
            (
                run.namespace_id,
                run.task,
                to_datetime(run.as_of),
                run.status,
                *(getattr(run, n) for n in numbers),
            )
            for run in found
        ),
        numbers=numbers,
    )


def run_document(run: Run) -> dict[str, Any]:
    """A run with its instants as ISO 8601."""
    guard = None if run.verdict is None else run.verdict.document()
    return {**dataclasses.asdict(run), "as_of": to_datetime(run.as_of), "guard": guard}


def held_document(found: Held) -> dict[str, Any]:
    """What a held run would do, with its instants as ISO 8601."""
    return {
        "total": found.total,
        "leaving": [{**dataclasses.asdict(one), "at": to_datetime(one.at)} for one in found.leaving],
        "changed": [{**dataclasses.asdict(one), "recorded_at": to_datetime(one.recorded_at)} for one in found.changed],
    }


def decisions_document(found: Rehearsal) -> dict[str, Any]:
    """What a dry run would write, with its instants as ISO 8601."""
    return {
        "total": found.total,
        "decisions": [
            {**dataclasses.asdict(one), "effective_at": to_datetime(one.effective_at), "hash": one.hash.hex()}
            for one in found.decisions
        ],
    }


def decisions(found: Rehearsal) -> None:
    """A table of what a dry run would write."""
    table(
        f"{found.total} entries" + (f", the first {shown}" if (shown := len(found.decisions)) < found.total else ""),
        ("namespace", "seq", "op", "of", "rule", "effective at", "state", "salience", "conf."),
        (
            (
                one.namespace_id,
                one.seq,
                one.op_type,
                one.ref or str(one.id)[:8],
                one.rule,
                to_datetime(one.effective_at),
                one.lifecycle_state,
                one.salience,
                one.confidence,
            )
            for one in found.decisions
        ),
        numbers=("seq", "salience", "conf."),
    )


def say_waiting(found: Sequence[Run]) -> None:
    """Says of each run that waits for an operator why, and where to go on."""
    for run in found:
        if run.status == RunStatus.QUARANTINED:
            why = f"set aside for a while: {run.error}: `ebb runs retry {run.namespace_id}` tries it sooner"
            sys.stdout.write(f"{printable(run.namespace_id)}: {printable(why)}\n")
        if run.status == RunStatus.HELD:
            sys.stdout.write(f"{printable(run.namespace_id)}: {run.verdict}: `ebb runs show {run.run_id}`\n")


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """A progress bar on a terminal, nothing otherwise."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)
