"""Tokens, as operators see them: never a secret."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from ebbtide.access.tokens import Token
from ebbtide.service.http.access import Ebb, Operator
from ebbtide.service.http.fields import Namespace

router = APIRouter(prefix="/v1/namespaces/{namespace:name}/tokens", tags=["access"])


class Tokens(BaseModel):
    """The tokens of a namespace, ended ones too."""

    tokens: list[Token]


@router.get("")
def tokens(namespace: Namespace, who: Operator, ebb: Ebb) -> Tokens:
    """The tokens of the namespace. They are made and revoked by `ebb token`, where the store is."""
    return Tokens(tokens=ebb.tokens(namespace=namespace))
