"""The page on keeping a vector store in step is done as it stands, with the vectors in pgvector; on both databases."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url
from tests.test_docs import VECTORS as PAGE
from tests.test_docs import blocks, folder, name_of, run_python, same

from ebbtide import Ebbtide, NotFound, Refused

__all__ = ["folder"]

pytestmark = pytest.mark.lets_go


@pytest.fixture
def page(
    url: str, make_url_for: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """What the page's Python leaves behind, each block having printed what stands below it."""
    other = make_url(make_url_for("postgresql")).set(drivername="postgresql")
    monkeypatch.setenv("EBB_URL", url)
    monkeypatch.setenv("VECTORS_URL", other.render_as_string(hide_password=False))
    names: dict[str, Any] = {"__name__": "__main__"}
    with ExitStack() as held:
        for block in blocks(PAGE):
            assert block.language == "python", block
            printed = run_python(block, PAGE, names)
            if block.file:
                held.push(names["ebb"])
                held.push(names["vectors"])
            assert block.printed is None or same(block.printed, printed), f"{name_of(PAGE)}:{block.line}\n{printed}"
        yield names


SAID: Any = {"epistemic_type": "ASSERTED", "source_type": "USER_STATED"}
ACTS: list[Callable[[Ebbtide, str], Any]] = [
    lambda ebb, ref: ebb.archive(ref, namespace="maya"),
    lambda ebb, ref: ebb.restore(ref, namespace="maya"),
    lambda ebb, ref: ebb.suppress(ref, namespace="maya"),
    lambda ebb, ref: ebb.unsuppress(ref, namespace="maya"),
    lambda ebb, ref: ebb.suppress(subject="maya", namespace="maya"),
    lambda ebb, ref: ebb.assert_memory(f"{ref} is new.", subject="maya", namespace="maya", **SAID),
    lambda ebb, ref: ebb.set_condition(ref, "TRUE", namespace="maya"),
    lambda ebb, ref: ebb.unsuppress(subject="maya", namespace="maya"),
    lambda ebb, ref: ebb.set_condition(ref, "FALSE", namespace="maya"),
    lambda ebb, ref: ebb.reinforce(ref, signal="CONFIRMED", restore=True, namespace="maya"),
    lambda ebb, ref: ebb.penalise(ref, signal="CORRECTED", namespace="maya"),
    lambda ebb, ref: ebb.transition(ref, "ASSERTED", trigger_type="user_correction", namespace="maya"),
    lambda ebb, ref: ebb.supersede(ref, f"Not {ref}.", ref=f"{ref}, anew", namespace="maya"),
    lambda ebb, ref: ebb.erase(ref, namespace="maya", scrub=False),
]


def kept(vectors: psycopg.Connection[Any]) -> set[str]:
    return {str(row[0]) for row in vectors.execute("SELECT object_id FROM memory_vectors")}


def in_step(ebb: Ebbtide, vectors: psycopg.Connection[Any]) -> bool:
    """What may be retrieved has a vector; what has left for good, or until it is restored, has none.

    Of what is suppressed one may be left that is withheld for another reason once that ends; `rank` withholds it.
    """
    found = ebb.memories(namespace="maya", everything=True)
    eligible = {str(memory.id) for memory in found if memory.eligible}
    active = {str(memory.id) for memory in found if memory.lifecycle_state == "ACTIVE" and memory.erased_at is None}
    return eligible <= kept(vectors) <= active


def acted(ebb: Ebbtide, act: Callable[[Ebbtide, str], Any], refs: list[str]) -> bool:
    """Does something to the first of some memories that takes it."""
    for ref in refs:
        try:
            act(ebb, ref)
        except (Refused, NotFound):
            continue
        return True
    return False


def test_the_page_and_whatever_happens_then(page: dict[str, Any]) -> None:
    """After the page, everything that may happen, to memories at random: after each step the vectors are in step."""
    ebb, vectors, chance = page["ebb"], page["vectors"], random.Random(3)
    kinds = [("ASSERTED", {}), ("CONDITIONAL", {"condition": "UNKNOWN"}), ("UNVERIFIED", {"confidence": 0.29})]
    assert kept(vectors) == set()
    refs = [f"m{number}" for number in range(12)]
    with ebb.store.session():
        for ref, (kind, more) in zip(refs, 4 * kinds, strict=True):
            page["remember"](ref, f"The note {ref} of Maya.", epistemic_type=kind, **more)
        for act in ACTS:
            assert acted(ebb, act, chance.sample(refs, k=len(refs)))
            page["step"]()
            assert in_step(ebb, vectors)
    assert kept(vectors)
