"""The policies of a store: registered store-wide, and as assigned in each namespace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, and_, select
from sqlalchemy.dialects.postgresql import insert as insert_or_skip

from ebbtide.decay.segment import Terms
from ebbtide.model.errors import Conflict, NotFound
from ebbtide.policy.document import Policy
from ebbtide.store.database import Database
from ebbtide.store.tables import namespaces, policies, policy_profiles

STORE_WIDE = ""
"""The namespace under which a policy version is registered for all; no caller's namespace is empty."""


def profile_rows(namespace: str, terms: Terms) -> list[dict[str, Any]]:
    """The rows of `policy_profiles` of a policy version, as a namespace has it."""
    policy = terms.policy
    key = {"namespace_id": namespace, "policy_id": policy.id, "policy_version": policy.version}
    return [{**key, "decay_profile": name, **asdict(numbers)} for name, numbers in terms.by_profile.items()]


@lru_cache(maxsize=256)
def terms_in(document: str) -> Terms:
    """The terms of a policy's document, which never changes: most namespaces have the same few."""
    return Terms.of(Policy.model_validate(json.loads(document)))


def _terms_in(document: str | None, policy_id: str, version: str) -> Terms:
    if document is None:
        raise NotFound(f"{policy_id}@{version} is not registered: `ebb policy register FILE`")
    return terms_in(document)


class Shelf:
    """Policies by namespace and version, read once per unit of work."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._terms: dict[tuple[str, str, str], Terms] = {}

    def terms(self, namespace: str, policy_id: str, version: str) -> Terms:
        """The terms of a policy version as a namespace has it."""
        key = (namespace, policy_id, version)
        if key not in self._terms:
            self._terms[key] = _terms_in(self._document(*key), policy_id, version)
        return self._terms[key]

    def in_force(self, db: Database, names: Sequence[str]) -> dict[str, Terms]:
        """The terms of the policy that each of some namespaces has now; of those that are there.

        Raises `NotFound` and `ValueError` where one is missing or cannot be read.
        """
        n, p = namespaces.c, policies.c
        key = (n.namespace_id, n.policy_id, n.policy_version)
        mine = and_(*(one == p[one.name] for one in key))
        query = select(*key, p.document).join_from(namespaces, policies, mine, isouter=True)
        found = {}
        for *own, document in self._connection.execute(query.where(db.among(n.namespace_id, names))):
            found[own[0]] = self._terms[own[0], own[1], own[2]] = _terms_in(document, own[1], own[2])
        return found

    def find(self, namespace: str, policy_id: str, version: str) -> Policy | None:
        """A policy version as it was registered, or None."""
        document = self._document(namespace, policy_id, version)
        return None if document is None else terms_in(document).policy

    def _document(self, namespace: str, policy_id: str, version: str) -> str | None:
        return self._connection.execute(
            select(policies.c.document).where(
                policies.c.namespace_id == namespace,
                policies.c.policy_id == policy_id,
                policies.c.policy_version == version,
            )
        ).scalar()

    def put(self, namespace: str, policy: Policy, now: int) -> bool:
        """Registers a version; False where it is there already with the same content. Other content is refused.

        Of two that register the same version at once, the second waits for the first.
        """
        known = self.find(namespace, policy.id, policy.version)
        key = {"namespace_id": namespace, "policy_id": policy.id, "policy_version": policy.version}
        if known is None:
            self._connection.execute(
                insert_or_skip(policies).on_conflict_do_nothing(),
                {**key, "document": policy.canonical(), "registered_at": now},
            )
            profiles = profile_rows(namespace, Terms.of(policy))
            self._connection.execute(insert_or_skip(policy_profiles).on_conflict_do_nothing(), profiles)
        found = known or self.find(namespace, policy.id, policy.version)
        if found != policy:
            raise Conflict(
                f"{policy.name} is registered with other content: a version never changes, give it a new one",
                rule="policy_immutable",
            )
        return known is None

    def registered(self) -> list[Policy]:
        """All versions registered store-wide."""
        rows = self._connection.execute(
            select(policies.c.document)
            .where(policies.c.namespace_id == STORE_WIDE)
            .order_by(policies.c.policy_id, policies.c.policy_version)
        )
        return [Policy.model_validate(json.loads(document)) for (document,) in rows]
