"""The schema as SQLAlchemy tables, alike on both databases. The migrations create it; a test compares the two.

Every primary and unique key starts with `namespace_id`, the tenant and the shard key; there are no identity columns
and no sequences. Instants are µs since 1970 (BIGINT), scores double precision with nine decimals.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    Uuid,
)

metadata = MetaData()


def _key(name: str, type_: type = Text) -> Column[object]:
    return Column(name, type_, primary_key=True, autoincrement=False)


namespaces = Table(
    "namespaces",
    metadata,
    _key("namespace_id"),
    Column("last_seq", BigInteger, nullable=False),
    Column("last_batch", BigInteger, nullable=False),
    Column("last_batch_hash", LargeBinary, nullable=False),
    Column("last_recorded_at", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("head_hash", LargeBinary, nullable=False),
    Column("began_at", BigInteger),
    Column("policy_id", Text),
    Column("policy_version", Text),
    Column("secret", LargeBinary, nullable=False),
)
"""The heads: a writer locks its namespace's row first, and reads state only after."""

event_log = Table(
    "event_log",
    metadata,
    _key("namespace_id"),
    _key("seq", BigInteger),
    Column("id", Uuid, nullable=False),
    Column("stream_type", Text, nullable=False),
    Column("stream_id", Uuid, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("fact_version", BigInteger),
    Column("op_type", Text, nullable=False),
    Column("schema_version", SmallInteger, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("effective_at", BigInteger, nullable=False),
    Column("actor_id", Text, nullable=False),
    Column("actor_type", Text, nullable=False),
    Column("idempotency_key", Text),
    Column("request_hash", LargeBinary),
    Column("lifecycle_state", Text),
    Column("salience", Double),
    Column("confidence", Double),
    Column("salience_delta", Double),
    Column("confidence_delta", Double),
    Column("decay_profile", Text),
    Column("policy_id", Text),
    Column("policy_version", Text),
    Column("content_hash", LargeBinary),
    Column("carries", SmallInteger, nullable=False),
    Column("payload", Text, nullable=False),
    Column("after", Text),
    Column("prev_hash", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)
"""Events and operations in one order: append-only."""

batches = Table(
    "batches",
    metadata,
    _key("namespace_id"),
    _key("batch", BigInteger),
    Column("first_seq", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("root", LargeBinary, nullable=False),
    Column("prev_hash", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)
"""One row per write transaction and namespace, chained."""

contents = Table(
    "contents",
    metadata,
    _key("namespace_id"),
    _key("seq", BigInteger),
    Column("nonce", LargeBinary, nullable=False),
    Column("content", Text, nullable=False),
    Column("digest", LargeBinary),
    Column("embedding_model", Text),
    Column("dimensions", Integer),
    Column("embedding", ARRAY(Double)),
)
"""What callers wrote as text, outside the log, so that it can be erased without breaking the chain."""

refusals = Table(
    "refusals",
    metadata,
    _key("namespace_id"),
    _key("id", Uuid),
    Column("recorded_at", BigInteger, nullable=False),
    Column("effective_at", BigInteger, nullable=False),
    Column("op_type", Text, nullable=False),
    Column("object_id", Uuid),
    Column("actor_id", Text, nullable=False),
    Column("actor_type", Text, nullable=False),
    Column("rule", Text, nullable=False),
)
"""Requests that a rule refused: append-only."""

streams = Table(
    "streams",
    metadata,
    _key("namespace_id"),
    _key("stream_id", Uuid),
    Column("version", BigInteger, nullable=False),
    Column("head_hash", LargeBinary, nullable=False),
)
"""Heads of the event streams; an object's head is in its state, a namespace's own in `namespaces`."""

event_state = Table(
    "event_state",
    metadata,
    _key("namespace_id"),
    _key("event_id", Uuid),
    Column("seq", BigInteger, nullable=False),
    Column("ref", Text),
    Column("role", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("subject", Text),
    Column("effective_at", BigInteger, nullable=False),
    Column("tombstoned_at", BigInteger),
    Column("erased_at", BigInteger),
)
"""What is known of each event, by the id that evidence names."""

evidence_links = Table(
    "evidence_links",
    metadata,
    _key("namespace_id"),
    _key("object_id", Uuid),
    _key("evidence_id", Uuid),
)
"""Which events and memories serve as evidence for which memory."""

aliases = Table(
    "aliases",
    metadata,
    _key("namespace_id"),
    _key("alias_id", Uuid),
    Column("object_id", Uuid, nullable=False),
    Column("ref", Text, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
)
"""Names under which a memory was said again: they stand for the memory that said it first."""

suppressions = Table(
    "suppressions",
    metadata,
    _key("namespace_id"),
    _key("suppression_id", Uuid),
    Column("object_id", Uuid),
    Column("object_type", Text),
    Column("epistemic_type", Text),
    Column("subject", Text),
    Column("suppressed_by", Text, nullable=False),
    Column("suppressed_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("recorded_at", BigInteger, nullable=False),
    Column("end_recorded_at", BigInteger),
    Column("policy_ref", Text, nullable=False),
)
"""What keeps memories out of retrieval without touching their scores: of one object, or by a filter on what it is."""

entities = Table(
    "entities",
    metadata,
    _key("namespace_id"),
    _key("entity_id", Uuid),
    Column("ref", Text),
    Column("entity_type", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("content_seq", BigInteger, nullable=False),
    Column("merged_into", Uuid),
)
"""Who and what memories are about; names are content."""

edges = Table(
    "edges",
    metadata,
    _key("namespace_id"),
    _key("edge_id", Uuid),
    Column("edge_type", Text, nullable=False),
    Column("source_id", Uuid, nullable=False),
    Column("target_id", Uuid, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
"""How memories and entities are related."""

policies = Table(
    "policies",
    metadata,
    _key("namespace_id"),
    _key("policy_id"),
    _key("policy_version"),
    Column("document", Text, nullable=False),
    Column("registered_at", BigInteger, nullable=False),
)
"""Policy versions: registered store-wide under the empty namespace, and as assigned in each namespace."""

policy_profiles = Table(
    "policy_profiles",
    metadata,
    _key("namespace_id"),
    _key("policy_id"),
    _key("policy_version"),
    _key("decay_profile"),
    Column("linear", Double, nullable=False),
    Column("shape", Double, nullable=False),
    Column("scale", Double, nullable=False),
    Column("stretch", Double, nullable=False),
    Column("use_alpha", Double, nullable=False),
    Column("use_beta", Double, nullable=False),
    Column("use_cap", Double, nullable=False),
    Column("counts_accesses", Boolean, nullable=False),
    Column("floor", Double, nullable=False),
    Column("floor_after", BigInteger, nullable=False),
    Column("mu", Double, nullable=False),
    Column("rho", Double, nullable=False),
    Column("warning", Double, nullable=False),
    Column("archive", Double, nullable=False),
    Column("force_archive", Double, nullable=False),
    Column("deprecate_by_confidence", Double, nullable=False),
    Column("archive_min_confidence", Double, nullable=False),
)
"""The numbers that the formulas need, by profile: derived from `policies`, joined by the passes."""

memory_objects = Table(
    "memory_objects",
    metadata,
    _key("namespace_id"),
    _key("object_id", Uuid),
    Column("ref", Text),
    Column("object_type", Text, nullable=False),
    Column("epistemic_type", Text, nullable=False),
    Column("source_type", Text, nullable=False),
    Column("condition", Text),
    Column("subject", Text),
    Column("evidence", Text, nullable=False),
    Column("profile_override", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("content_seq", BigInteger, nullable=False),
    Column("supersedes", Uuid),
    Column("superseded_by", Uuid),
)
"""What hardly changes of a memory object."""

memory_state = Table(
    "memory_state",
    metadata,
    _key("namespace_id"),
    _key("object_id", Uuid),
    Column("version", BigInteger, nullable=False),
    Column("fact_version", BigInteger, nullable=False),
    Column("fact_at", BigInteger, nullable=False),
    Column("head_hash", LargeBinary, nullable=False),
    Column("lifecycle_state", Text, nullable=False),
    Column("salience", Double, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("decayed_at", BigInteger),
    Column("segment_at", BigInteger, nullable=False),
    Column("segment_age", BigInteger, nullable=False),
    Column("decaying", Double, nullable=False),
    Column("boost", Double, nullable=False),
    Column("confidence_base", Double, nullable=False),
    Column("confidence_from", BigInteger, nullable=False),
    Column("baseline", Double, nullable=False),
    Column("centrality", Double, nullable=False),
    Column("stability", Double),
    Column("difficulty", Double),
    Column("decay_profile", Text, nullable=False),
    Column("policy_id", Text, nullable=False),
    Column("policy_version", Text, nullable=False),
    Column("due_at", BigInteger),
    Column("due_rule", Text),
    Column("exit_at", BigInteger),
    Column("exit_rule", Text),
    Column("expires_at", BigInteger),
    Column("warned", Boolean, nullable=False),
    Column("accessed_at", BigInteger),
    Column("reinforced_at", BigInteger),
    Column("modified_at", BigInteger, nullable=False),
    Column("restored_at", BigInteger),
    Column("access_count", BigInteger, nullable=False),
    Column("reinforce_count", BigInteger, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("frozen", Boolean, nullable=False),
    Column("thaws_at", BigInteger),
    Column("stopped_at", BigInteger),
    Column("tombstoned_at", BigInteger),
    Column("erased_at", BigInteger),
)
"""What a pass rewrites of a memory object: kept narrow, since that is what makes a pass cheap."""

organiser_runs = Table(
    "organiser_runs",
    metadata,
    _key("namespace_id"),
    _key("task"),
    _key("slot", BigInteger),
    Column("run_id", Uuid, nullable=False),
    Column("as_of", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("after_object", Uuid),
    Column("policy_id", Text, nullable=False),
    Column("policy_version", Text, nullable=False),
    Column("missed", Integer, nullable=False),
    Column("guard", Text),
    Column("examined", BigInteger, nullable=False),
    Column("decayed", BigInteger, nullable=False),
    Column("warned", BigInteger, nullable=False),
    Column("archived", BigInteger, nullable=False),
    Column("deprecated", BigInteger, nullable=False),
    Column("expired", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
)
"""The run ledger: one row per slot (task, namespace, start), claimed by inserting it."""

consumers = Table(
    "consumers",
    metadata,
    _key("namespace_id"),
    _key("consumer"),
    Column("seq", BigInteger, nullable=False),
    Column("as_of", BigInteger, nullable=False),
)
"""How far those who keep copies have come: the place in the log, and as of when."""

leases = Table(
    "leases",
    metadata,
    _key("namespace_id"),
    Column("holder", Text),
    Column("session", Text),
    Column("lease_until", BigInteger),
    Column("failures", Integer, nullable=False),
    Column("retry_at", BigInteger),
    Column("task", Text),
    Column("slot", BigInteger),
    Column("error", Text),
)
"""Which organiser runs a namespace's slots, until when by the database's clock; and which namespaces are set aside.

The fence that a lease raises is the head's.
"""

tokens = Table(
    "tokens",
    metadata,
    _key("namespace_id"),
    _key("token_id", Uuid),
    Column("role", Text, nullable=False),
    Column("actor_id", Text, nullable=False),
    Column("actor_type", Text, nullable=False),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
)
"""Who may come over a network, by the hash of a secret: of one namespace, or under the empty one of every namespace."""

IMMUTABLE = (event_log, batches, refusals)
"""Tables in which PostgreSQL refuses UPDATE, DELETE and TRUNCATE."""
