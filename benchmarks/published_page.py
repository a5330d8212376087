"""The page docs/long-horizon.md, made of build/rfc13.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.corpus import KINDS
from benchmarks.horizon import HORIZONS, NO_DECAY, Interval, Precisions, Row, Setting, rows

HERE = Path(__file__).parent
Found = dict[str, Any]


def page(found: Found, described: Setting, varied: Sequence[Setting]) -> str:
    """The whole page; what was not done yet is not on it."""
    return "".join(
        [
            (HERE / "long_horizon.md").read_text(encoding="utf-8"),
            *_long_horizon(found, described),
            (HERE / "long_horizon_remarks.md").read_text(encoding="utf-8"),
            *_varied(found, varied),
            *_decay(found),
            *_transitions(found),
            *_tombstones(found),
        ]
    )


def _precisions(found: Found, setting: Setting) -> dict[str, Precisions]:
    """By policy, what a setting came to; no decay first."""
    named = {name.partition("/")[2]: rows for name, rows in found.items() if name.startswith(f"{setting.name}/")}
    ordered = sorted(named.items(), key=lambda one: (one[0] != NO_DECAY, one[0]))
    return {name: {(day, kind, person): x for day, kind, person, x in rows} for name, rows in ordered}


def _rows(found: Found, setting: Setting) -> dict[str, dict[tuple[int, str], Row]]:
    by_policy = _precisions(found, setting)
    return {
        name: {(row.days, row.kind): row for row in rows(name, mine, by_policy[NO_DECAY])}
        for name, mine in by_policy.items()
    }


def _long_horizon(found: Found, setting: Setting) -> Iterator[str]:
    told = _rows(found, setting)
    yield f"\n## What came out\n\n{setting.persons} persons, seed {setting.seed}. "
    yield "Precision@5, the mean over kinds of topics, and in brackets the 95 % interval:\n\n"
    yield _header("Policy", HORIZONS)
    for name, mine in told.items():
        yield _line(name, [_within(mine[day, "all"].precision) for day in HORIZONS])
    yield "\nAbove no decay, in points of 100, person by person; **bold** where the interval is on one side of 0:\n\n"
    columns = [(day, kind) for kind in ("all", *KINDS) for day in HORIZONS if (day, kind) in told[NO_DECAY]]
    for kind in ("all", *KINDS):
        days = [day for day, of in columns if of == kind]
        yield f"### {'All kinds' if kind == 'all' else kind.capitalize()}\n\n{_header('Policy', days)}"
        yield _line(NO_DECAY, [f"{told[NO_DECAY][day, kind].precision.mean:.2f}" for day in days])
        for name, mine in told.items():
            if name != NO_DECAY:
                yield _line(name, [_gain(mine[day, kind].gain) for day in days])
        yield "\n"


def _header(first: str, days: Sequence[int]) -> str:
    return f"| {first} | {' | '.join(f'{day} days' for day in days)} |\n|---|{'--:|' * len(days)}\n"


def _line(name: str, cells: Sequence[str]) -> str:
    return f"| {name if name == NO_DECAY else f'`{name}`'} | {' | '.join(cells)} |\n"


def _within(one: Interval) -> str:
    return f"{one.mean:.2f} ({one.low:.2f} to {one.high:.2f})"


def _gain(one: Interval) -> str:
    said = f"{100 * one.mean:+.0f} ({100 * one.low:+.0f} to {100 * one.high:+.0f})"
    return f"**{said}**" if one.low > 0 or one.high < 0 else said


def _varied(found: Found, varied: Sequence[Setting]) -> Iterator[str]:
    done = [setting for setting in varied if len(_precisions(found, setting)) > 1]
    if not done:
        return
    yield "## Varied\n\nUnder `default@1.0.0`, above no decay on the same corpus, the mean over kinds; each with "
    yield f"{done[0].persons} persons:\n\n{_header('What differs', HORIZONS)}"
    for setting in done:
        (mine,) = (mine for name, mine in _rows(found, setting).items() if name != NO_DECAY)
        yield f"| {setting.name} | {' | '.join(_gain(mine[day, 'all'].gain) for day in HORIZONS)} |\n"
    yield "\n"


def _decay(found: Found) -> Iterator[str]:
    yield "## Decay correctness\n\nOf a memory that nobody uses, asserted with a salience of 0.9: what is left at "
    yield "the half-life, and the largest error of salience and confidence at 2,001 ages from a microsecond to a "
    yield "hundred years, against the curves as their sources have them, computed with 50 decimal digits. Scores are "
    yield "kept with 9 decimals, so 5.0e-10 is what rounding alone makes.\n\n"
    yield "| Policy | Profile | Half-life, days | Left | Largest error |\n|---|---|--:|--:|--:|\n"
    for one in found["decay"]:
        days, left = one["half_life_days"], one["left_at_half_life"]
        cells = ("never" if days is None else f"{days:,.2f}", "" if left is None else f"{left:.9f}")
        yield f"| `{one['policy']}` | {one['profile']} | {cells[0]} | {cells[1]} | {one['largest_error']:.1e} |\n"
    said = ", ".join(f"{left:.9f} ({name})" for name, left in found["half-lives"].items())
    yield f"\nRead from a store at the half-life, of what was asserted with 0.8 under `default@1.0.0`: {said}. "
    yield "PERMANENT has no half-life and keeps what it began with.\n\n"


def _transitions(found: Found) -> Iterator[str]:
    walk = found["transitions"]
    yield f"## Lifecycle transitions\n\nA random walk of {walk['steps']:,} steps under `default@1.0.0`, seed "
    yield f"{walk['seed']}: {walk['requests']:,} requests, {walk['refused']:,} that a rule refused, {walk['passes']:,} "
    yield "passes of the organiser. The log was then read against the rules, written down a second time: "
    yield "only allowed transitions, each by its own operation; each rule's scores at its instant on its side of the "
    yield "threshold; each leading where the rule says; nothing left behind that was due.\n\n"
    yield "| Rule | Times |\n|---|--:|\n"
    yield "".join(f"| `{rule}` | {times:,} |\n" for rule, times in walk["rules"].items())
    yield "\n| Transition | Times |\n|---|--:|\n"
    yield "".join(f"| {move} | {times:,} |\n" for move, times in walk["moves"].items())
    yield f"\nAgainst the rules: {len(walk['wrong'])}. Left behind: {len(walk['left_behind'])}. "
    yield f"The log verifies: {_yes(walk['verified'])}. "
    yield f"A rebuild gives the same state: {_yes(walk['rebuilt_equal'])}.\n\n"


def _tombstones(found: Found) -> Iterator[str]:
    yield "## Tombstone round trip\n\nOf four memories one expires and is archived, one expires and is erased, one is "
    yield "erased by request and one with its subject; then the store is exported, and the pack is loaded into an "
    yield "empty one.\n\n| What | Holds |\n|---|---|\n"
    yield "".join(f"| {what} | {_yes(holds)} |\n" for what, holds in found["tombstones"].items())


def _yes(holds: bool) -> str:
    return "yes" if holds else "**no**"
