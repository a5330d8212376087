"""`ebb policy fit`: a policy from the log's own facts."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ebbtide.cli import output
from ebbtide.cli.options import AsOf, KnownAt, Namespace, Output, Url, namespace_of, opened
from ebbtide.cli.output import Format
from ebbtide.fit.fitting import Fit, ProfileFit, Score
from ebbtide.model.errors import BadInput, CheckFailed
from ebbtide.policy.document import Policy


def register(app: typer.Typer) -> None:
    """Adds the command to those of policies."""
    app.command()(fit)


def fit(
    namespace: Namespace = None,
    curve: Annotated[
        list[str] | None, typer.Option(help="Try only this one; may be repeated [default: all]", show_default=False)
    ] = None,
    id: Annotated[str, typer.Option(help="The new policy's id")] = "fitted",
    version: Annotated[
        str | None, typer.Option(help="Its version [default: the next minor one]", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Its file [default: ID-VERSION.json]", show_default=False)
    ] = None,
    min_days: Annotated[float, typer.Option(help="What comes sooner after the signal before is left out")] = 1.0,
    seed: Annotated[int, typer.Option(help="How objects are parted and drawn")] = 0,
    resamples: Annotated[int, typer.Option(help="Samples of objects for the intervals")] = 200,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    url: Url = None,
    format: Output = Format.TABLE,
) -> None:
    """Fit the curves to what was recalled and missed, and write the best as a policy file; nothing is assigned.

    Example: ebb policy fit --namespace maya
    """
    with opened(url) as ebb, output.progress("Fitting") as progress:
        found = ebb.fit_policy(
            namespace=namespace_of(namespace),
            curves=curve or (),
            policy_id=id,
            version=version,
            min_days=min_days,
            seed=seed,
            resamples=resamples,
            as_of=as_of,
            known_at=known_at,
            progress=progress,
        )
    fits = [one for one in found.profiles if one.chosen != "current"]
    file = (out or Path(f"{found.policy.name.replace('@', '-')}.json")) if fits else None
    if file is not None:
        _write(found.policy, file)
    if format == Format.JSON:
        output.document(_document(found, file))
    else:
        for one in found.profiles:
            _print(one)
    if file is None:
        raise CheckFailed(f"no fitted curve does better than {found.current}: nothing is written")
    if format == Format.TABLE:
        taken = ", ".join(f"{one.profile} {one.chosen}" for one in fits)
        sys.stdout.write(f"{taken}: written to {file} as {found.policy.name}\n")


def _write(policy: Policy, file: Path) -> None:
    """Writes a policy file; one that is there with other content stays as it is."""
    document = policy.model_dump(mode="json", by_alias=True)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    try:
        if file.exists() and file.read_text(encoding="utf-8") != text:
            raise BadInput("is there with other content: give another --out or --version", file=str(file))
        file.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot be written: {error}", file=str(file)) from error


def _document(found: Fit, file: Path | None) -> dict[str, Any]:
    return {
        **{name: value for name, value in asdict(found).items() if name != "policy"},
        "policy": None if file is None else found.policy.name,
        "file": None if file is None else str(file),
    }


def _print(found: ProfileFit) -> None:
    about = f"{found.profile}: {found.recalls} recalls and {found.misses} misses of {found.objects} objects"
    if found.refused is not None:
        sys.stdout.write(f"{about}; it {found.refused} and stays as it is\n")
        return
    output.table(
        about,
        ("model", "", "log loss", "95 %", "RMSE", "AUC", "numbers"),
        (_row(score, found.chosen) for score in found.scores),
        numbers=("log loss", "RMSE", "AUC"),
    )


def _row(score: Score, chosen: str) -> tuple[Any, ...]:
    taken = score.model == chosen or (score.kind == "current" and chosen == "current")
    numbers = "  ".join(f"{one.name} {one.value:.3g} ({one.low:.3g}–{one.high:.3g})" for one in score.numbers)
    if not score.told:
        numbers = f"{', '.join(one.name for one in score.numbers)}: not told apart by this log"
    between = f"{score.log_loss_low:.3f}–{score.log_loss_high:.3f}"
    mark = "taken" if taken else score.kind if score.kind in ("current", "built-in") else ""
    return (score.model, mark, score.log_loss, between, score.rmse, score.auc, numbers)
