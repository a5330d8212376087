"""Tokens: who they let in, for how long, and what the store keeps of them."""

from __future__ import annotations

import base64

import pytest
from sqlalchemy import select

from ebbtide.access.rights import RIGHTS, Right, Role
from ebbtide.access.tokens import Principal
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.model.words import ActorType
from ebbtide.store.tables import tokens


def test_a_token_opens_its_namespace_in_its_role_until_it_ends(ebb, clock):
    made = ebb.create_token("writer", namespace="maya", actor="assistant", expires_at="2026-03-03T00:00:00Z")
    assert made.token.startswith("ebb_")
    assert len(made.token) == 4 + 64
    who = Principal("maya", Role.WRITER, "assistant", ActorType.AI_AGENT)
    assert ebb.principal(made.token) == who
    clock.set("2026-03-02T23:59:59Z")
    assert ebb.principal(made.token) == who
    clock.set("2026-03-03T00:00:00Z")
    assert ebb.principal(made.token) is None


def test_a_revoked_token_lets_nobody_in_and_stays_revoked_as_of_then(ebb, clock):
    made = ebb.create_token("reader", every_namespace=True)
    assert ebb.principal(made.token).namespace is None
    ended = ebb.revoke_token(made.id)
    assert ended.revoked_at.isoformat() == "2026-03-02T00:00:00+00:00"
    assert ebb.principal(made.token) is None
    clock.forward(days=1)
    assert ebb.revoke_token(str(made.id)) == ended


def test_the_store_keeps_no_secret(ebb):
    made = ebb.create_token("operator", namespace="maya")
    raw = base64.urlsafe_b64decode(made.token[4:])
    with ebb.store.begin() as connection:
        row = connection.execute(select(tokens)).mappings().one()
    assert row["token_id"].bytes == raw[:16]
    assert not any(raw[16:] in bytes(v) for v in row.values() if isinstance(v, bytes | memoryview))
    assert "token" not in ebb.tokens()[0].model_dump()


def test_another_secret_under_a_known_id_is_refused(ebb):
    text = ebb.create_token("operator", namespace="maya").token
    other = ebb.create_token("operator", namespace="maya").token
    assert ebb.principal(text[:26] + other[26:]) is None


@pytest.mark.parametrize(
    "text", ["", "ebb_", "ebb_é", "ebb_" + "A" * 64, "A" * 68, "ebb_" + "A" * 63, "ebb_" + "=" * 64]
)
def test_what_is_no_token_lets_nobody_in(ebb, text):
    assert ebb.principal(text) is None


def test_tokens_are_listed_by_namespace(ebb):
    mine = ebb.create_token("reader", namespace="maya")
    ebb.create_token("auditor", namespace="tom")
    every = ebb.create_token("auditor", every_namespace=True)
    assert [one.id for one in ebb.tokens(namespace="maya")] == [mine.id]
    assert {one.namespace for one in ebb.tokens()} == {"maya", "tom", None}
    assert every.actor == f"token-{every.id.hex[:8]}"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"role": "root", "namespace": "maya"}, "role"),
        ({"role": "reader"}, "namespace"),
        ({"role": "reader", "namespace": "maya", "every_namespace": True}, "namespace"),
        ({"role": "reader", "namespace": ""}, "namespace"),
        ({"role": "reader", "namespace": "maya", "actor": "a\nb"}, "actor"),
        ({"role": "reader", "namespace": "maya", "actor_type": "GOD"}, "actor_type"),
        ({"role": "reader", "namespace": "maya", "expires_at": "2026-03-02T00:00:00Z"}, "expires"),
        ({"role": "reader", "namespace": "maya", "expires_at": "tomorrow"}, "expires"),
    ],
)
def test_bad_input_is_refused_with_its_field(ebb, given, field):
    with pytest.raises(BadInput) as caught:
        ebb.create_token(**given)
    assert caught.value.field == field
    assert ebb.tokens() == []


def test_an_unknown_token_cannot_be_revoked(ebb):
    with pytest.raises(NotFound):
        ebb.revoke_token("0b9d2c5e-5d2c-4c1f-9a53-3c1f0c8f9f11")
    with pytest.raises(BadInput):
        ebb.revoke_token("mine")


def test_each_role_may_what_the_page_says():
    assert {
        Role.READER: {Right.READ},
        Role.WRITER: {Right.READ, Right.WRITE},
        Role.AUDITOR: {Right.READ, Right.AUDIT},
        Role.OPERATOR: {Right.READ, Right.WRITE, Right.AUDIT, Right.ERASE, Right.OPERATE},
    } == RIGHTS
