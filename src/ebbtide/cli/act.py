"""The commands by which a caller acts on one memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

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
from ebbtide.memory.read import Memory

Session = Annotated[str | None, typer.Option("--session", help="The session it happened in", show_default=False)]
Evidence = Annotated[
    list[str] | None,
    typer.Option(help="An event or memory that shows it; may be repeated", show_default=False),
]
Restoring = Annotated[bool, typer.Option("--restore", help="Bring it back first if it is archived")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (access, reinforce, penalise, pin, unpin, supersede, restore):
        app.command()(command)


def _act(
    call: Callable[..., Memory],
    obj: str,
    format: Format,
    *,
    namespace: str | None,
    actor: str | None,
    actor_type: str | None,
    at: str | None,
    expected: int | None,
    **fields: Any,
) -> None:
    settings = read()
    given = {"expected_version": expected, **fields}
    memory = call(
        obj,
        namespace=namespace_of(namespace),
        actor=actor or settings.actor,
        actor_type=actor_type or settings.actor_type,
        at=at,
        **{name: value for name, value in given.items() if value not in (None, [], False)},
    )
    if format == Format.JSON:
        output.document(memory)
    else:
        due = f"; next: {memory.due_rule} at {memory.due_at:%Y-%m-%d %H:%M} UTC" if memory.due_at else ""
        sys.stdout.write(
            f"{memory.ref or memory.id}: {output.state_of(memory)}, salience {memory.salience:.3f}, "
            f"confidence {memory.confidence:.3f}{due}\n"
        )


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
    with opened(url) as ebb:
        _act(
            ebb.access,
            obj,
            format,
            namespace=namespace,
            actor=actor,
            actor_type=actor_type,
            at=at,
            expected=expected,
        )


def reinforce(
    obj: Object,
    signal: Annotated[str, typer.Option(help="REFERENCED, CONFIRMED, TASK_COMPLETED_WITH or CORROBORATED_BY_EXTERNAL")],
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
    """Say that a memory was of use: its clock starts again and its scores rise.

    Example: ebb reinforce home-1 --signal CONFIRMED --namespace maya
    """
    with opened(url) as ebb:
        _act(
            ebb.reinforce,
            obj,
            format,
            namespace=namespace,
            actor=actor,
            actor_type=actor_type,
            at=at,
            expected=expected,
            signal=signal,
            session_id=session,
            evidence=evidence,
            restore=restore,
            reason=reason,
        )


def penalise(
    obj: Object,
    signal: Annotated[
        str,
        typer.Option(help="CORRECTED, CONTRADICTED_BY_OBSERVATION, TASK_FAILED_WITH, IGNORED_REPEATEDLY or UNUSED"),
    ],
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
    """Say that a memory was wrong, or of no use: its scores fall.

    Example: ebb penalise home-1 --signal CORRECTED --namespace maya
    """
    with opened(url) as ebb:
        _act(
            ebb.penalise,
            obj,
            format,
            namespace=namespace,
            actor=actor,
            actor_type=actor_type,
            at=at,
            expected=expected,
            signal=signal,
            session_id=session,
            evidence=evidence,
            restore=restore,
            reason=reason,
        )


def pin(
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
    """Stop a memory's time: nothing automatic touches it, and it shows salience 1.

    Example: ebb pin allergy --namespace maya
    """
    with opened(url) as ebb:
        _act(
            ebb.pin,
            obj,
            format,
            namespace=namespace,
            actor=actor,
            actor_type=actor_type,
            at=at,
            expected=expected,
            reason=reason,
        )


def unpin(
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
    """Let a pinned memory's time go on from where it stood.

    Example: ebb unpin allergy --namespace maya
    """
    with opened(url) as ebb:
        _act(
            ebb.unpin,
            obj,
            format,
            namespace=namespace,
            actor=actor,
            actor_type=actor_type,
            at=at,
            expected=expected,
            reason=reason,
        )


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
    with opened(url) as ebb:
        _act(
            ebb.supersede,
            obj,
            format,
            namespace=namespace,
            actor=actor,
            actor_type=actor_type,
            at=at,
            expected=expected,
            value=value,
            ref=ref,
            salience=salience,
            evidence=evidence,
            reason=reason,
        )


def restore(
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
    """Bring an archived memory back.

    Example: ebb restore climbing --namespace maya
    """
    with opened(url) as ebb:
        _act(
            ebb.restore,
            obj,
            format,
            namespace=namespace,
            actor=actor,
            actor_type=actor_type,
            at=at,
            expected=expected,
            reason=reason,
        )
