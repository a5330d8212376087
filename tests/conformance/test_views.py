"""The audit views: their columns are a contract, they say the same on both databases, and they say what happened."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text
from tests.conformance.lived import RETENTION, live
from tests.conftest import DATABASES, Clock, counted_entropy

from ebbtide import Ebbtide, Refused
from ebbtide.policy.document import Policy

COLUMNS = {
    "batches": """
        namespace_id text, batch bigint, first_seq bigint, last_seq bigint, entries bigint, recorded_at timestamptz,
        task text, run_id uuid, root text, prev_hash text, hash text
    """,
    "corrections": """
        namespace_id text, seq bigint, id uuid, recorded_at timestamptz, effective_at timestamptz, actor_id text,
        actor_type text, object_id uuid, ref text, version bigint, correction uuid, replaced text, replaced_by text,
        from_state text, to_state text, salience double, confidence double, salience_delta double,
        confidence_delta double, decay_profile text, policy text
    """,
    "decay_applied": """
        namespace_id text, seq bigint, id uuid, recorded_at timestamptz, effective_at timestamptz, actor_id text,
        actor_type text, effective_day date, object_id uuid, version bigint, decay_profile text, policy_id text,
        policy_version text, policy text, salience double, confidence double, salience_delta double,
        confidence_delta double, thresholds_triggered text, threshold double, archive_min_confidence double,
        to_state text, run_id uuid
    """,
    "eligible_memories": """
        namespace_id text, id uuid, ref text, type text, epistemic_type text, source_type text, condition text,
        subject text, value text, evidence text, lifecycle_state text, pinned boolean, held boolean, frozen boolean,
        suppressed boolean, salience double, confidence double, stored_salience double, stored_confidence double,
        baseline double, centrality double, decay_profile text, policy text, warned boolean, created_at timestamptz,
        modified_at timestamptz, accessed_at timestamptz, reinforced_at timestamptz, restored_at timestamptz,
        decayed_at timestamptz, segment_at timestamptz, due_at timestamptz, due_rule text, exit_at timestamptz,
        exit_rule text, expires_at timestamptz, thaws_at timestamptz, tombstoned_at timestamptz,
        erased_at timestamptz, access_count bigint, reinforce_count bigint, supersedes uuid, superseded_by uuid,
        version bigint, fact_version bigint
    """,
    "entries": """
        namespace_id text, seq bigint, id uuid, recorded_at timestamptz, effective_at timestamptz, actor_id text,
        actor_type text, recorded_day date, effective_day date, op_type text, stream_type text, object_id uuid,
        version bigint, fact_version bigint, lifecycle_state text, salience double, confidence double,
        salience_delta double, confidence_delta double, decay_profile text, policy_id text, policy_version text,
        policy text, bytes bigint
    """,
    "events": """
        namespace_id text, seq bigint, id uuid, recorded_at timestamptz, effective_at timestamptz, actor_id text,
        actor_type text, event_id uuid, ref text, stream text, role text, subject text, content text,
        tombstoned_at timestamptz, erased_at timestamptz, hash text
    """,
    "evidence": """
        namespace_id text, object_id uuid, ref text, evidence_id uuid, evidence_type text, evidence_ref text,
        stream text, erased_at timestamptz
    """,
    "integrity_checks": """
        namespace_id text, seq bigint, id uuid, recorded_at timestamptz, effective_at timestamptz, actor_id text,
        actor_type text, ok boolean, entries bigint, batches bigint, code text, bad_seq bigint
    """,
    "lifecycle_transitions": """
        namespace_id text, seq bigint, id uuid, recorded_at timestamptz, effective_at timestamptz, actor_id text,
        actor_type text, object_id uuid, ref text, version bigint, op_type text, from_state text, to_state text,
        rule text, reason text, stated_reason text, salience double, confidence double, threshold double,
        archive_min_confidence double, decay_profile text, policy_id text, policy_version text, policy text,
        run_id uuid
    """,
    "memories": """
        namespace_id text, id uuid, ref text, type text, epistemic_type text, source_type text, condition text,
        subject text, value text, evidence text, lifecycle_state text, pinned boolean, held boolean, frozen boolean,
        suppressed boolean, eligible boolean, withheld text, salience double, confidence double,
        stored_salience double, stored_confidence double, baseline double, centrality double, decay_profile text,
        policy text, warned boolean, created_at timestamptz, modified_at timestamptz, accessed_at timestamptz,
        reinforced_at timestamptz, restored_at timestamptz, decayed_at timestamptz, segment_at timestamptz,
        due_at timestamptz, due_rule text, exit_at timestamptz, exit_rule text, expires_at timestamptz,
        thaws_at timestamptz, tombstoned_at timestamptz, erased_at timestamptz, access_count bigint,
        reinforce_count bigint, supersedes uuid, superseded_by uuid, version bigint, fact_version bigint
    """,
    "namespaces": """
        namespace_id text, last_seq bigint, last_batch bigint, last_batch_hash text, last_recorded_at timestamptz,
        began_at timestamptz, policy_id text, policy_version text, policy text
    """,
    "operations": """
        namespace_id text, seq bigint, id uuid, recorded_at timestamptz, effective_at timestamptz, actor_id text,
        actor_type text, op_type text, object_id uuid, ref text, version bigint, policy_id text, policy_version text,
        policy text, lifecycle_state text, salience double, confidence double, salience_delta double,
        confidence_delta double, decay_profile text, stated_reason text, late boolean, payload text, hash text
    """,
    "organiser_runs": """
        namespace_id text, run_id uuid, task text, slot timestamptz, as_of timestamptz, status text, policy text,
        guard text, missed integer, examined bigint, decayed bigint, warned bigint, archived bigint,
        deprecated bigint, expired bigint, entries bigint, started_at timestamptz, finished_at timestamptz
    """,
    "policy_assignments": """
        namespace_id text, seq bigint, id uuid, recorded_at timestamptz, effective_at timestamptz, actor_id text,
        actor_type text, policy_id text, policy_version text, policy text, previous text, memories bigint
    """,
    "policy_corrections": """
        namespace_id text, seq bigint, id uuid, recorded_at timestamptz, effective_at timestamptz, actor_id text,
        actor_type text, correction uuid, replaced text, replaced_by text, begins_at timestamptz, memories bigint
    """,
    "policy_parameters": """
        policy_id text, policy_version text, policy text, decay_profile text, curve text, rate double,
        half_life_days double, mu double, rho double, counts_accesses boolean, floor double, floor_after bigint,
        warning double, archive double, force_archive double, deprecate_by_confidence double,
        archive_min_confidence double
    """,
    "policy_versions": """
        policy_id text, policy_version text, policy text, registered_at timestamptz, document text
    """,
    "refusals": """
        namespace_id text, id uuid, recorded_at timestamptz, effective_at timestamptz, actor_id text, actor_type text,
        op_type text, object_id uuid, ref text, rule text
    """,
    "reinforcements": """
        namespace_id text, seq bigint, id uuid, recorded_at timestamptz, effective_at timestamptz, actor_id text,
        actor_type text, object_id uuid, ref text, version bigint, op_type text, signal_type text, signal_source text,
        session_id text, gamma double, gamma_effective double, session_gamma_total double, delta double,
        correlation_discount_applied boolean, evidence_ids text, new_salience double, new_confidence double,
        salience_delta double, confidence_delta double, policy text
    """,
    "relations": """
        namespace_id text, id uuid, edge_type text, source_id uuid, source_ref text, target_id uuid, target_ref text,
        confidence double, created_at timestamptz
    """,
    "suppressions": """
        namespace_id text, suppression_id uuid, object_id uuid, ref text, object_type text, epistemic_type text,
        subject text, suppressed_by text, suppressed_at timestamptz, expires_at timestamptz, ended_at timestamptz,
        active boolean, recorded_at timestamptz, end_recorded_at timestamptz, policy_ref text
    """,
    "tombstones": """
        namespace_id text, seq bigint, id uuid, recorded_at timestamptz, effective_at timestamptz, actor_id text,
        actor_type text, target_id uuid, target_type text, ref text, action text, reason text, from_state text,
        salience double, confidence double, policy_ref text, content_hash_of_deleted text, tombstone_ts timestamptz,
        evaluated_at timestamptz, expired_at timestamptz, checksum text
    """,
}
"""Every view's columns, in order, each with its type."""

