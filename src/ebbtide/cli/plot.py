"""`ebb policy plot`: what memories keep under one policy or several, in the terminal and as SVG."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.charts.curves import DAYS, SALIENCE, TIERS, chart_of, lines_of
from ebbtide.cli import drawing, output
from ebbtide.cli.options import Output, Url, opened
from ebbtide.cli.output import Format
from ebbtide.cli.settings import read
from ebbtide.draw.svg import refuse_missing
from ebbtide.model.errors import BadInput
from ebbtide.model.words import DecayProfile
from ebbtide.policy.document import Policy
from ebbtide.policy.files import library, load

Names = Annotated[list[str], typer.Argument(metavar="POLICY…", help="id@version, or a policy file")]


def register(app: typer.Typer) -> None:
    """Adds the command to those of policies."""
    app.command()(plot)


def plot(
    names: Names,
    profile: Annotated[
        list[str] | None, typer.Option(help="Only this profile; may be repeated", show_default=False)
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=36_500, help="From 0 to this age")] = DAYS,
    salience: Annotated[float, typer.Option(min=0.01, max=1, help="What a memory begins with")] = SALIENCE,
    svg_file: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Also draw it into a file", show_default=False)
    ] = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """What is left of a memory's salience that nobody uses, by its age, with half-lives and thresholds.

    Of one policy the profiles that it gives to memories, of several that of what is asserted.

    Example: ebb policy plot default@1.0.0 permastore@1.0.0 --svg both.svg
    """
    if svg_file is not None:
        refuse_missing()
    policies = [_policy(name, url) for name in dict.fromkeys(names)]
    lines = lines_of(policies, _profiles(profile), days=days, salience=salience)
    chart = chart_of(policies, lines)
    if svg_file is not None:
        drawing.write(svg_file, chart)
    if format == Format.JSON:
        thresholds = [
            {"policy": policy.name} | {tier: getattr(policy.params.tier_thresholds, tier) for tier in TIERS}
            for policy in policies
        ]
        output.document({"days": days, "begin": salience, "thresholds": thresholds, "lines": lines})
        return
    drawing.show(chart)
    sys.stdout.write("\n")
    output.table(
        f"Days, unused, from {salience:g} to …",
        ("policy", "profiles", "half", "warning", "archive"),
        (
            (one.policy, " ".join(one.profiles), *map(_days, (one.half_life_days, one.warning_days, one.archive_days)))
            for one in lines
        ),
        numbers=("half", "warning", "archive"),
    )


def _days(days: float | None) -> str:
    return "never" if days is None else f"{days:.1f}"


def _policy(name: str, url: str | None) -> Policy:
    """A policy from its file, from those at hand, or from the store."""
    if name.endswith((".toml", ".json")):
        return load(Path(name))
    known = library(read().policies).get(name)
    if known is not None:
        return known[0]
    with opened(url) as ebb:
        return ebb.policy(name)


def _profiles(given: Sequence[str] | None) -> list[DecayProfile]:
    for name in given or ():
        if name not in list(DecayProfile):
            raise BadInput(f"{name!r} is none of {', '.join(DecayProfile)}", field="profile")
    return [DecayProfile(name) for name in dict.fromkeys(given or ())]
