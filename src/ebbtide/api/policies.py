"""Policy versions: those at hand, registering them, and assigning them to namespaces."""

from __future__ import annotations

from ebbtide.api.opened import Opened, actor_of
from ebbtide.memory.assign import Assignment
from ebbtide.memory.requests import DEFAULT_NAMESPACE
from ebbtide.model.errors import Conflict, NotFound
from ebbtide.model.identity import identifier
from ebbtide.policy.document import Policy, split_name
from ebbtide.project.shelf import STORE_WIDE, Shelf


class Policies(Opened):
    """Policies of a store. A version never changes."""

    def policies(self) -> list[Policy]:
        """All policy versions at hand: built in, in the folder of policy files, and registered in the store."""
        with self.store.begin() as connection:
            registered = Shelf(connection).registered()
        found = {policy.name: policy for policy, _ in self._library.values()} | {p.name: p for p in registered}
        return [found[name] for name in sorted(found)]

    def policy(self, name: str) -> Policy:
        """A policy version by `id@version`, as it is registered, or as its file has it."""
        policy_id, version = split_name(name)
        with self.store.begin() as connection:
            found = Shelf(connection).find(STORE_WIDE, policy_id, version)
        if found is None and name in self._library:
            return self._library[name][0]
        if found is None:
            raise NotFound(f"there is no policy {name}: `ebb policy list` names those at hand")
        return found

    def register_policy(self, policy: Policy) -> bool:
        """Registers a version for good; False where it is there already. Other content under its name is refused."""
        self.refuse_other_content(policy)
        with self.store.begin() as connection:
            return Shelf(connection).put(STORE_WIDE, policy, self._clock())

    def assign_policy(
        self,
        name: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        actor: str = "caller",
        actor_type: str = "SYSTEM_PROCESS",
    ) -> int:
        """Assigns a version to a namespace and to each of its objects that can still change, from now on.

        Each begins a new segment that goes on where its old one is. How many objects changed; asked again after a
        crash it goes on, and asked twice it changes nothing.
        """
        policy, who = self.policy(name), actor_of(actor, actor_type)
        identifier(namespace, "namespace")
        with self.store.session() as connection:
            work = Assignment(self.store.db, connection, self._clock, self._entropy, self._chunk_size)
            return work.run(namespace, policy, who)

    def refuse_other_content(self, policy: Policy) -> None:
        """Raises `Conflict` where a policy at hand, or registered, has a policy's name and other content."""
        with self.store.begin() as connection:
            registered = Shelf(connection).find(STORE_WIDE, policy.id, policy.version)
        known = self._library.get(policy.name, (None,))[0]
        if any(other is not None and other != policy for other in (known, registered)):
            raise Conflict(
                f"{policy.name} is the name of a policy at hand with other content: give it a new version",
                rule="policy_immutable",
            )
