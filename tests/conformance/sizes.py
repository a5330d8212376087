"""How much is done: enough to mean something in every test run, and the full sizes with `make soak` (EBB_SOAK).

Each size can be given by itself, as EBB_SOAK_NAMESPACES=50.
"""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("EBB_SOAK"))


def _size(name: str, few: int, full: int) -> int:
    return int(os.environ.get(f"EBB_SOAK_{name}", full if SOAK else few))


ORGANISERS = (2, 6) if SOAK else (2,)
NAMESPACES = _size("NAMESPACES", 20, 200)
SLOTS = _size("SLOTS", 6, 40)
KILLS = _size("KILLS", 3, 25)
WEEKS = _size("WEEKS", 2, 12)
SECONDS = _size("SECONDS", 4, 600)
REQUESTS = _size("REQUESTS", 250, 1000)
CARDS = _size("CARDS", 10, 1)
"""Every how many-th flashcard is lived through."""
SEEDS = _size("SEEDS", 1, 4)
STATEMENTS = _size("STATEMENTS", 5, 1)
"""After each how many-th of the statements a process is killed."""
HISTORIES = _size("HISTORIES", 3, 30)
"""So many histories are made up and lived through."""
