"""A proof shows one entry to be in a log, to whoever has nothing but it and a kept digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance import lived
from tests.conformance.ledger import canonical, entries_of
from tests.conftest import DATABASES, Clock, counted_entropy

from ebbtide import BadInput, Ebbtide, NotFound
from ebbtide.log.digest import Digest, Proof, check_proof

MANY = 600
"""Entries of one batch: two whole blocks and a part of one, with the two that begin the namespace."""


@pytest.fixture(scope="module", params=DATABASES)
def kept(request: pytest.FixtureRequest, make_url_for_module) -> Iterator[tuple[Ebbtide, list[Digest]]]:
    """A store with a large batch and some small ones, and the digests after each."""
    digests = []
    with Ebbtide.open(make_url_for_module(request.param), clock=Clock(), entropy=counted_entropy()) as ebb:
        for asked in (["first"], [f"b{n}" for n in range(MANY)], ["c"], ["d"]):
            ebb.ask(*(lived.belief(ref) for ref in asked))
            digests.append(ebb.digest())
        yield ebb, digests


def test_entries_of_every_block_are_proved(kept):
    ebb, digests = kept
    for entry in entries_of(ebb)[::37]:
        proof = ebb.prove(entry.seq)
        assert proof.entry["id"] == str(entry.id)
        for number, digest in enumerate(digests):
            newer = entry.seq > digest.heads[0].seq
            bad = check_proof(proof, digest)
            assert (bad is not None) == newer, f"seq {entry.seq} against digest {number}"
            assert not newer or "newer than the digest" in bad.what
        assert ebb.prove(str(entry.id)) == proof


def test_a_proof_is_what_hashlib_makes_of_it(kept):
    """Along the documented definitions, from the file alone."""
    ebb, digests = kept
    entry = entries_of(ebb)[399]
    proof = json.loads(ebb.prove(400).model_dump_json())
    assert hashlib.sha256(entry.prev_hash + canonical(entry)).hexdigest() == proof["entry"]["hash"]
    first, *later = proof["batches"]
    place = 400 - first["first_seq"]
    assert proof["block"][place % 256] == proof["entry"]["hash"]
    assert len(proof["block"]) == 256
    block = hashlib.sha256(b"\x00" + bytes.fromhex("".join(proof["block"]))).hexdigest()
    assert proof["blocks"][place // 256] == block
    before = bytes.fromhex(proof["prev_hash"])
    root = hashlib.sha256(b"\x01" + bytes.fromhex("".join(proof["blocks"]))).digest()
    for batch in [first, *later]:
        begin, count = batch["first_seq"], batch["entries"]
        said = "\x1f".join(("default", *(str(n) for n in (batch["batch"], begin, begin + count - 1, count))))
        given = root if batch is first else bytes.fromhex(batch["root"])
        before = hashlib.sha256(before + said.encode() + given).digest()
    assert before.hex() == proof["head"]["hash"] == digests[-1].heads[0].hash


def leaves(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value of a document with its place."""
    if isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from leaves(value, (*path, key))
    else:
        yield path, document


def altered(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    here = copy
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return copy


def other(value: Any) -> Any:
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1")
    return "x" if value is None else value + 1


def test_any_value_of_a_proof(kept):
    """But for the head's, which are what it is compared with, all is bound together already without a digest."""
    ebb, digests = kept
    proof = json.loads(ebb.prove(400).model_dump_json())
    places = [path for path, _ in leaves(proof) if path[0] not in ("block", "blocks")]
    places += [("block", 0), ("block", 255), ("blocks", 0), ("blocks", 2)]
    assert len(places) > 40
    values = dict(leaves(proof))
    for path in places:
        forged = Proof.model_validate(altered(proof, path, other(values[path])))
        assert check_proof(forged) is not None, path
        assert check_proof(forged, digests[-1]) is not None, path


def test_a_proof_of_what_never_was(kept):
    """Whoever makes up entry, blocks and head has a proof that fits together, and no digest that it fits."""
    ebb, digests = kept
    proof = json.loads(ebb.prove(digests[-1].heads[0].seq).model_dump_json())
    entry = proof["entry"] | {"actor_id": "mallory"}
    made = entries_of(ebb)[-1]
    text = canonical(made).replace(b"\x1fcaller\x1f", b"\x1fmallory\x1f")
    entry["hash"] = hashlib.sha256(made.prev_hash + text).hexdigest()
    block = hashlib.sha256(b"\x00" + bytes.fromhex(entry["hash"])).digest()
    root = hashlib.sha256(b"\x01" + block).digest()
    (batch,) = proof["batches"]
    said = "\x1f".join(("default", *(str(n) for n in (batch["batch"], batch["first_seq"], batch["first_seq"], 1))))
    head = hashlib.sha256(bytes.fromhex(proof["prev_hash"]) + said.encode() + root).hexdigest()
    forged = Proof.model_validate(
        proof
        | {
            "entry": entry,
            "block": [entry["hash"]],
            "blocks": [block.hex()],
            "batches": [batch | {"root": root.hex(), "hash": head}],
            "head": proof["head"] | {"hash": head},
        }
    )
    assert check_proof(forged) is None
    assert "not the log that was kept" in check_proof(forged, digests[-1]).what


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"entry": {}}, "has no seq"),
        ({"entry": {"seq": 400}}, "has no namespace_id"),
        ({"blocks": []}, "first batch"),
        ({"block": []}, "not at its place"),
    ],
)
def test_a_proof_with_something_left_out(kept, change, says):
    ebb, _ = kept
    proof = Proof.model_validate(ebb.prove(400).model_dump() | change)
    if "seq" in proof.entry:
        assert says in check_proof(proof).what
    else:
        with pytest.raises(BadInput, match=says):
            check_proof(proof)


def test_values_that_stand_for_others_are_refused(kept):
    """U+001E stands for null, U+001F between columns: neither may come in by a proof."""
    ebb, _ = kept
    proof = ebb.prove(400)
    assert proof.entry["content_hash"] is not None
    for value in ("\x1e", "a\x1fb"):
        forged = proof.model_copy(update={"entry": proof.entry | {"actor_id": value}})
        assert "U+001E" in check_proof(forged).what


def test_only_what_is_there_is_proved(kept):
    ebb, digests = kept
    with pytest.raises(NotFound, match="its log ends at"):
        ebb.prove(digests[-1].heads[0].seq + 1)
    with pytest.raises(NotFound, match="nobody"):
        ebb.prove(1, namespace="nobody")
    proof = ebb.prove(1)
    elsewhere = digests[0].model_copy(update={"heads": []})
    assert "no head of the namespace" in check_proof(proof, elsewhere).what
