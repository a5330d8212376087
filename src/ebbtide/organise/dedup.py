"""The dedup pass: of ACTIVE memories that say the same, the younger ones make room for the oldest.

In one namespace, type and subject: the same content, or embeddings whose cosine is at least the policy's. By age, each
memory stays that is like none that stays before it; any other one makes room for the one it is most like. So what
stays does not depend on what was merged already, and a run that was killed goes on as if it had not been.

Pinned, frozen and held memories are left alone, and so is what a rule is about to move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Delete,
    Double,
    Insert,
    Select,
    SmallInteger,
    Table,
    Text,
    Update,
    Uuid,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by

from ebbtide.decay.maths import decimals9
from ebbtide.decay.rules import FAR, next_due
from ebbtide.decay.segment import evaluate
from ebbtide.model.state import BITS, GROUPS
from ebbtide.model.words import GUESSES, LifecycleState, OpType, Resolution
from ebbtide.organise.entities import merge_entities
from ebbtide.policy.document import Policy
from ebbtide.project.alike import alike, comparable
from ebbtide.project.passes import (
    AS_OF,
    NAMESPACE,
    Chunk,
    Columns,
    Staged,
    empty,
    json_of,
    quoted,
    staged,
    temporary,
    whole,
)
from ebbtide.project.scope import Scope, in_range, with_policy
from ebbtide.store.database import SQL, Database
from ebbtide.store.tables import contents, evidence_links, memory_objects, memory_state, policy_profiles

_COSINE: BindParameter[float] = bindparam("dedup_cosine", type_=Double)

_at = func.greatest(AS_OF, memory_state.c.fact_at, type_=BigInteger)
"""When a merge takes effect in an object: at the slot's start, but not before its last fact."""


def _past(instant: Any) -> ColumnElement[bool]:
    return func.coalesce(instant, literal(FAR, BigInteger)) <= _at


_OF = memory_objects.alias("of").c

SUBJECT_TO_DEDUP: ColumnElement[bool] = and_(
    memory_state.c.lifecycle_state == LifecycleState.ACTIVE.value,
    ~memory_state.c.pinned,
    ~memory_state.c.held,
    or_(~memory_state.c.frozen, func.coalesce(memory_state.c.thaws_at, literal(FAR, BigInteger)) <= AS_OF),
    ~_past(memory_state.c.exit_at),
    ~_past(memory_state.c.expires_at),
    exists().where(
        _OF.namespace_id == memory_state.c.namespace_id,
        _OF.object_id == memory_state.c.object_id,
        _OF.created_at <= AS_OF,
    ),
)
"""Which objects a dedup task compares."""


def dedup(
    db: Database, connection: Connection, chunk: Chunk, scope: Scope, policy: Policy, as_of: int
) -> dict[str, int]:
    """Merges those of a chunk that make room as of a slot's start; with the last chunk also entities; the counts."""
    if scope.objects:
        given = scope.parameters() | {AS_OF.key: as_of, _COSINE.key: policy.params.dedup.cosine}
        roughly = db.compares_roughly(connection)
        search: _Search = db.once(f"dedup search {roughly}", lambda: _search(db, roughly=roughly))
        if search.run(connection, given):
            merge: _Merge = db.once("dedup merge", partial(_merge, db))
            for strategy in Resolution:
                merge.run(connection, chunk, given | {_STRATEGY.key: strategy.value})
    if scope.last:
        merge_entities(db, connection, chunk, as_of)
    return {"examined": scope.objects}


# Which are merged


def _candidates() -> Select[Any]:
    """All of the namespace that are compared, numbered from the oldest on."""
    s, o, c = memory_state.c, memory_objects.c, contents.c
    return (
        select(
            func.row_number(type_=BigInteger).over(order_by=(o.created_at, o.content_seq)).label("age"),
            o.object_id,
            o.object_type,
            o.epistemic_type,
            func.coalesce(o.subject, "", type_=Text).label("subject"),
            o.content_seq,
            c.digest,
            c.embedding_model,
            c.dimensions,
        )
        .join_from(memory_state, memory_objects, and_(s.namespace_id == o.namespace_id, s.object_id == o.object_id))
        .join(contents, and_(o.namespace_id == c.namespace_id, o.content_seq == c.seq))
        .where(s.namespace_id == NAMESPACE, SUBJECT_TO_DEDUP)
    )


CANDIDATES = temporary("dedup_candidates", _candidates().subquery())


def _pair(younger: Any, older: Any, strategy: Resolution, similarity: Any) -> Select[Any]:
    return select(
        younger.age.label("younger"),
        older.age.label("older"),
        literal(strategy.value, Text).label("strategy"),
        cast(similarity, Double).label("similarity"),
    ).where(
        younger.object_type == older.object_type,
        younger.subject == older.subject,
        younger.age > older.age,
        # What is known does not make room for a guess, which is not retrieved by default.
        or_(
            older.epistemic_type.notin_([kind.value for kind in GUESSES]),
            older.epistemic_type == younger.epistemic_type,
        ),
    )


