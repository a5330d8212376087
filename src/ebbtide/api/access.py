"""Access: tokens for those who come over a network."""

from __future__ import annotations

from uuid import UUID

from ebbtide.access import tokens
from ebbtide.access.rights import Role
from ebbtide.access.tokens import NewToken, Principal, Token
from ebbtide.api.opened import Opened, When, actor_of, micros
from ebbtide.model import instant
from ebbtide.model.errors import BadInput
from ebbtide.model.identity import identifier


class Access(Opened):
    """Tokens of a store. Who has the store itself needs none."""

    def create_token(
        self,
        role: Role | str,
        *,
        namespace: str | None = None,
        every_namespace: bool = False,
        actor: str | None = None,
        actor_type: str = "AI_AGENT",
        expires_at: When = None,
    ) -> NewToken:
        """Makes a token of one namespace, or of every one; its text is in the answer and nowhere else.

        What is written with it is written by its actor, named after the token where no name is given.
        """
        if (namespace is None) is not every_namespace:
            raise BadInput("say which namespace, or that it is every namespace", field="namespace")
        if namespace is not None:
            identifier(namespace, "namespace")
        chosen, now, until = tokens.role_of(role), self._clock(), micros(expires_at, "expires")
        if until is not None and until <= now:
            raise BadInput(f"{instant.iso(until)} has passed: a token lasts until then", field="expires")

        def principal(token_id: UUID) -> Principal:
            who = actor_of(actor or f"token-{token_id.hex[:8]}", actor_type)
            return Principal(namespace, chosen, who.id, who.type)

        with self.store.begin() as connection:
            return tokens.create(connection, principal, now=now, expires_at=until, entropy=self._entropy)

    def tokens(self, *, namespace: str | None = None) -> list[Token]:
        """The tokens of one namespace, or all there are, ended ones among them."""
        with self.store.begin() as connection:
            return tokens.listed(connection, namespace)

    def revoke_token(self, token_id: UUID | str) -> Token:
        """Ends a token for good, from now on; ended twice it changes nothing."""
        try:
            wanted = UUID(str(token_id))
        except ValueError as error:
            raise BadInput(f"{token_id!r} is no token id: `ebb token list` shows them", field="token") from error
        with self.store.begin() as connection:
            return tokens.revoke(connection, wanted, self._clock())

    def principal(self, token: str) -> Principal | None:
        """Who bears a token; None where it is unknown, revoked or expired."""
        with self.store.begin() as connection:
            return tokens.bearer(connection, token, self._clock())
