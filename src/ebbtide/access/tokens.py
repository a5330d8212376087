"""Bearer tokens: a random secret, of which the store keeps only the hash.

The text of a token is `ebb_` and 64 characters: base64url of its id and its secret. It is shown once. The secret is 32
random bytes, so that its plain SHA-256 is as hard to guess as itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection, insert, select, update

from ebbtide.access.rights import RIGHTS, Right, Role
from ebbtide.model import instant
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.model.words import ActorType
from ebbtide.project.shelf import STORE_WIDE
from ebbtide.store.tables import tokens

PREFIX = "ebb_"
ID, SECRET = 16, 32
"""Bytes of a token's id and of its secret."""
_NOBODY = bytes(hashlib.sha256().digest_size)
"""What the secret of an unknown token is compared with: no hash that anybody could meet."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever asks: where (None is every namespace), in which role, and as which actor of the log."""

    namespace: str | None
    role: Role
    actor: str
    actor_type: ActorType

    def may(self, right: Right) -> bool:
        """Whether the role has a right."""
        return right in RIGHTS[self.role]

    def reaches(self, namespace: str) -> bool:
        """Whether a namespace is there for it at all."""
        return self.namespace in (None, namespace)


class Token(BaseModel):
    """A token as it is listed: everything but the secret. `namespace` is null where it is of every namespace."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    namespace: str | None
    role: Role
    actor: str
    actor_type: ActorType
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NewToken(Token):
    """A token as it is made: `token` is its text, which nothing can show again."""

    token: str


def create(
    connection: Connection,
    principal: Callable[[UUID], Principal],
    *,
    now: int,
    expires_at: int | None,
    entropy: Callable[[int], bytes],
) -> NewToken:
    """Makes a token in the caller's transaction, for whom `principal` says of its id."""
    raw_id, secret = entropy(ID), entropy(SECRET)
    token_id = UUID(bytes=raw_id)
    who = principal(token_id)
    row = {
        "namespace_id": STORE_WIDE if who.namespace is None else who.namespace,
        "token_id": token_id,
        "role": who.role.value,
        "actor_id": who.actor,
        "actor_type": who.actor_type.value,
        "secret_hash": hashlib.sha256(secret).digest(),
        "created_at": now,
        "expires_at": expires_at,
        "revoked_at": None,
    }
    connection.execute(insert(tokens), row)
    text = PREFIX + base64.urlsafe_b64encode(raw_id + secret).decode()
    return NewToken(token=text, **dict(_token(row)))


def listed(connection: Connection, namespace: str | None) -> list[Token]:
    """The tokens of one namespace, or all there are; oldest first."""
    query = select(tokens).order_by(tokens.c.created_at, tokens.c.token_id)
    if namespace is not None:
        query = query.where(tokens.c.namespace_id == namespace)
    return [_token(row._mapping) for row in connection.execute(query)]


def revoke(connection: Connection, token_id: UUID, now: int) -> Token:
    """Ends a token for good, in the caller's transaction; one that has ended so already stays as it is."""
    mine = tokens.c.token_id == token_id
    connection.execute(update(tokens).where(mine, tokens.c.revoked_at.is_(None)).values(revoked_at=now))
    row = connection.execute(select(tokens).where(mine)).first()
    if row is None:
        raise NotFound(f"there is no token {token_id}: `ebb token list` shows them")
    return _token(row._mapping)


def read(text: str) -> tuple[UUID, bytes] | None:
    """The id of a token and the hash of its secret; None where a text is no token."""
    try:
        raw = base64.b64decode(text.removeprefix(PREFIX), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if not text.startswith(PREFIX) or len(raw) != ID + SECRET:
        return None
    return UUID(bytes=raw[:ID]), hashlib.sha256(raw[ID:]).digest()


def bearer(connection: Connection, text: str, now: int) -> Principal | None:
    """Who bears a token; None where it is unknown, ended or expired, which takes as long."""
    token_id, given = read(text) or (UUID(int=0), _NOBODY)
    row: Any = connection.execute(select(tokens).where(tokens.c.token_id == token_id)).first()
    same = hmac.compare_digest(given, _NOBODY if row is None else bytes(row.secret_hash))
    if row is None or not same or row.revoked_at is not None or (row.expires_at or now + 1) <= now:
        return None
    token = _token(row._mapping)
    return Principal(token.namespace, token.role, token.actor, token.actor_type)


def role_of(name: str) -> Role:
    """A role by its name."""
    if name not in list(Role):
        raise BadInput(f"{name!r} is none of {', '.join(Role)}", field="role")
    return Role(name)


def _token(row: Any) -> Token:
    def time(name: str) -> datetime | None:
        return None if row[name] is None else instant.to_datetime(row[name])

    return Token(
        id=row["token_id"],
        namespace=row["namespace_id"] or None,
        role=row["role"],
        actor=row["actor_id"],
        actor_type=row["actor_type"],
        created_at=instant.to_datetime(row["created_at"]),
        expires_at=time("expires_at"),
        revoked_at=time("revoked_at"),
    )
