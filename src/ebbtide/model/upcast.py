"""Upcasting: what an entry of an older form says, in the form of today. The log is never rewritten, its readers are.

A form is what `payload` and `after` look like; `schema_version` of an entry says which one it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ebbtide.model.entry import SCHEMA_VERSION
from ebbtide.model.errors import Refused

Said = tuple[Mapping[str, Any], Mapping[str, Any] | None]
"""The payload and the groups of `after`, or None where an entry carries no state."""

UPCASTERS: Sequence[Callable[[str, Said], Said]] = ()
"""The nth, from 1 on, leads from form n to form n + 1, by the entry's operation; pure."""

assert len(UPCASTERS) == SCHEMA_VERSION - 1, "every older form has its upcaster"


def upcast(
    version: int, op_type: str, said: Said, upcasters: Sequence[Callable[[str, Said], Said]] = UPCASTERS
) -> Said:
    """What an entry says in today's form. One of a newer form is refused: it would have to be guessed at."""
    newest = len(upcasters) + 1
    if version > newest:
        raise Refused(
            f"an entry has form {version}, and this Ebbtide reads up to {newest}: upgrade it", rule="schema_version"
        )
    for step in upcasters[version - 1 :]:
        said = step(op_type, said)
    return said
