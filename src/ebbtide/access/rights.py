"""Roles and what each may do. The one table that every service asks."""

from enum import StrEnum


class Right(StrEnum):
    """What a route needs."""

    READ = "read"
    """Memories, their history and explanation, ranking, policies, following."""
    WRITE = "write"
    """Every request about memory, and acknowledging evictions."""
    AUDIT = "audit"
    """Named queries, runs, verification, digests, plans and simulations: what reads a whole namespace."""
    ERASE = "erase"
    """Erasing, and showing what would go."""
    OPERATE = "operate"
    """Approving runs, letting time pass, assigning and registering policies, applying corrections."""


class Role(StrEnum):
    READER = "reader"
    WRITER = "writer"
    OPERATOR = "operator"
    AUDITOR = "auditor"


RIGHTS: dict[Role, frozenset[Right]] = {
    Role.READER: frozenset({Right.READ}),
    Role.WRITER: frozenset({Right.READ, Right.WRITE}),
    Role.OPERATOR: frozenset(Right),
    Role.AUDITOR: frozenset({Right.READ, Right.AUDIT}),
}
