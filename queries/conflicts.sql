-- question: What contradicts what, and which requests came second?
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter days (integer, default 30): how many days back from as_of
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column recorded_at: when it was written
-- column kind: contradiction (two memories that say otherwise) or refused (another writer was first)
-- column rule: of a refusal: expected_version or idempotency_key
-- column op_type: what was asked
-- column object_id: the memory
-- column ref: its caller's name
-- column other_id: the memory that contradicts it
-- column other_ref: and its caller's name
-- column actor_id: who noted it, or was refused
WITH told AS (
    SELECT namespace_id, seq, recorded_at, op_type, actor_id, CAST(payload AS JSON) AS said
    FROM audit.operations
    WHERE op_type = 'CONTRADICTION_NOTED'
        AND effective_at <= :as_of
        AND effective_at > :as_of - :days * INTERVAL '24 hours'
        AND (:known_at IS NULL OR recorded_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
),
met AS (
    SELECT
        namespace_id,
        recorded_at,
        'contradiction' AS kind,
        CAST(NULL AS TEXT) AS rule,
        op_type,
        CAST((said ->> 'object_id_a') AS UUID) AS object_id,
        CAST((said ->> 'object_id_b') AS UUID) AS other_id,
        actor_id,
        seq,
        CAST(NULL AS UUID) AS id
    FROM told
    UNION ALL
    SELECT
        namespace_id, recorded_at, 'refused', rule, op_type, object_id, CAST(NULL AS UUID), actor_id,
        CAST(NULL AS BIGINT), id
    FROM audit.refusals
    WHERE rule IN ('expected_version', 'idempotency_key')
        AND recorded_at <= :as_of
        AND recorded_at > :as_of - :days * INTERVAL '24 hours'
        AND (:known_at IS NULL OR recorded_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
)
SELECT
    c.namespace_id,
    c.recorded_at,
    c.kind,
    c.rule,
    c.op_type,
    c.object_id,
    a.ref,
    c.other_id,
    b.ref AS other_ref,
    c.actor_id
FROM met c
LEFT JOIN audit.memories a ON a.namespace_id = c.namespace_id AND a.id = c.object_id
LEFT JOIN audit.memories b ON b.namespace_id = c.namespace_id AND b.id = c.other_id
ORDER BY c.recorded_at, c.namespace_id COLLATE "C", c.kind COLLATE "C", coalesce(c.seq, 0), c.id