_YOUNGER, _OLDER = CANDIDATES.alias("younger").c, CANDIDATES.alias("older").c
PAIRS = temporary("dedup_pairs", _pair(_YOUNGER, _OLDER, Resolution.SAME_CONTENT, None).subquery())
LEFT = temporary("dedup_left", select(PAIRS.c.younger, PAIRS.c.older).subquery())
"""Pairs of which it is not known yet whether the older one stays."""
GONE = temporary("dedup_gone", select(PAIRS.c.younger).subquery())
MERGES = temporary(
    "dedup_merges",
    select(
        CANDIDATES.c.object_id,
        CANDIDATES.c.object_id.label("primary_id"),
        PAIRS.c.strategy,
        PAIRS.c.similarity,
    ).subquery(),
)
"""What is merged in the chunk: the younger one and the one that stays."""


@dataclass(frozen=True, slots=True)
class _Search:
    """The statements that find what is merged, in the order in which they run."""

    candidates: Insert
    same: Insert
    similar: Insert
    left: Insert
    gone: Insert
    settled: Delete
    merges: Insert

    def run(self, connection: Connection, given: Mapping[str, Any]) -> int:
        """Fills `MERGES`; how many there are in the chunk."""
        counted = {"preserve_rowcount": True}
        for table in (CANDIDATES, PAIRS, LEFT, GONE, MERGES):
            empty(connection, table)
        connection.execute(self.candidates, given)
        found = connection.execute(self.same, given, execution_options=counted).rowcount
        if connection.execute(select(exists().where(CANDIDATES.c.dimensions.isnot(None)))).scalar_one():
            found += connection.execute(self.similar, given, execution_options=counted).rowcount
        if not found:
            return 0
        connection.execute(self.left)
        while connection.execute(self.gone, execution_options=counted).rowcount:
            connection.execute(self.settled)
        return connection.execute(self.merges, given, execution_options=counted).rowcount


def _search(db: Database, *, roughly: bool) -> _Search:
    same = _pair(_YOUNGER, _OLDER, Resolution.SAME_CONTENT, None).where(_YOUNGER.digest == _OLDER.digest)
    content, old = contents.c, contents.alias("old_content").c
    both = (
        _pair(_YOUNGER, _OLDER, Resolution.SIMILAR_EMBEDDING, None)
        .add_columns(_YOUNGER.content_seq.label("young_seq"), _OLDER.content_seq.label("old_seq"))
        .where(_YOUNGER.digest != _OLDER.digest, comparable(_YOUNGER, _OLDER))
    )
    pair = db.fence(both).c
    young = db.fence(
        select(pair.younger, pair.older, pair.strategy, pair.old_seq, content.dimensions, content.embedding).where(
            content.namespace_id == NAMESPACE, content.seq == pair.young_seq
        )
    ).c
    pairs = select(young.younger, young.older, young.strategy).where(
        old.namespace_id == NAMESPACE, old.seq == young.old_seq
    )
    similar = alike(db, pairs, young, old, _COSINE, roughly=roughly)
    younger = select(LEFT.c.younger)
    stays = LEFT.c.older.notin_(younger)
    gone = select(GONE.c.younger)
    p, one, other = PAIRS.c, CANDIDATES.alias("one").c, CANDIDATES.alias("other").c
    best = func.row_number().over(
        partition_by=p.younger,
        order_by=(p.strategy, func.coalesce(p.similarity, 0).desc(), p.older),
    )
    chosen = (
        select(p.younger, p.older, p.strategy, p.similarity, best.label("place"))
        .where(p.younger.in_(gone), p.older.notin_(gone))
        .subquery()
        .c
    )
    merges = select(one.object_id, other.object_id.label("primary_id"), chosen.strategy, chosen.similarity).where(
        chosen.place == 1, one.age == chosen.younger, other.age == chosen.older, in_range(one.object_id)
    )
    return _Search(
        candidates=_into(CANDIDATES, _candidates()),
        same=_into(PAIRS, same),
        similar=_into(PAIRS, similar),
        left=_into(LEFT, select(p.younger, p.older)),
        gone=_into(GONE, select(LEFT.c.younger).where(stays).distinct()),
        settled=delete(LEFT).where(or_(LEFT.c.younger.in_(gone), LEFT.c.older.in_(gone))),
        merges=_into(MERGES, merges),
    )


def _into(table: Table, rows: Any) -> Insert:
    return insert(table).from_select([column.name for column in table.columns], rows)


# How they are merged

