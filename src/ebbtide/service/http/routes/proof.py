"""Whether the log is whole, what to keep of it elsewhere, and proofs of single entries."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from fastapi import APIRouter, Path, Query

from ebbtide.access.rights import Right
from ebbtide.access.tokens import Principal
from ebbtide.api import Ebbtide
from ebbtide.log.digest import Digest, Proof
from ebbtide.service.http import bodies
from ebbtide.service.http.access import Auditor, Ebb, own
from ebbtide.service.http.answers import BadShown, VerifiedShown
from ebbtide.service.http.fields import Name, Namespace
from ebbtide.service.http.problems import Forbidden

router = APIRouter(tags=["proof"])
Of = Annotated[Name | None, Query(description="Only this namespace")]


@router.get("/v1/digest")
def digest(who: Auditor, ebb: Ebb, namespace: Of = None) -> Digest:
    """Where each log ends: to be kept where nobody who can write the store can."""
    return ebb.digest(namespace=own(who, namespace))


@router.get("/v1/verify")
def verify(who: Auditor, ebb: Ebb, namespace: Of = None) -> VerifiedShown:
    """Recomputes every hash and link, and compares all else with the log; what is wrong first."""
    return _verify(bodies.Verifying(namespace=namespace), who, ebb)


@router.post("/v1/verify")
def verify_against(body: bodies.Verifying, who: Auditor, ebb: Ebb) -> VerifiedShown:
    """The same against what was kept; `record`, an operator's right, writes the result into each log."""
    if body.record and not who.may(Right.OPERATE):
        raise Forbidden(f"a {who.role} writes nothing: leave out record")
    return _verify(body, who, ebb)


def _verify(body: bodies.Verifying, who: Principal, ebb: Ebbtide) -> VerifiedShown:
    if body.receipt is not None:
        own(who, body.receipt.namespace_id)
    found = ebb.verify(namespace=own(who, body.namespace), digest=body.digest, receipt=body.receipt, record=body.record)
    return VerifiedShown(
        ok=found.ok,
        entries=found.entries,
        batches=found.batches,
        first_bad=None if found.first_bad is None else BadShown(**dataclasses.asdict(found.first_bad)),
        recorded=found.recorded,
    )


@router.get("/v1/namespaces/{namespace:name}/proofs/{entry:name}")
def prove(
    namespace: Namespace,
    entry: Annotated[str, Path(description="An entry's id, or its seq", examples=["1"])],
    who: Auditor,
    ebb: Ebb,
) -> Proof:
    """All that shows one entry to be in the log; no other entry is in it."""
    return ebb.prove(entry, namespace=namespace)