TYPES = {
    "text": {"VARCHAR", "text"},
    "bigint": {"BIGINT", "bigint"},
    "integer": {"INTEGER", "integer"},
    "double": {"DOUBLE", "double precision"},
    "boolean": {"BOOLEAN", "boolean"},
    "uuid": {"UUID", "uuid"},
    "date": {"DATE", "date"},
    "timestamptz": {"TIMESTAMP WITH TIME ZONE", "timestamp with time zone"},
}
"""The types, as DuckDB and PostgreSQL call them."""


def lived(url: str) -> Ebbtide:
    """A store in which everything happened, with a refusal, a check of the log and a correction at the end."""
    clock = Clock()
    ebb = Ebbtide.open(url, clock=clock, entropy=counted_entropy())
    with ebb.store.session():
        live(ebb, clock)
        ebb.ask({"op": "PIN", "object": "seen", "reason": "ask me first", "actor_id": "maya"})
        with pytest.raises(Refused):
            ebb.ask({"op": "PIN", "object": "n8", "actor_id": "agent", "actor_type": "AI_AGENT"})
        ebb.verify(record=True)
        better = {**RETENTION, "version": "1.0.1"}
        better["params"] = {**RETENTION["params"], "tier_thresholds": {"archive": 0.02, "force_archive": 0.01}}
        ebb.register_policy(Policy.model_validate(better))
        ebb.apply_replay(ebb.plan_replay("keeping@1.0.0", "keeping@1.0.1"))
    return ebb


