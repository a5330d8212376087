"""The commands by which a caller acts on one memory.

Typer reads a command's options off its signature; commands that take the same ones are made from one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from json import loads
from typing import Annotated, Any
from uuid import UUID

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
from ebbtide.model.errors import BadInput

Session = Annotated[str | None, typer.Option("--session", help="The session it happened in", show_default=False)]
Evidence = Annotated[
    list[str] | None, typer.Option(help="An event or memory that shows it; may be repeated", show_default=False)
]
Restoring = Annotated[bool, typer.Option("--restore", help="Bring it back first if it is archived")]
Ref = Annotated[str | None, typer.Option(help="A name for it; a repeat under the same name writes nothing")]
Kind = Annotated[str | None, typer.Option("--type", help="FACT, PREFERENCE, DECISION, TASK, SUMMARY or INTENT")]
Epistemic = Annotated[str | None, typer.Option("--epistemic-type", help="OBSERVED, ASSERTED, INFERRED …")]
Source = Annotated[str | None, typer.Option("--source", help="USER_STATED, SYSTEM_INFERRED, TOOL_OUTPUT …")]
Subject = Annotated[str | None, typer.Option(help="Whom or what it is about")]
Salience = Annotated[float | None, typer.Option(min=0, max=1)]
Confidence = Annotated[float | None, typer.Option(min=0, max=1)]
Profile = Annotated[str | None, typer.Option("--profile", help="PERMANENT, SLOW, MEDIUM, FAST or RAPID")]
Condition = Annotated[str | None, typer.Option(help="Of a CONDITIONAL one: UNKNOWN, TRUE, FALSE or EXPIRED")]
AsJson = Annotated[bool, typer.Option("--json", help="It is given as JSON, not as text")]


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
    app.command("condition")(condition_)
    app.command()(transition)
    app.command()(supersede)
    app.command()(suppress)
    app.command()(unsuppress)


def _act(
    ebb: Ebbtide, call: Callable[..., Memory], obj: str, format: Format, *, who: dict[str, Any], **fields: Any
) -> None:
    """Makes one request and prints the memory as it is then."""
    told(call(ebb, obj, **asker(who), **fields), format)


def asker(who: dict[str, Any]) -> dict[str, Any]:
    """Who asks, whose memory is meant, and when it took effect: from options, else from the settings."""
    settings = read()
    return {
        "namespace": namespace_of(who["namespace"]),
        "actor": who["actor"] or settings.actor,
        "actor_type": who["actor_type"] or settings.actor_type,
        "at": who["at"],
    }


def told(memory: Memory, format: Format) -> None:
    """Prints a memory as it is after a request."""
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


def condition_(
    obj: Object,
    condition: Annotated[str, typer.Argument(metavar="CONDITION", help="UNKNOWN, TRUE, FALSE or EXPIRED")],
    reason: Reason = None,
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    at: At = None,
    expected: Expected = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Say whether the condition of a CONDITIONAL memory holds; only while it does is the memory retrieved.

    Example: ebb condition picnic TRUE --namespace maya
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    with opened(url) as ebb:
        told(ebb.set_condition(obj, condition, reason=reason, expected_version=expected, **asker(who)), format)


def transition(
    obj: Object,
    to_type: Annotated[str, typer.Argument(metavar="TYPE", help="ASSERTED, OBSERVED or DEPRECATED")],
    trigger: Annotated[str, typer.Option(help="user_correction, system_evaluation, feedback_signal or policy")],
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
    """Say that a memory has come to be known in another way.

    UNVERIFIED, INFERRED, HYPOTHETICAL and CONDITIONAL become ASSERTED, ASSERTED becomes OBSERVED; any DEPRECATED.

    Example: ebb transition climbing ASSERTED --trigger user_correction --namespace maya
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    with opened(url) as ebb:
        known = ebb.transition(
            obj,
            to_type,
            trigger_type=trigger,
            evidence=evidence,
            reason=reason,
            expected_version=expected,
            **asker(who),
        )
    told(known, format)


