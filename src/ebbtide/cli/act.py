"""The commands by which a caller acts on one memory.

Typer reads a command's options off its signature; commands that take the same ones are made from one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ebbtide.api import Ebbtide
from ebbtide.cli import output
from ebbtide.cli.options import (
    Actor,
    ActorType,
    At,
    Expected,
    Namespace,
    Object,
    Output,
    Reason,
    Url,
    namespace_of,
    opened,
)
from ebbtide.cli.output import Format
from ebbtide.cli.settings import read
from ebbtide.memory.read import Memory, Stored

Session = Annotated[str | None, typer.Option("--session", help="The session it happened in", show_default=False)]
Evidence = Annotated[
    list[str] | None, typer.Option(help="An event or memory that shows it; may be repeated", show_default=False)
]
Restoring = Annotated[bool, typer.Option("--restore", help="Bring it back first if it is archived")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(access)
    app.command("reinforce")(
        _signal(
            Ebbtide.reinforce,
            "Say that a memory was of use: its clock starts again and its scores rise.",
            "Signals: REFERENCED, CONFIRMED, TASK_COMPLETED_WITH, CORROBORATED_BY_EXTERNAL.",
            "ebb reinforce home-1 --signal CONFIRMED --namespace maya",
        )
    )
    app.command("penalise")(
        _signal(
            Ebbtide.penalise,
            "Say that a memory was wrong, or of no use: its scores fall.",
            "Signals: CORRECTED, CONTRADICTED_BY_OBSERVATION, TASK_FAILED_WITH, IGNORED_REPEATEDLY, UNUSED.",
            "ebb penalise home-1 --signal CORRECTED --namespace maya",
        )
    )
    for name, call, does in (
        ("pin", Ebbtide.pin, "Stop a memory's time: nothing automatic touches it, and it shows salience 1."),
        ("unpin", Ebbtide.unpin, "Let a pinned memory's time go on from where it stood."),
        ("hold", Ebbtide.hold, "Put a legal hold on a memory: nothing may erase it."),
        ("release", Ebbtide.release, "End a legal hold."),
        ("archive", Ebbtide.archive, "Archive a memory by hand; it can be restored."),
        ("restore", Ebbtide.restore, "Bring an archived memory back."),
        ("deprecate", Ebbtide.deprecate, "Deprecate a memory by hand, for good."),
    ):
        app.command(name)(_plain(call, does, f"ebb {name} allergy --namespace maya"))
    app.command()(supersede)
    app.command()(suppress)
    app.command()(unsuppress)


def _act(
    ebb: Ebbtide, call: Callable[..., Memory], obj: str, format: Format, *, who: dict[str, Any], **fields: Any
) -> None:
    """Makes one request and prints the memory as it is then."""
    settings = read()
    memory = call(
        ebb,
        obj,
        namespace=namespace_of(who["namespace"]),
        actor=who["actor"] or settings.actor,
        actor_type=who["actor_type"] or settings.actor_type,
        at=who["at"],
        **{name: value for name, value in fields.items() if value is not None and value is not False and value != []},
    )
    if format == Format.JSON:
        output.document(memory)
        return
    known = " (was there already)" if isinstance(memory, Stored) and memory.duplicate else ""
    due = f"; next: {memory.due_rule} at {memory.due_at:%Y-%m-%d %H:%M} UTC" if memory.due_at else ""
    sys.stdout.write(
        f"{memory.ref or memory.id}{known}: {output.state_of(memory)}, salience {memory.salience:.3f}, "
        f"confidence {memory.confidence:.3f}{due}\n"
    )


def _plain(call: Callable[..., Memory], does: str, example: str) -> Callable[..., None]:
    """A command that takes a memory and a reason."""

    def command(
        obj: Object,
        reason: Reason = None,
        namespace: Namespace = None,
        actor: Actor = None,
        actor_type: ActorType = None,
        at: At = None,
        expected: Expected = None,
        url: Url = None,
        format: Output = Format.TABLE,
    ) -> None:
        who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
        with opened(url) as ebb:
            _act(ebb, call, obj, format, who=who, expected_version=expected, reason=reason)

    command.__doc__ = f"{does}\n\n    Example: {example}\n    "
    return command


def _signal(call: Callable[..., Memory], does: str, signals: str, example: str) -> Callable[..., None]:
    """A command that takes a memory and a signal."""

    def command(
        obj: Object,
        signal: Annotated[str, typer.Option(help="What happened")],
        session: Session = None,
        evidence: Evidence = None,
        restore: Restoring = False,
        reason: Reason = None,
        namespace: Namespace = None,
        actor: Actor = None,
        actor_type: ActorType = None,
        at: At = None,
        expected: Expected = None,
        url: Url = None,
        format: Output = Format.TABLE,
    ) -> None:
        who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
        fields = {"signal": signal, "session_id": session, "evidence": evidence, "restore": restore, "reason": reason}
        with opened(url) as ebb:
            _act(ebb, call, obj, format, who=who, expected_version=expected, **fields)

    command.__doc__ = f"{does}\n\n    {signals}\n\n    Example: {example}\n    "
    return command


def access(
    obj: Object,
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    at: At = None,
    expected: Expected = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Record that a memory was shown, which confirms nothing.

    Example: ebb access home-1 --namespace maya
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    with opened(url) as ebb:
        _act(ebb, Ebbtide.access, obj, format, who=who, expected_version=expected)


def supersede(
    obj: Object,
    value: Annotated[str, typer.Option(help="What is so now")],
    ref: Annotated[str | None, typer.Option(help="A name for the new memory", show_default=False)] = None,
    salience: Annotated[float | None, typer.Option(min=0, max=1, show_default=False)] = None,
    evidence: Evidence = None,
    reason: Reason = None,
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    at: At = None,
    expected: Expected = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Close a memory and open the one that takes its place, in one step.

    Example: ebb supersede home-1 --value "Maya lives in Paris." --ref home-2 --namespace maya
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    fields = {"value": value, "ref": ref, "salience": salience, "evidence": evidence, "reason": reason}
    with opened(url) as ebb:
        _act(ebb, Ebbtide.supersede, obj, format, who=who, expected_version=expected, **fields)


Type = Annotated[str | None, typer.Option("--type", help="All of this object type", show_default=False)]
Epistemic = Annotated[str | None, typer.Option("--epistemic-type", help="All known in this way", show_default=False)]
Subject = Annotated[str | None, typer.Option(help="All about this subject", show_default=False)]
MaybeObject = Annotated[
    str | None, typer.Argument(metavar="OBJ", help="A memory's id or ref, or none and a filter", show_default=False)
]


def suppress(
    obj: MaybeObject = None,
    type_: Type = None,
    epistemic_type: Epistemic = None,
    subject: Subject = None,
    until: Annotated[str | None, typer.Option(help="When it ends by itself", show_default=False)] = None,
    freeze: Annotated[bool, typer.Option("--freeze", help="Also stop the memory's time")] = False,
    reason: Reason = None,
    namespace: Namespace = None,
    actor: Actor = None,
    url: Url = None,
) -> None:
    """Keep a memory, or all that meet a filter, out of retrieval; scores are untouched.

    Example: ebb suppress --subject tom --until 2026-12-01T00:00:00Z --namespace maya
    """
    fields = {"object_type": type_, "epistemic_type": epistemic_type, "subject": subject, "reason": reason}
    with opened(url) as ebb:
        ebb.suppress(
            obj,
            namespace=namespace_of(namespace),
            actor=actor or read().actor,
            expires_at=until,
            freeze=freeze or None,
            **fields,
        )
    sys.stdout.write("suppressed\n")


def unsuppress(
    obj: MaybeObject = None,
    type_: Type = None,
    epistemic_type: Epistemic = None,
    subject: Subject = None,
    reason: Reason = None,
    namespace: Namespace = None,
    actor: Actor = None,
    url: Url = None,
) -> None:
    """End the suppressions of a memory, or those made by the same filter.

    Example: ebb unsuppress --subject tom --namespace maya
    """
    fields = {"object_type": type_, "epistemic_type": epistemic_type, "subject": subject, "reason": reason}
    with opened(url) as ebb:
        ebb.unsuppress(obj, namespace=namespace_of(namespace), actor=actor or read().actor, **fields)
    sys.stdout.write("no longer suppressed\n")
