"""`ebb explain`: why a memory is as it is, and what comes next."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ebbtide.audit.explanation import Decision, Explanation
from ebbtide.cli import drawing, output
from ebbtide.cli.options import AsOf, KnownAt, Namespace, Object, Output, Url, namespace_of, opened
from ebbtide.cli.output import Format
from ebbtide.draw.chart import Axis, Chart, Line, Mark, Threshold
from ebbtide.draw.svg import refuse_missing
from ebbtide.model import instant


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(explain)


def explain(
    obj: Object,
    svg_file: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Also draw the curve into a file", show_default=False)
    ] = None,
    namespace: Namespace = None,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Why a memory is as it is, which rule fired last, and what happens next and when if nothing touches it.

    Example: ebb explain home-1 --namespace maya --svg home.svg
    """
    if svg_file is not None:
        refuse_missing()
    with opened(url) as ebb:
        found = ebb.explain(obj, namespace=namespace_of(namespace), as_of=as_of, known_at=known_at)
    if svg_file is not None:
        drawing.write(svg_file, chart_of(found))
    if format == Format.JSON:
        output.document(found)
    else:
        _show(found)


def chart_of(found: Explanation) -> Chart:
    """The curve of a memory, with its thresholds and what happened to it."""
    told, policy = found.curve, found.policy
    x = [instant.to_micros(at) for at in told.at]
    return Chart(
        title=f"{found.memory.ref or found.memory.id} under {policy.name}, as of {found.as_of:%Y-%m-%d %H:%M} UTC",
        axis=Axis.INSTANTS,
        lines=[Line("salience", x, told.salience), Line("confidence", x, told.confidence)],
        thresholds=[Threshold("warning", policy.warning), Threshold("archive", policy.archive)],
        marks=[Mark(instant.to_micros(mark.at), mark.salience, mark.what) for mark in told.marks],
        now=instant.to_micros(told.now),
    )


def _show(found: Explanation) -> None:
    drawing.ascii_only()
    output.console().print(output.printable(found.summary))
    sys.stdout.write("\n")
    drawing.show(chart_of(found))
    sys.stdout.write("\n")
    output.table(f"As of {found.as_of:%Y-%m-%d %H:%M:%S} UTC", ("what", "is"), list(_rows(found)))
    if found.forecast:
        sys.stdout.write("\n")
        output.table(
            "If nothing touches it",
            ("at", "rule", "leads to", "salience", "conf."),
            (
                (
                    f"{one.at:%Y-%m-%d %H:%M:%S}{' (overdue)' if one.overdue else ''}",
                    one.rule,
                    " ".join(filter(None, (one.to_state, one.action))),
                    one.salience,
                    one.confidence,
                )
                for one in found.forecast
            ),
            numbers=("salience", "conf."),
        )


def _rows(found: Explanation) -> Iterator[tuple[str, Any]]:
    segment, policy, clocks = found.segment, found.policy, found.clocks
    yield "salience", segment.salience_formula
    yield "confidence", segment.confidence_formula
    yield "rate", f"{segment.rate_formula} ({segment.decay_profile}, {segment.curve})"
    begun = f"{segment.begins_at:%Y-%m-%d %H:%M:%S}, {segment.age_days:.3f} days old"
    yield "segment", f"begins {begun}; baseline {segment.baseline:g}, centrality {segment.centrality:g}"
    yield "policy", f"{policy.name} ({policy.source})"
    for name in ("created", "modified", "accessed", "reinforced", "restored", "decayed"):
        at = getattr(clocks, f"{name}_at")
        if at is not None:
            yield name, f"{at:%Y-%m-%d %H:%M:%S}"
    yield "ages by", f"{clocks.ages_by}, from {clocks.ages_from:%Y-%m-%d %H:%M:%S}"
    yield "uses", f"accesses {clocks.accesses}, reinforcements {clocks.reinforcements}"
    yield "flags", ", ".join(_flags(found)) or "none"
    if found.last_rule is not None:
        yield "last rule", _decided(found.last_rule)
    moved = found.last_transition
    if moved is not None and moved != found.last_rule:
        yield "last move", _decided(moved)
    if found.erasure is not None:
        head = found.erasure.head
        yield "receipt", f"head {head.seq}, batch {head.batch}, {head.hash}"


def _flags(found: Explanation) -> Iterator[str]:
    flags = found.flags
    for name in ("pinned", "held", "warned"):
        if getattr(flags, name):
            yield name
    if flags.frozen:
        yield "frozen" if flags.frozen_until is None else f"frozen until {flags.frozen_until:%Y-%m-%d %H:%M:%S}"
    for one in flags.suppressions:
        end = "" if one.expires_at is None else f" until {one.expires_at:%Y-%m-%d %H:%M:%S}"
        yield f"suppressed by {one.suppressed_by}{end}"
    if flags.tombstoned_at is not None:
        yield f"tombstoned {flags.tombstoned_at:%Y-%m-%d %H:%M:%S}"


def _decided(one: Decision) -> str:
    inputs = ", ".join(f"{name} {value}" for name, value in one.inputs.items())
    moved = one.to_state if one.from_state == one.to_state else f"{one.from_state} → {one.to_state}"
    what = one.rule or f"{one.op_type} by {one.by} ({one.actor_id})"
    return f"{what} at {one.at:%Y-%m-%d %H:%M:%S}: {moved}{f'; {inputs}' if inputs else ''} (seq {one.seq})"
