"""`ebb policy`: versions of decay policies."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli import compare, output, plot
from ebbtide.cli.options import (
    Actor,
    ActorType,
    Namespace,
    Output,
    Url,
    help_without_command,
    namespace_of,
    opened,
)
from ebbtide.cli.output import Format
from ebbtide.cli.settings import read
from ebbtide.decay.fsrs import learning
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import age_when_faded, parameters
from ebbtide.model.errors import BadInput, CheckFailed
from ebbtide.model.words import DecayProfile
from ebbtide.policy.document import Policy
from ebbtide.policy.files import load

app = typer.Typer(
    help="Decay policies: named, versioned, immutable.\n\nExample: ebb policy list",
    invoke_without_command=True,
    callback=help_without_command,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="POLICY", help="id@version, for example default@1.0.0")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="A policy file, TOML or JSON")]


@app.command("list")
def list_(url: Url = None, format: Output = Format.TABLE) -> None:
    """All policy versions at hand.

    Example: ebb policy list
    """
    with opened(url) as ebb:
        found = ebb.policies()
    if format == Format.JSON:
        output.document({"policies": [{"policy": p.name, "note": p.note, "digest": p.digest()} for p in found]})
    else:
        output.table("Policies", ("policy", "note"), ((policy.name, policy.note) for policy in found))


@app.command()
def show(name: Name, url: Url = None, format: Output = Format.TABLE) -> None:
    """One policy version with all its numbers.

    Example: ebb policy show default@1.0.0
    """
    with opened(url) as ebb:
        found = ebb.policy(name)
    if format == Format.JSON:
        output.document(found.model_dump(mode="json", by_alias=True))
        return
    output.table(
        f"{found.name} · {found.note}",
        ("profile", "λ per day", "half-life", "curve", "clock", "floor"),
        (
            (name, f"{p.rate:g}", _half_life(found, name), p.curve, p.clock, f"{p.salience_floor:g}")
            for name, p in found.params.profiles.items()
        ),
        numbers=("λ per day", "half-life", "floor"),
    )
    tiers = found.params.tier_thresholds.model_dump()
    rest = {
        "mu_multiplier": found.params.mu_multiplier,
        "rho": found.params.rho,
        "on_reinforce": found.params.on_reinforce,
    }
    output.table("Thresholds and the rest", ("parameter", "value"), (tiers | rest).items())


def _half_life(policy: Policy, name: DecayProfile) -> str:
    numbers = parameters(policy.params, name)
    stability = learning(policy.params.profiles[name]).stability
    days = age_when_faded(SCALAR, numbers, stability, 0.0, math.log(2))
    return "never" if math.isinf(days) else f"{days:.1f} d"


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…")], url: Url = None, format: Output = Format.TABLE
) -> None:
    """Validate policy files, exit code 1 if one does not hold; nothing is registered.

    With --url also that the store has no other content under the same version.

    Example: ebb policy check policies/mine-1.0.0.toml
    """
    found = [_checked(path) for path in files]
    if url is not None:
        with opened(url) as ebb:
            for path, policy in zip(files, found, strict=True):
                if any(known.name == policy.name and known != policy for known in ebb.policies()):
                    raise CheckFailed(f"{policy.name} is registered with other content", file=str(path))
    if format == Format.JSON:
        output.document({"policies": [{"policy": p.name, "digest": p.digest()} for p in found]})
    else:
        sys.stdout.write("".join(f"{policy.name} is valid\n" for policy in found))


def _checked(path: Path) -> Policy:
    """A policy file that holds; a file that can be read and does not hold is a failed check."""
    try:
        return load(path)
    except BadInput as error:
        if not path.is_file():
            raise
        raise CheckFailed(error.message, file=error.file, field=error.field) from error


@app.command()
def register(file: File, url: Url = None, format: Output = Format.TABLE) -> None:
    """Register a version for good: the same content again is a no-op, other content under its name is refused.

    Example: ebb policy register policies/mine-1.0.0.toml
    """
    policy = load(file)
    with opened(url) as ebb:
        new = ebb.register_policy(policy)
    if format == Format.JSON:
        output.document({"policy": policy.name, "registered": new})
    else:
        sys.stdout.write(f"{policy.name} {'is registered' if new else 'was registered already'}\n")


@app.command()
def assign(
    name: Name,
    namespace: Namespace = None,
    actor: Actor = None,
    actor_type: ActorType = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Assign a version to a namespace and its memories, from now on.

    Example: ebb policy assign archivist@1.0.0 --namespace maya
    """
    settings = read()
    where = namespace_of(namespace)
    with opened(url) as ebb:
        changed = ebb.assign_policy(
            name, namespace=where, actor=actor or settings.actor, actor_type=actor_type or settings.actor_type
        )
    if format == Format.JSON:
        output.document({"policy": name, "namespace_id": where, "changed": changed})
    else:
        sys.stdout.write(f"{where} is under {name}; {changed} memories begin a new segment\n")


compare.register(app)
plot.register(app)
