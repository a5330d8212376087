"""`ebb policy diff` and `ebb policy simulate`: what another policy would mean, before it is assigned."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from ebbtide.api import Ebbtide
from ebbtide.charts.simulated import chart_of, names_of
from ebbtide.cli import drawing, growth, output
from ebbtide.cli.options import OneNamespace, Output, Url, opened
from ebbtide.cli.output import Format
from ebbtide.decay.compare import Comparison, Lasting, compare
from ebbtide.model.errors import BadInput
from ebbtide.policy.document import Policy
from ebbtide.policy.files import load
from ebbtide.replay.simulate import OUTCOMES, Fate, Side, Simulation

Which = Annotated[str, typer.Argument(metavar="POLICY", help="id@version, or a policy file")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("diff")(diff)
    app.command("simulate")(simulate)


def _is_file(name: str) -> bool:
    return name.endswith((".toml", ".json"))


def _policy(name: str, ebb: Ebbtide | None) -> Policy:
    """A policy from its file, or from a store."""
    if _is_file(name) or ebb is None:
        return load(Path(name))
    return ebb.policy(name)


def diff(a: Which, b: Which, url: Url = None, format: Output = Format.TABLE) -> None:
    """Two policies, parameter by parameter, with half-lives in days and where curves cross.

    Example: ebb policy diff default@1.0.0 permastore@1.0.0
    """
    with ExitStack() as held:
        ebb = None if _is_file(a) and _is_file(b) else held.enter_context(opened(url))
        found = compare(_policy(a, ebb), _policy(b, ebb))
    if format == Format.JSON:
        output.document(asdict(found))
        return
    if found.parameters:
        rows = ((one.path, _value(one.a), _value(one.b)) for one in found.parameters)
        output.table("Parameters that differ", ("parameter", *_names(found)), rows)
    else:
        sys.stdout.write("No parameter differs.\n")
    output.table(
        f"Days until …, unused, under {found.a} | {found.b}",
        ("profile", "half-life", "warning, from 0.5", "archive, from 0.5", "curves cross at"),
        (
            (
                one.profile,
                *(_both(one.a, one.b, name) for name in ("half_life", "to_warning", "to_archive")),
                ", ".join(_days(age) for age in one.cross) or "-",
            )
            for one in found.profiles
        ),
    )


def _names(found: Comparison) -> tuple[str, str]:
    return (found.a, found.b) if found.a != found.b else (f"{found.a} (1)", f"{found.b} (2)")


def _value(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)


def _both(a: Lasting, b: Lasting, name: str) -> str:
    return f"{_days(getattr(a, name))} | {_days(getattr(b, name))}"


def _days(days: float | None) -> str:
    return "never" if days is None else f"{days:.1f}" if days >= 1 else f"{days:.3f}"


def simulate(
    policy: Annotated[str | None, typer.Argument(metavar="POLICY", help="id@version, or a policy file")] = None,
    against: Annotated[
        str | None, typer.Option(help="Another policy [default: what each memory is under]", show_default=False)
    ] = None,
    until: Annotated[str | None, typer.Option(help="[default: 90 days from now]", show_default=False)] = None,
    namespace: OneNamespace = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many memories that fare differently")] = 10,
    daily: Annotated[bool, typer.Option("--daily", help="A row for each day, not for each week")] = False,
    growing: Annotated[bool, typer.Option("--growth", help="How a store grows, by the numbers below")] = False,
    months: growth.Months = None,
    arrivals: growth.Arrivals = None,
    merge_rate: growth.MergeRate = None,
    events: growth.Events = None,
    ttl_days: growth.TtlDays = None,
    size: growth.Size = None,
    svg: growth.SvgFile = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """What the organiser would do under a policy, over the real store, with nothing written.

    Example: ebb policy simulate archivist@1.0.0 --until 2027-01-01T00:00:00Z
    """
    numbers = {"arrivals": arrivals, "merge_rate": merge_rate, "events": events, "ttl_days": ttl_days}
    if growing:
        given = {"POLICY": policy, "against": against, "until": until, "namespace": namespace, "daily": daily or None}
        _refuse(given, "is of a policy over the store: leave it out with --growth")
        growth.show(growth.asked(numbers, months, size, svg), format)
        return
    _refuse(numbers | {"months": months, "size": size}, "is of --growth: add that, or leave it out")
    if policy is None:
        raise BadInput("is missing: a policy as id@version or as a file, or --growth", field="POLICY")
    with opened(url) as ebb:
        other = None if against is None else _policy(against, ebb)
        found = ebb.simulate(_policy(policy, ebb), other, until=until, namespace=namespace, limit=limit)
    if svg is not None:
        drawing.write(svg, chart_of(found))
    if format == Format.JSON:
        output.document(found)
    else:
        _show(found, 1 if daily else 7)


def _refuse(given: Mapping[str, Any], why: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise BadInput(why, field=name)


def _show(found: Simulation, length: int) -> None:
    sides, names = (found.under, found.against), names_of(found)
    output.table(
        f"{found.memories} memories, {found.active} ACTIVE, to {found.until:%Y-%m-%d %H:%M}",
        ("under", *OUTCOMES, "ACTIVE in the end"),
        (
            (name, *(getattr(side.total, what) for what in OUTCOMES), side.active)
            for name, side in zip(names, sides, strict=True)
        ),
        numbers=(*OUTCOMES, "ACTIVE in the end"),
    )
    drawing.show(chart_of(found))
    spans = [_spans(side, found, length) for side in sides]
    columns = [*OUTCOMES[:4], "ACTIVE"]
    output.table(
        f"By {'day' if length == 1 else 'week'}: {names[0]} | {names[1]}",
        ("from", *columns),
        (
            (begin, *(f"{one} | {other}" for one, other in zip(spans[0][begin], spans[1][begin], strict=True)))
            for begin in spans[0]
        ),
        numbers=columns,
    )
    for name, side in zip(names, sides, strict=True):
        for slot in side.held[:3]:
            where = output.printable(slot.namespace_id or "all namespaces under it")
            what = (
                f"{slot.due} of {slot.of} would go from {where} in the {slot.task} slot of {slot.slot:%Y-%m-%d %H:%M}"
            )
            sys.stdout.write(f"{name}: the guard would hold {what}\n")
        if len(side.held) > 3:
            sys.stdout.write(f"{name}: and {len(side.held) - 3} slots more\n")
    sys.stdout.write(f"{found.different} memories end in another state\n")
    if found.differences:
        output.table(
            "Those that differ most",
            ("namespace", "ref", "type", names[0], names[1]),
            (
                (one.namespace_id, one.ref or str(one.id)[:8], one.type, _fate(one.under), _fate(one.against))
                for one in found.differences
            ),
        )


def _spans(side: Side, found: Simulation, length: int) -> dict[str, Sequence[int]]:
    """What happens in each span of days from now on, and how many are ACTIVE at its end; what is overdue before."""
    first, last = found.as_of.date(), found.until.date()
    overdue = [day for day in side.days if day.day < first]
    parts = {"overdue": overdue}
    begin = first
    while begin <= last:
        end = begin + timedelta(days=length)
        parts[str(begin)] = [day for day in side.days if begin <= day.day < end]
        begin = end
    active = found.active
    told: dict[str, Sequence[int]] = {}
    for name, days in parts.items():
        active = days[-1].active if days else active
        told[name] = [*(sum(getattr(day, what) for day in days) for what in OUTCOMES[:4]), active]
    return told


def _fate(fate: Fate) -> str:
    state = "ERASED" if fate.erased else fate.lifecycle_state
    when = "" if fate.at is None else f" {fate.at:%Y-%m-%d} {fate.rule}"
    return f"{state}{when}, {fate.salience:.3f}"
