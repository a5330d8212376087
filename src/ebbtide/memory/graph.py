"""Entities and how they and memories are related. Entries stand in the namespace's own stream; names are content."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from ebbtide.memory.case import Case
from ebbtide.memory.requests import ContradictionNoted, EntityCreate, EntityMerge, Line, Relate
from ebbtide.model.entry import Draft
from ebbtide.model.errors import BadInput, NotFound, Refused
from ebbtide.model.identity import id_of_entry
from ebbtide.model.words import OpType

CONTRADICTS = "CONTRADICTS"


def contradicted(case: Case, line: ContradictionNoted) -> Iterator[Draft]:
    """CONTRADICTION_NOTED: both memories stay as they are, and an edge CONTRADICTS is added."""
    a, b = _memory(case, line.object_a, "object_a"), _memory(case, line.object_b, "object_b")
    if a == b:
        raise BadInput("is the same memory as object_a", field="object_b")
    _edge(case, line, CONTRADICTS, a, b, 1.0)
    yield case.of_namespace(line, OpType.CONTRADICTION_NOTED, {"object_id_a": str(a), "object_id_b": str(b)})


def related(case: Case, line: Relate) -> Iterator[Draft]:
    """RELATE: an edge from one memory or entity to another."""
    source, target = case.node(line.source, "source"), case.node(line.target, "target")
    _edge(case, line, line.edge_type, source, target, line.confidence)
    payload = {
        "edge_type": line.edge_type,
        "source_id": str(source),
        "target_id": str(target),
        "confidence": line.confidence,
    }
    yield case.of_namespace(line, OpType.RELATE, payload)


def entity_created(case: Case, line: EntityCreate) -> Iterator[Draft]:
    """ENTITY_CREATE: its names go to the contents."""
    entity = case.new_id(line)
    case.writer.note_entity(
        {
            "entity_id": entity,
            "ref": line.ref,
            "entity_type": line.entity_type,
            "created_at": case.instant(line),
            "content_seq": case.writer.next_seq,
            "merged_into": None,
        }
    )
    payload = {"entity_id": str(entity), "ref": line.ref, "entity_type": line.entity_type}
    yield case.of_namespace(line, OpType.ENTITY_CREATE, payload)


def entities_merged(case: Case, line: EntityMerge) -> Iterator[Draft]:
    """ENTITY_MERGE: from now on the merged entity stands for the primary one."""
    primary, merged = (case.node(name, field) for name, field in ((line.primary, "primary"), (line.merged, "merged")))
    rows = [case.writer.entity(node) for node in (primary, merged)]
    if None in rows or primary == merged:
        raise BadInput("name two different entities", field="merged")
    for row, name in zip(rows, (line.primary, line.merged), strict=True):
        assert row is not None, "just checked"
        if row["merged_into"] is not None:
            raise Refused(f"{name} was merged into another entity already", rule="merged_once", object=name)
    assert rows[1] is not None, "just checked"
    case.writer.note_entity({**rows[1], "merged_into": primary})
    payload = {"primary_entity_id": str(primary), "merged_entity_id": str(merged)}
    yield case.of_namespace(line, OpType.ENTITY_MERGE, payload)


def _memory(case: Case, name: str, field: str) -> UUID:
    node = case.node(name, field)
    if case.writer.state(node) is None:
        raise NotFound(f"{name!r} is an entity, not a memory", field=field, object=name)
    return node


def _edge(case: Case, line: Line, kind: str, source: UUID, target: UUID, confidence: float) -> None:
    case.writer.note_edge(
        {
            "edge_id": id_of_entry(case.writer.namespace, case.writer.next_seq),
            "edge_type": kind,
            "source_id": source,
            "target_id": target,
            "confidence": confidence,
            "created_at": case.instant(line),
        }
    )