_STRATEGY: BindParameter[str] = bindparam("dedup_strategy", type_=Text)
_MINE = MERGES.c.strategy == _STRATEGY
MORE = temporary(
    "dedup_evidence",
    select(evidence_links.c.object_id, evidence_links.c.evidence_id).subquery(),
)
"""Evidence that the ones which stay do not have yet."""


@dataclass(frozen=True, slots=True)
class _Merge:
    """The statements that merge, for one strategy at a time."""

    more: Insert
    resolved: Staged
    evidence: Update
    links: Insert
    superseded: Staged
    places: Update

    def run(self, connection: Connection, chunk: Chunk, given: Mapping[str, Any]) -> None:
        """DEDUP_RESOLVED of each that stays, SUPERSEDE of each that makes room, and the state they leave."""
        empty(connection, MORE)
        connection.execute(self.more, given)
        if chunk.write(self.resolved, given):
            connection.execute(self.evidence, given)
            connection.execute(self.links, given)
            chunk.write(self.superseded, given)
            connection.execute(self.places, given)


def _merge(db: Database) -> _Merge:
    resolved, superseded = _resolved(db), _superseded(db)
    mine = memory_objects.c.namespace_id == NAMESPACE
    stay = db.in_place(resolved.table, memory_objects, NAMESPACE).c
    leave = db.in_place(superseded.table, memory_objects, NAMESPACE).c
    return _Merge(
        more=_into(MORE, _more()),
        resolved=resolved,
        evidence=update(memory_objects)
        .where(mine, memory_objects.c.object_id == stay.object_id)
        .values(evidence=stay.new_evidence),
        links=insert(evidence_links).from_select(
            ["namespace_id", "object_id", "evidence_id"], select(NAMESPACE, MORE.c.object_id, MORE.c.evidence_id)
        ),
        superseded=superseded,
        places=update(memory_objects)
        .where(mine, memory_objects.c.object_id == leave.object_id)
        .values(superseded_by=leave.primary_id),
    )


def _more() -> Select[Any]:
    link, there = evidence_links.c, evidence_links.alias("there").c
    known = exists().where(
        there.namespace_id == NAMESPACE, there.object_id == MERGES.c.primary_id, there.evidence_id == link.evidence_id
    )
    return (
        select(MERGES.c.primary_id.label("object_id"), link.evidence_id)
        .where(
            _MINE,
            link.namespace_id == NAMESPACE,
            link.object_id == MERGES.c.object_id,
            link.evidence_id != MERGES.c.primary_id,
            ~known,
        )
        .distinct()
    )


def _list(ids: Any, table: Table, key: Any, *where: Any) -> Any:
    """The ids of each key's rows as the members of a JSON list, in their order; by the key."""
    text = cast(ids, Text)
    joined = func.string_agg(quoted(text), aggregate_order_by(literal(","), text), type_=Text)
    return select(key.label("key"), joined.label("ids")).select_from(table).where(*where).group_by(key)


def _resolved(db: Database) -> Staged:
    s, o, m = memory_state.c, memory_objects.c, MERGES.c
    merged = _list(m.object_id, MERGES, m.primary_id, _MINE).add_columns(func.min(m.similarity).label("similarity"))
    merged = merged.subquery()
    more = _list(MORE.c.evidence_id, MORE, MORE.c.object_id).subquery()
    short = func.substr(o.evidence, 1, func.length(o.evidence) - 1)
    grown = func.concat(short, case((o.evidence == "[]", ""), else_=","), more.c.ids, "]", type_=Text)
    rows = (
        select(
            s.object_id,
            s.version,
            s.fact_version,
            s.head_hash,
            s.decay_profile,
            s.policy_id,
            s.policy_version,
            *(o[name] for name in GROUPS["object"]),
            _at.label("at"),
            merged.c.ids.label("merged_ids"),
            merged.c.similarity,
            more.c.ids.label("more_ids"),
            case((more.c.ids.is_(None), o.evidence), else_=grown).label("new_evidence"),
        )
        .join_from(memory_state, memory_objects, and_(s.namespace_id == o.namespace_id, s.object_id == o.object_id))
        .join(merged, merged.c.key == s.object_id)
        .outerjoin(more, more.c.key == s.object_id)
        .where(s.namespace_id == NAMESPACE)
    )

    def entry(columns: Columns) -> Mapping[str, Any]:
        said = {
            "primary_id": quoted(cast(columns.object_id, Text)),
            "merged_ids": func.concat("[", columns.merged_ids, "]", type_=Text),
            "resolution_strategy": quoted(_STRATEGY),
        }
        more = {"evidence_ids": func.concat("[", columns.more_ids, "]", type_=Text)}
        similar = json_of(**said, similarity=db.decimal(columns.similarity), **more)
        return {
            **_fact(columns, OpType.DEDUP_RESOLVED, "object"),
            "payload": case((columns.similarity.isnot(None), similar), else_=json_of(**said, **more)),
            "after": json_of(object=_object(db, columns, evidence=columns.new_evidence)),
        }

    return staged(
        db,
        "pass_resolved",
        rows,
        [entry],
        lambda c: {"fact_version": c.fact_version + 1, "fact_at": c.at},
    )