def supersede(
    obj: Object,
    value: Annotated[str, typer.Option(help="What is so now")],
    ref: Ref = None,
    type_: Kind = None,
    epistemic_type: Epistemic = None,
    source: Source = None,
    subject: Subject = None,
    evidence: Evidence = None,
    salience: Salience = None,
    confidence: Confidence = None,
    profile: Profile = None,
    condition: Condition = None,
    json: AsJson = False,
    reason: Reason = None,
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    at: At = None,
    expected: Expected = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Close a memory and open the one that takes its place, in one step; what is not given stays as it was.

    Example: ebb supersede home-1 --value "Maya lives in Paris." --ref home-2 --namespace maya
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    with opened(url) as ebb:
        new = ebb.supersede(
            obj,
            value_of(value, json, "--value"),
            ref=ref,
            object_type=type_,
            epistemic_type=epistemic_type,
            source_type=source,
            subject=subject,
            evidence=evidence,
            salience=salience,
            confidence=confidence,
            decay_profile=profile,
            condition=condition,
            reason=reason,
            expected_version=expected,
            **asker(who),
        )
    told(new, format)


def value_of(text: str, as_json: bool, field: str) -> Any:
    """A value as it was given: the text itself, or what it says as JSON."""
    if not as_json:
        return text
    try:
        return loads(text)
    except ValueError as error:
        raise BadInput(f"is not JSON: {error}", field=field) from error


AllOfType = Annotated[str | None, typer.Option("--type", help="All of this object type", show_default=False)]
AllKnownAs = Annotated[str | None, typer.Option("--epistemic-type", help="All known in this way", show_default=False)]
AllAbout = Annotated[str | None, typer.Option("--subject", help="All about this subject", show_default=False)]
MaybeObject = Annotated[
    str | None, typer.Argument(metavar="OBJ", help="A memory's id or ref, or none and a filter", show_default=False)
]


def suppress(
    obj: MaybeObject = None,
    type_: AllOfType = None,
    epistemic_type: AllKnownAs = None,
    subject: AllAbout = None,
    until: Annotated[str | None, typer.Option(help="When it ends by itself", show_default=False)] = None,
    freeze: Annotated[bool, typer.Option("--freeze", help="Also stop the memory's time")] = False,
    reason: Reason = None,
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    at: At = None,
    expected: Expected = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Keep a memory, or all that meet a filter, out of retrieval; scores are untouched.

    Example: ebb suppress --subject tom --until 2026-12-01T00:00:00Z --namespace maya
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    with opened(url) as ebb:
        about = ebb.suppress(
            obj,
            object_type=type_,
            epistemic_type=epistemic_type,
            subject=subject,
            expires_at=until,
            freeze=freeze or None,
            reason=reason,
            expected_version=expected,
            **asker(who),
        )
    noted("suppressed", about, namespace, format)


def unsuppress(
    obj: MaybeObject = None,
    type_: AllOfType = None,
    epistemic_type: AllKnownAs = None,
    subject: AllAbout = None,
    reason: Reason = None,
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    at: At = None,
    expected: Expected = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """End the suppressions of a memory, or those made by the same filter.

    Example: ebb unsuppress --subject tom --namespace maya
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    with opened(url) as ebb:
        about = ebb.unsuppress(
            obj,
            object_type=type_,
            epistemic_type=epistemic_type,
            subject=subject,
            reason=reason,
            expected_version=expected,
            **asker(who),
        )
    noted("no longer suppressed", about, namespace, format)


def noted(words: str, about: UUID, namespace: str | None, format: Format, ref: str | None = None) -> None:
    """Prints what was noted that is no memory, with its id."""
    if format == Format.JSON:
        output.document({"id": about, "ref": ref, "namespace_id": namespace_of(namespace)})
    else:
        sys.stdout.write(f"{output.printable(words)}\n")
