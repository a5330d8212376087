"""How much is done: enough to mean something in every test run, and the full sizes with `make soak` (EBB_SOAK)."""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("EBB_SOAK"))
ORGANISERS = (2, 6) if SOAK else (2,)
NAMESPACES = 200 if SOAK else 20
SLOTS = 40 if SOAK else 6
KILLS = 25 if SOAK else 3
WEEKS = 12 if SOAK else 2
SECONDS = float(os.environ.get("EBB_SOAK_SECONDS", "600" if SOAK else "4"))
