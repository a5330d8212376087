"""Who calls a tool: where, with which rights, and under which name the log has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from ebbtide.access.rights import RIGHTS, Right, Role
from ebbtide.access.tokens import Principal


@dataclass(frozen=True)
class Caller:
    """One namespace, what may be done there, and the actor of what is written.

    `scrubs` says whether the bytes of what is erased are taken out of the database's files at once.
    """

    namespace: str
    rights: frozenset[Right]
    actor: str
    actor_type: str
    scrubs: bool = True

    @classmethod
    def of(cls, who: Principal, namespace: str, role: Role | None = None, *, scrubs: bool = True) -> Self:
        """A principal as it is bound to a namespace: its rights, and where a role is given only those of that too."""
        rights = RIGHTS[who.role] if role is None else RIGHTS[who.role] & RIGHTS[role]
        return cls(namespace, rights, who.actor, who.actor_type, scrubs)

    def asks(self) -> dict[str, Any]:
        """What every request says of its caller."""
        return {"namespace": self.namespace, "actor": self.actor, "actor_type": self.actor_type}
