"""PostgreSQL: many writers of one object, and of a store that is new, come one after the other."""

from __future__ import annotations
