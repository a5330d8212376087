"""The commands by which a caller tells memory something new: an event, a belief, who there is, how things relate."""

from __future__ import annotations

from typing import Annotated

import typer

from ebbtide.cli.act import (
    AsJson,
    Condition,
    Confidence,
    Evidence,
    Kind,
    Profile,
    Ref,
    Salience,
    Subject,
    asker,
    noted,
    told,
    value_of,
)
from ebbtide.cli.options import Actor, ActorType, At, Namespace, Output, Url, help_without_command, opened
from ebbtide.cli.output import Format

entity = typer.Typer(
    help="Who and what memories are about.\n\nExample: ebb entity create Tom --type PERSON --namespace maya",
    invoke_without_command=True,
    callback=help_without_command,
    rich_markup_mode=None,
)

Word = "a word of your own: capitals, digits, underscores"
Node = Annotated[str, typer.Argument(help="A memory or entity, by id or ref")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(event)
    app.command("assert")(assert_)
    app.command()(relate)
    app.command()(contradict)
    app.add_typer(entity, name="entity")


def event(
    content: Annotated[str, typer.Argument(metavar="CONTENT", help="What happened, or was said")],
    ref: Ref = None,
    stream: Annotated[str | None, typer.Option(help="Where it happened, such as a chat [default: events]")] = None,
    role: Annotated[str | None, typer.Option(help="USER, ASSISTANT, TOOL, SYSTEM; else by actor type")] = None,
    subject: Annotated[str | None, typer.Option(help="Whom it is about; else the actor, if HUMAN_USER")] = None,
    json: AsJson = False,
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    at: At = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Record something that happened; beliefs name it as their evidence.

    Example: ebb event "I moved to London." --ref m1 --actor maya --actor-type HUMAN_USER
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    content_ = value_of(content, json, "CONTENT")
    with opened(url) as ebb:
        made = ebb.event(content_, ref=ref, stream=stream, role=role, subject=subject, **asker(who))
    noted(f"{ref or made}: recorded", made, namespace, format, ref)


def assert_(
    value: Annotated[str, typer.Argument(metavar="VALUE", help="What is believed")],
    epistemic_type: Annotated[
        str, typer.Option("--epistemic-type", help="OBSERVED, ASSERTED, INFERRED, HYPOTHETICAL …")
    ],
    source: Annotated[str, typer.Option("--source", help="USER_STATED, SYSTEM_INFERRED, TOOL_OUTPUT …")],
    type_: Kind = "FACT",
    ref: Ref = None,
    subject: Subject = None,
    evidence: Evidence = None,
    salience: Salience = None,
    confidence: Confidence = None,
    profile: Profile = None,
    condition: Condition = None,
    reasserts_erased: Annotated[
        bool, typer.Option("--reasserts-erased", help="Have on record that it says once more what was erased")
    ] = False,
    json: AsJson = False,
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    at: At = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Store a new memory.

    Example: ebb assert "Maya lives in London." --epistemic-type ASSERTED --source USER_STATED --ref home-1
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    with opened(url) as ebb:
        made = ebb.assert_memory(
            value_of(value, json, "VALUE"),
            object_type=type_ or "FACT",
            epistemic_type=epistemic_type,
            source_type=source,
            ref=ref,
            subject=subject,
            evidence=evidence,
            salience=salience,
            confidence=confidence,
            decay_profile=profile,
            condition=condition,
            reasserts_erased=reasserts_erased or None,
            **asker(who),
        )
    told(made, format)


def relate(
    source: Node,
    edge_type: Annotated[str, typer.Argument(help=f"How: {Word}")],
    target: Node,
    confidence: Annotated[float, typer.Option(min=0, max=1)] = 1.0,
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    at: At = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Draw an edge from one memory or entity to another.

    Example: ebb relate person-tom LIVES_IN home-1 --namespace maya
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    with opened(url) as ebb:
        edge = ebb.relate(source, edge_type, target, confidence=confidence, **asker(who))
    noted(f"{source} {edge_type} {target}: noted", edge, namespace, format)


def contradict(
    a: Annotated[str, typer.Argument(metavar="OBJ", help="A memory's id or ref")],
    b: Annotated[str, typer.Argument(metavar="OTHER", help="Another's")],
    description: Annotated[str | None, typer.Option(help="What the conflict is, in words")] = None,
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    at: At = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Note that two memories cannot both be so; both stay as they are.

    Example: ebb contradict home-1 home-2 --description "Two homes at once." --namespace maya
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    with opened(url) as ebb:
        edge = ebb.contradict(a, b, conflict_description=description, **asker(who))
    noted(f"{a} CONTRADICTS {b}: noted", edge, namespace, format)


@entity.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name it goes by")],
    type_: Annotated[str, typer.Option("--type", help=f"What it is: {Word}")],
    alias: Annotated[list[str] | None, typer.Option(help="Another name; may be repeated", show_default=False)] = None,
    ref: Ref = None,
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    at: At = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Say that there is somebody or something that memories are about.

    Example: ebb entity create Tom --type PERSON --alias Thomas --ref person-tom --namespace maya
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    with opened(url) as ebb:
        made = ebb.create_entity(name, entity_type=type_, aliases=alias or (), ref=ref, **asker(who))
    noted(f"{ref or made}: created", made, namespace, format, ref)


@entity.command()
def merge(
    primary: Annotated[str, typer.Argument(help="The entity that stays, by id or ref")],
    merged: Annotated[str, typer.Argument(help="The one that is the same")],
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    at: At = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Say that two entities are one, for good: from now on MERGED stands for PRIMARY.

    Example: ebb entity merge person-tom person-tommy --namespace maya
    """
    who = {"namespace": namespace, "actor": actor, "actor_type": actor_type, "at": at}
    with opened(url) as ebb:
        stays = ebb.merge_entities(primary, merged, **asker(who))
    noted(f"{merged} stands for {primary}", stays, namespace, format)
