"""The log, its state, policies and the run ledger.

Written by hand, for both databases. Instants are µs since 1970 (BIGINT). Every key starts with namespace_id.
PostgreSQL gets triggers and roles that keep the log immutable; DuckDB has neither, there the chain is what tells.
Citus refuses triggers on distributed tables: there it is the roles alone.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

IMMUTABLE = ("event_log", "batches", "refusals")
TABLES = (
    "namespaces",
    "event_log",
    "batches",
    "contents",
    "refusals",
    "streams",
    "event_state",
    "evidence_links",
    "aliases",
    "suppressions",
    "entities",
    "edges",
    "policies",
    "policy_profiles",
    "memory_objects",
    "memory_state",
    "organiser_runs",
    "consumers",
    "leases",
    "tokens",
)


def big(name: str, nullable: bool = False) -> sa.Column:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def text(name: str, nullable: bool = False) -> sa.Column:
    return sa.Column(name, sa.Text, nullable=nullable)


def raw(name: str, nullable: bool = False) -> sa.Column:
    return sa.Column(name, sa.LargeBinary, nullable=nullable)


def number(name: str, nullable: bool = False) -> sa.Column:
    return sa.Column(name, sa.Double, nullable=nullable)


def flag(name: str) -> sa.Column:
    return sa.Column(name, sa.Boolean, nullable=False)


def uid(name: str, nullable: bool = False) -> sa.Column:
    return sa.Column(name, sa.Uuid, nullable=nullable)


def table(name: str, *columns: sa.Column, key: tuple[str, ...] = ()) -> None:
    op.create_table(
        name,
        text("namespace_id"),
        *columns,
        sa.PrimaryKeyConstraint("namespace_id", *key, name=f"{name}_pkey"),
    )


def upgrade() -> None:
    table(
        "namespaces",
        big("last_seq"),
        big("last_batch"),
        raw("last_batch_hash"),
        big("last_recorded_at"),
        big("fence"),
        big("version"),
        raw("head_hash"),
        big("began_at", nullable=True),
        text("policy_id", nullable=True),
        text("policy_version", nullable=True),
        raw("secret"),
    )
    table(
        "event_log",
        big("seq"),
        uid("id"),
        text("stream_type"),
        uid("stream_id"),
        big("version"),
        big("fact_version", nullable=True),
        text("op_type"),
        sa.Column("schema_version", sa.SmallInteger, nullable=False),
        big("recorded_at"),
        big("effective_at"),
        text("actor_id"),
        text("actor_type"),
        text("idempotency_key", nullable=True),
        raw("request_hash", nullable=True),
        text("lifecycle_state", nullable=True),
        number("salience", nullable=True),
        number("confidence", nullable=True),
        number("salience_delta", nullable=True),
        number("confidence_delta", nullable=True),
        text("decay_profile", nullable=True),
        text("policy_id", nullable=True),
        text("policy_version", nullable=True),
        raw("content_hash", nullable=True),
        sa.Column("carries", sa.SmallInteger, nullable=False),
        text("payload"),
        text("after", nullable=True),
        raw("prev_hash"),
        raw("hash"),
        key=("seq",),
    )
    table(
        "batches",
        big("batch"),
        big("first_seq"),
        big("entries"),
        raw("root"),
        raw("prev_hash"),
        raw("hash"),
        key=("batch",),
    )
    table(
        "contents",
        big("seq"),
        raw("nonce"),
        text("content"),
        raw("digest", nullable=True),
        text("embedding_model", nullable=True),
        sa.Column("dimensions", sa.Integer, nullable=True),
        sa.Column("embedding", sa.ARRAY(sa.Double), nullable=True),
        key=("seq",),
    )
    table(
        "refusals",
        uid("id"),
        big("recorded_at"),
        big("effective_at"),
        text("op_type"),
        uid("object_id", nullable=True),
        text("actor_id"),
        text("actor_type"),
        text("rule"),
        key=("id",),
    )
    table("streams", uid("stream_id"), big("version"), raw("head_hash"), key=("stream_id",))
    table(
        "event_state",
        uid("event_id"),
        big("seq"),
        text("ref", nullable=True),
        text("role"),
        text("stream"),
        text("subject", nullable=True),
        big("effective_at"),
        big("tombstoned_at", nullable=True),
        big("erased_at", nullable=True),
        key=("event_id",),
    )
    table(
        "evidence_links",
        uid("object_id"),
        uid("evidence_id"),
        key=("object_id", "evidence_id"),
    )
    table(
        "aliases",
        uid("alias_id"),
        uid("object_id"),
        text("ref"),
        big("recorded_at"),
        key=("alias_id",),
    )
    table(
        "suppressions",
        uid("suppression_id"),
        uid("object_id", nullable=True),
        text("object_type", nullable=True),
        text("epistemic_type", nullable=True),
        text("subject", nullable=True),
        text("suppressed_by"),
        big("suppressed_at"),
        big("expires_at", nullable=True),
        big("ended_at", nullable=True),
        big("recorded_at"),
        big("end_recorded_at", nullable=True),
        text("policy_ref"),
        key=("suppression_id",),
    )
    table(
        "entities",
        uid("entity_id"),
        text("ref", nullable=True),
        text("entity_type"),
        big("created_at"),
        big("content_seq"),
        uid("merged_into", nullable=True),
        key=("entity_id",),
    )
    table(
        "edges",
        uid("edge_id"),
        text("edge_type"),
        uid("source_id"),
        uid("target_id"),
        number("confidence"),
        big("created_at"),
        key=("edge_id",),
    )
    table(
        "consumers",
        text("consumer"),
        big("seq"),
        big("as_of"),
        key=("consumer",),
    )
    table(
        "leases",
        text("holder", nullable=True),
        text("session", nullable=True),
        big("lease_until", nullable=True),
        sa.Column("failures", sa.Integer, nullable=False),
        big("retry_at", nullable=True),
        text("task", nullable=True),
        big("slot", nullable=True),
        text("error", nullable=True),
        key=(),
    )
    table(
        "tokens",
        uid("token_id"),
        text("role"),
        text("actor_id"),
        text("actor_type"),
        raw("secret_hash"),
        big("created_at"),
        big("expires_at", nullable=True),
        big("revoked_at", nullable=True),
        key=("token_id",),
    )
    table(
        "policies",
        text("policy_id"),
        text("policy_version"),
        text("document"),
        big("registered_at"),
        key=("policy_id", "policy_version"),
    )
    table(
        "policy_profiles",
        text("policy_id"),
        text("policy_version"),
        text("decay_profile"),
        number("linear"),
        number("shape"),
        number("scale"),
        number("stretch"),
        number("use_alpha"),
        number("use_beta"),
        number("use_cap"),
        flag("counts_accesses"),
        number("floor"),
        big("floor_after"),
        number("mu"),
        number("rho"),
        number("warning"),
        number("archive"),
        number("force_archive"),
        number("deprecate_by_confidence"),
        number("archive_min_confidence"),
        key=("policy_id", "policy_version", "decay_profile"),
    )
    table(
        "memory_objects",
        uid("object_id"),
        text("ref", nullable=True),
        text("object_type"),
        text("epistemic_type"),
        text("source_type"),
        text("condition", nullable=True),
        text("subject", nullable=True),
        text("evidence"),
        text("profile_override", nullable=True),
        big("created_at"),
        big("content_seq"),
        uid("supersedes", nullable=True),
        uid("superseded_by", nullable=True),
        key=("object_id",),
    )
    table(
        "memory_state",
        uid("object_id"),
        big("version"),
        big("fact_version"),
        big("fact_at"),
        raw("head_hash"),
        text("lifecycle_state"),
        number("salience"),
        number("confidence"),
        big("decayed_at", nullable=True),
        big("segment_at"),
        big("segment_age"),
        number("decaying"),
        number("boost"),
        number("confidence_base"),
        big("confidence_from"),
        number("baseline"),
        number("centrality"),
        number("stability", nullable=True),
        number("difficulty", nullable=True),
        text("decay_profile"),
        text("policy_id"),
        text("policy_version"),
        big("due_at", nullable=True),
        text("due_rule", nullable=True),
        big("exit_at", nullable=True),
        text("exit_rule", nullable=True),
        big("expires_at", nullable=True),
        flag("warned"),
        big("accessed_at", nullable=True),
        big("reinforced_at", nullable=True),
        big("modified_at"),
        big("restored_at", nullable=True),
        big("access_count"),
        big("reinforce_count"),
        flag("pinned"),
        flag("held"),
        flag("frozen"),
        big("thaws_at", nullable=True),
        big("stopped_at", nullable=True),
        big("tombstoned_at", nullable=True),
        big("erased_at", nullable=True),
        key=("object_id",),
    )
    table(
        "organiser_runs",
        text("task"),
        big("slot"),
        uid("run_id"),
        big("as_of"),
        text("status"),
        uid("after_object", nullable=True),
        text("policy_id"),
        text("policy_version"),
        sa.Column("missed", sa.Integer, nullable=False),
        text("guard", nullable=True),
        big("examined"),
        big("decayed"),
        big("warned"),
        big("archived"),
        big("deprecated"),
        big("expired"),
        big("entries"),
        big("started_at"),
        big("finished_at", nullable=True),
        key=("task", "slot"),
    )
    op.execute("CREATE SCHEMA IF NOT EXISTS audit")
    if op.get_bind().dialect.name == "postgresql":
        _postgresql()


def _postgresql() -> None:
    citus = _has_citus()
    if citus:
        # One connection to each node, or what follows the first distributed table might not see it.
        op.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
    # Half-empty pages keep the updates of a decay pass HOT; no index may stand on a column such a pass changes.
    op.execute("ALTER TABLE memory_state SET (fillfactor = 50)")
    # ANALYZE would copy what was written into the planner's statistics, where no erasure finds it.
    for column in ("nonce", "content", "digest", "embedding_model", "dimensions", "embedding"):
        op.execute(f"ALTER TABLE contents ALTER COLUMN {column} SET STATISTICS 0")
    op.execute("CREATE UNIQUE INDEX event_log_stream ON event_log (namespace_id, stream_id, version)")
    op.execute(
        "CREATE UNIQUE INDEX event_log_idempotency ON event_log (namespace_id, idempotency_key) "
        "WHERE idempotency_key IS NOT NULL"
    )
    # What the audit views call a day, summarised by block: next to no bytes, and nothing that a pass could feel.
    for at in ("recorded", "effective"):
        op.execute(
            f"CREATE INDEX event_log_{at}_day ON event_log USING brin "
            f"((CAST(timestamp 'epoch' + {at}_at * interval '1 microsecond' AS DATE))) WITH (autosummarize = on)"
        )
    op.execute("CREATE INDEX contents_digest ON contents (namespace_id, digest) WHERE digest IS NOT NULL")
    op.execute(
        "CREATE INDEX contents_embedded ON contents (namespace_id, embedding_model, dimensions) "
        "WHERE dimensions IS NOT NULL"
    )
    op.execute("CREATE INDEX memory_objects_content ON memory_objects (namespace_id, content_seq)")
    # Where the server has pgvector and the role may install it, embeddings are compared with it first.
    op.execute("""
        DO $$ BEGIN
            IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
                CREATE EXTENSION IF NOT EXISTS vector;
            END IF;
        EXCEPTION WHEN insufficient_privilege THEN NULL;
        END $$
    """)
    # A token says which it is, and not of which namespace.
    op.execute("CREATE INDEX tokens_by_id ON tokens (token_id)")
    op.execute("CREATE INDEX organiser_runs_open ON organiser_runs (namespace_id, task) WHERE finished_at IS NULL")
    op.execute("CREATE INDEX memory_state_due ON memory_state (namespace_id, due_at) WHERE due_at IS NOT NULL")
    if not citus:
        _triggers()
    for role in ("ebbtide_app", "ebbtide_auditor"):
        # Roles belong to the cluster, so another store on it may have made them already, even at this very moment.
        op.execute(f"""
            DO $$ BEGIN
                CREATE ROLE {role} NOLOGIN;
            EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
            END $$
        """)
    # Whoever works with the store may ask it as an auditor; where the roles were another's, that one grants it.
    for member in ("ebbtide_app", "CURRENT_USER"):
        op.execute(f"""
            DO $$ BEGIN
                GRANT ebbtide_auditor TO {member};
            EXCEPTION WHEN insufficient_privilege OR invalid_grant_operation OR unique_violation THEN NULL;
            END $$
        """)
    for name in TABLES:
        rights = "SELECT, INSERT" if name in IMMUTABLE else "SELECT, INSERT, UPDATE, DELETE"
        op.execute(f"GRANT {rights} ON {name} TO ebbtide_app")
    op.execute("GRANT SELECT ON alembic_version TO ebbtide_app")
    op.execute("GRANT USAGE ON SCHEMA audit TO ebbtide_app, ebbtide_auditor")
    if citus:
        _distribute()


def _triggers() -> None:
    op.execute("""
        CREATE FUNCTION ebbtide_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP
                USING ERRCODE = 'insufficient_privilege';
        END $$
    """)
    for name in IMMUTABLE:
        op.execute(
            f"CREATE TRIGGER {name}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {name} "
            "FOR EACH STATEMENT EXECUTE FUNCTION ebbtide_refuse_change()"
        )


def _has_citus() -> bool:
    found = "SELECT EXISTS (SELECT FROM pg_proc WHERE proname = 'create_distributed_table')"
    return bool(op.get_bind().execute(sa.text(found)).scalar_one())


def _distribute() -> None:
    # All of a namespace on one node: what is asked of one namespace is that node's alone.
    for name in TABLES:
        beside = "" if name == TABLES[0] else f", colocate_with => '{TABLES[0]}'"
        op.execute(f"SELECT create_distributed_table('{name}', 'namespace_id'{beside})")


def downgrade() -> None:
    raise NotImplementedError("the log is append-only: restore a backup instead")
