"""Fitting: the policy that a namespace's own facts speak for."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from ebbtide.api.opened import Progress, When, micros, no_progress
from ebbtide.api.policies import Policies
from ebbtide.fit import exposures
from ebbtide.fit.fitting import Fit, Fitting
from ebbtide.fit.models import FAMILIES
from ebbtide.memory.requests import DEFAULT_NAMESPACE
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.model.identity import identifier
from ebbtide.policy.files import library
from ebbtide.store.tables import namespaces

MOST_RESAMPLES = 10_000


class FittingPolicies(Policies):
    """Policies that follow from the log."""

    def fit_policy(
        self,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        curves: Sequence[str] = (),
        policy_id: str = "fitted",
        version: str | None = None,
        min_days: float = 1.0,
        seed: int = 0,
        resamples: int = 200,
        as_of: When = None,
        known_at: When = None,
        progress: Progress = no_progress,
    ) -> Fit:
        """Fits each decay profile of a namespace to its signals, and compares with what it has and what is built in.

        A REINFORCE is a recall, a PENALTY a miss; only those count that come `min_days` or more after the object's
        signal before. The policy in the result is the namespace's, with the curves that do best on objects held out; it
        is neither registered nor assigned. `version` is by default the next minor one of `policy_id` that is free. The
        same log, `seed` and numbers give the same result. Nothing is written.

        Raises `CheckFailed` where the log has too little, and `BadInput` without `ebbtide[fit]`.
        """
        known_curves = [family.name for family in FAMILIES]
        if unknown := [name for name in curves if name not in known_curves]:
            raise BadInput(f"{unknown[0]!r} is no curve to fit: one of {', '.join(known_curves)}", field="curve")
        if not 0 <= min_days <= 36_525:
            raise BadInput("must be from 0 to 36525", field="min-days")
        if not 1 <= resamples <= MOST_RESAMPLES:
            raise BadInput(f"must be from 1 to {MOST_RESAMPLES}", field="resamples")
        if seed < 0:
            raise BadInput("must be 0 or more", field="seed")
        known = micros(known_at, "known-at")
        known = self._clock() if known is None else known
        until = micros(as_of, "as-of")
        with self.store.session() as connection, self.store.db.snapshot(connection).begin():
            query = select(namespaces.c.policy_id, namespaces.c.policy_version)
            now = connection.execute(
                query.where(namespaces.c.namespace_id == identifier(namespace, "namespace"))
            ).one_or_none()
            if now is None:
                raise NotFound(f"there is no namespace {namespace!r}", field="namespace")
            found = exposures.read(self.store.db, connection, namespace, known if until is None else until, known)
        fitting = Fitting(
            self.policy(f"{now.policy_id}@{now.policy_version}"),
            [policy for policy, _ in library().values()],
            tuple(curves) or tuple(known_curves),
            min_days,
            seed,
            resamples,
            progress,
        )
        return fitting.run(found, policy_id, version or self._next_version(policy_id))

    def _next_version(self, policy_id: str) -> str:
        """The next minor version of a policy that is free."""
        taken = [policy.version for policy in self.policies() if policy.id == policy_id]
        numbers = [tuple(map(int, version.split("-")[0].split("."))) for version in taken]
        if not numbers:
            return "1.0.0"
        major, minor, _ = max(numbers)
        return f"{major}.{minor + 1}.0"