@pytest.fixture(scope="module")
def stores(make_url_for_module) -> Any:
    """The same history on both databases."""
    made = {kind: lived(make_url_for_module(kind)) for kind in DATABASES}
    yield made
    for ebb in made.values():
        ebb.close()


@pytest.fixture(params=DATABASES)
def ebb(request: pytest.FixtureRequest, stores: Any) -> Ebbtide:
    return stores[request.param]


def ask(ebb: Ebbtide, query: str) -> list[dict[str, Any]]:
    with ebb.store.begin() as connection:
        return [dict(row) for row in connection.execute(text(query)).mappings()]


def test_names_and_types_of_all_columns_are_a_contract(ebb):
    """Whoever writes SQL against the views may rely on them; a column may be added, and then stands here."""
    found: dict[str, list[tuple[str, str]]] = {}
    for row in ask(
        ebb,
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'audit' "
        "ORDER BY table_name, ordinal_position",
    ):
        found.setdefault(row["table_name"], []).append((row["column_name"], row["data_type"]))
    wanted = {
        view: [tuple(column.split()) for column in " ".join(columns.split()).split(", ")]
        for view, columns in COLUMNS.items()
    }
    assert {view: [name for name, _ in columns] for view, columns in found.items()} == {
        view: [name for name, _ in columns] for view, columns in wanted.items()
    }
    for view, columns in wanted.items():
        for (name, kind), (_, type_) in zip(columns, found[view], strict=True):
            assert type_ in TYPES[kind], f"{view}.{name}"


@pytest.mark.parametrize("view", COLUMNS)
def test_a_view_says_the_same_on_both_databases(stores, view):
    """Row by row and value by value; JSON of whole payloads apart, whose members are compared."""

    def rows(ebb: Ebbtide) -> list[dict[str, Any]]:
        found = ask(ebb, f"SELECT * FROM audit.{view}")
        for row in found:
            for name in ("payload", "document"):
                if name in row:
                    row[name] = json.dumps(json.loads(row[name]), sort_keys=True)
            for name in ("registered_at", "started_at", "finished_at"):
                row.pop(name, None)
            if view == "refusals":
                row.pop("id")
            if view in ("memories", "eligible_memories"):
                # Scores are those of the moment of asking.
                row.pop("salience"), row.pop("confidence")
        return sorted(found, key=str)

    one, other = (rows(stores[kind]) for kind in DATABASES)
    assert one == other
    assert one


def test_a_transition_names_the_run_whose_chunk_it_is_in(ebb):
    """By what closes its batch; what somebody asked for has no run."""
    wanted = """
        SELECT t.namespace_id, t.seq, t.run_id, b.run_id AS run_of_batch, t.rule, t.op_type, t.actor_id
        FROM audit.{} t JOIN audit.batches b
            ON b.namespace_id = t.namespace_id AND t.seq BETWEEN b.first_seq AND b.last_seq
    """
    moved = ask(ebb, wanted.format("lifecycle_transitions"))
    assert [row for row in moved if row["run_id"] != row["run_of_batch"]] == []
    assert all((row["run_id"] is not None) == (row["actor_id"] == "ebbtide") for row in moved)
    assert {row["rule"] for row in moved} >= {"warning", "archive", "deprecate_by_confidence", "ttl", None}
    passes = ask(ebb, wanted.format("decay_applied").replace("t.rule, t.op_type", "thresholds_triggered AS rule, 1"))
    assert [row for row in passes if row["rule"] is None and row["run_id"] != row["run_of_batch"]] == []
    assert len([row for row in passes if row["run_id"] is not None]) > 100
    runs = {row["run_id"] for row in ask(ebb, "SELECT run_id FROM audit.organiser_runs")}
    assert {row["run_id"] for row in [*moved, *passes]} - {None} <= runs