def _fact(columns: Columns, op: OpType, *groups: str) -> dict[str, Any]:
    return {
        "op_type": op.value,
        "fact_version": columns.fact_version + 1,
        "effective_at": columns.at,
        "decay_profile": columns.decay_profile,
        "policy_id": columns.policy_id,
        "policy_version": columns.policy_version,
        "carries": literal(sum(BITS[group] for group in groups), SmallInteger),
    }


def _object(db: Database, columns: Columns, **new: Any) -> ColumnElement[str]:
    """The group `object` with some of its columns new."""
    values = {name: new.get(name, columns[name]) for name in GROUPS["object"]}
    kinds = {name: memory_objects.c[name].type for name in values}
    return json_of(
        **{
            name: quoted(cast(value, Text))
            if isinstance(kinds[name], Uuid)
            else whole(value)
            if isinstance(kinds[name], BigInteger)
            else db.json_text(value)
            for name, value in values.items()
        }
    )


def _superseded(db: Database) -> Staged:
    s, o, m, policy = memory_state.c, memory_objects.c, MERGES.c, policy_profiles.c
    scores = evaluate(SQL, policy, s, _at)
    next_at, next_rule = next_due(
        SQL,
        warning_at=literal(FAR, BigInteger),
        exit_at=literal(FAR, BigInteger),
        exit_rule=literal(None, Text),
        expires_at=s.expires_at,
    )
    found = db.fence(
        with_policy(
            select(
                s.object_id,
                s.version,
                s.fact_version,
                s.head_hash,
                s.decay_profile,
                s.policy_id,
                s.policy_version,
                *(o[name] for name in GROUPS["object"]),
                m.primary_id,
                m.similarity,
                _at.label("at"),
                scores.salience.label("salience"),
                scores.confidence.label("confidence"),
                s.salience.label("old_salience"),
                s.confidence.label("old_confidence"),
                cast(next_at, BigInteger).label("next_at"),
                cast(next_rule, Text).label("next_rule"),
                s.expires_at,
                s.warned,
                s.frozen,
                s.thaws_at,
            )
        )
        .join(memory_objects, and_(s.namespace_id == o.namespace_id, s.object_id == o.object_id))
        .join(MERGES, and_(m.object_id == s.object_id, _MINE))
        .where(s.namespace_id == NAMESPACE)
    ).c
    rows = select(
        *found,
        decimals9(SQL, found.salience - found.old_salience).label("salience_delta"),
        decimals9(SQL, found.confidence - found.old_confidence).label("confidence_delta"),
    )
    return staged(
        db,
        "pass_superseded",
        rows,
        [partial(_made_room, db)],
        lambda c: {
            "fact_version": c.fact_version + 1,
            "fact_at": c.at,
            "lifecycle_state": literal(LifecycleState.SUPERSEDED.value, Text),
            "salience": c.salience,
            "confidence": c.confidence,
            "due_at": c.next_at,
            "due_rule": c.next_rule,
            "exit_at": None,
            "exit_rule": None,
            "stopped_at": c.at,
        },
    )


def _made_room(db: Database, columns: Columns) -> Mapping[str, Any]:
    """SUPERSEDE: as by hand, the scores stand from here on, and nothing but a ttl is due any more."""
    said = {"new_object_id": quoted(cast(columns.primary_id, Text)), "reason": quoted(_STRATEGY)}
    similar = json_of(**said, similarity=db.decimal(columns.similarity))
    return {
        **_fact(columns, OpType.SUPERSEDE, "object", "due", "flags"),
        **{name: columns[name] for name in ("salience", "confidence", "salience_delta", "confidence_delta")},
        "lifecycle_state": literal(LifecycleState.SUPERSEDED.value, Text),
        "payload": case((columns.similarity.isnot(None), similar), else_=json_of(**said)),
        "after": json_of(
            object=_object(db, columns, superseded_by=columns.primary_id),
            due=json_of(
                due_at=whole(columns.next_at),
                due_rule=quoted(columns.next_rule),
                exit_at=literal("null", Text),
                exit_rule=literal("null", Text),
                expires_at=whole(columns.expires_at),
                warned=case((columns.warned, "true"), else_="false"),
            ),
            flags=json_of(
                pinned=literal("false", Text),
                held=literal("false", Text),
                frozen=case((columns.frozen, "true"), else_="false"),
                thaws_at=whole(columns.thaws_at),
                stopped_at=whole(columns.at),
                tombstoned_at=literal("null", Text),
                erased_at=literal("null", Text),
            ),
        ),
    }