def test_a_transition_says_what_the_rule_met(ebb):
    """The threshold is that of the policy it names, the scores are on the side of it that the rule needs."""
    rows = ask(ebb, "SELECT * FROM audit.lifecycle_transitions WHERE rule IS NOT NULL ORDER BY namespace_id, seq")
    for row in rows:
        assert row["from_state"] in (None, "ACTIVE")
        if row["rule"] in ("warning", "archive"):
            assert row["salience"] < row["threshold"] == {"warning": 0.3, "archive": 0.1}[row["rule"]]
        if row["rule"] == "archive":
            below = row["confidence"] < row["archive_min_confidence"]
            assert row["to_state"] == ("DEPRECATED" if below else "ARCHIVED")
        if row["rule"] == "deprecate_by_confidence":
            assert row["confidence"] < row["threshold"] == 0.15
    by_hand = ask(ebb, "SELECT * FROM audit.lifecycle_transitions WHERE ref IN ('n7', 'n8', 'work') AND rule IS NULL")
    assert {
        (row["ref"], row["op_type"], row["from_state"], row["to_state"], row["stated_reason"]) for row in by_hand
    } == {
        ("n7", "ARCHIVE", "ACTIVE", "ARCHIVED", "old"),
        ("n7", "RESTORE", "ARCHIVED", "ACTIVE", None),
        ("n8", "DEPRECATE", "ACTIVE", "DEPRECATED", None),
        ("work", "SUPERSEDE", "ACTIVE", "SUPERSEDED", None),
    }


def test_who_asked_what_can_be_told(ebb):
    """Marks with their reasons in `operations`, refusals, suppressions, assignments and corrections in their views."""
    (pin,) = ask(ebb, "SELECT * FROM audit.operations WHERE op_type = 'PIN' AND ref = 'seen'")
    assert (pin["actor_id"], pin["stated_reason"]) == ("maya", "ask me first")
    (refusal,) = ask(ebb, "SELECT * FROM audit.refusals")
    assert (refusal["ref"], refusal["op_type"], refusal["actor_id"], refusal["rule"]) == (
        "n8",
        "PIN",
        "agent",
        "pin_active_only",
    )
    kept = ask(ebb, "SELECT ref, subject, active FROM audit.suppressions ORDER BY suppressed_at")
    assert [(row["ref"], row["subject"]) for row in kept] == [("n4", None), (None, "zoe"), ("n5", None), ("n6", None)]
    assert not any(row["active"] for row in kept)
    named = (
        "SELECT policy, previous, memories FROM audit.policy_assignments WHERE namespace_id = 'default' ORDER BY seq"
    )
    found = [tuple(row.values()) for row in ask(ebb, named)]
    assert found[:2] == [("default@1.0.0", None, 0), ("keeping@1.0.0", "default@1.0.0", 21)]
    assert found[2][:2] == ("archivist@1.0.0", "keeping@1.0.0")
    (correction,) = ask(ebb, "SELECT * FROM audit.policy_corrections")
    changed = ask(ebb, "SELECT * FROM audit.corrections")
    assert (correction["replaced"], correction["replaced_by"]) == ("keeping@1.0.0", "keeping@1.0.1")
    assert correction["memories"] == len(changed) > 0
    assert {row["correction"] for row in changed} == {correction["correction"]}
    moved = {
        (row["ref"], row["from_state"], row["to_state"]) for row in changed if row["from_state"] != row["to_state"]
    }
    seen = ask(ebb, "SELECT ref, from_state, to_state FROM audit.lifecycle_transitions WHERE op_type = 'CORRECTED'")
    assert {tuple(row.values()) for row in seen} == moved


def test_what_was_deleted_is_told_apart_from_what_was_put_away(ebb):
    rows = ask(ebb, "SELECT * FROM audit.tombstones")
    found = {(row["ref"], row["target_type"], row["action"], row["reason"]) for row in rows}
    assert found == {
        ("tool", "event", "archive", "retention_policy_expiry"),
        ("sys", "event", "erase", "retention_policy_expiry"),
        ("todo", "memory_object", "archive", "retention_policy_expiry"),
        ("plan", "memory_object", "erase", "retention_policy_expiry"),
        ("secret", "memory_object", "erase", "user_request"),
        ("m2", "event", "erase", "user_request"),
        ("m3", "event", "erase", "retention_policy_expiry"),
    }
