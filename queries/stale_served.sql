-- question: What was shown although it was gone: not ACTIVE any more, or past its ttl?
-- parameter as_of (instant, default now): up to this instant
-- parameter days (integer, default 30): how far back from as_of
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column object_id: the memory
-- column ref: the caller's name for it
-- column seq: the ACCESS entry that says so
-- column shown_at: when it was shown
-- column actor_id: to whom, or by whom
-- column state: what it was by then, ARCHIVED, DEPRECATED, SUPERSEDED or EXPIRED
-- column since: from when
-- column days_stale: the days from since to shown_at
WITH timeline AS (
    SELECT
        namespace_id,
        object_id,
        seq,
        actor_id,
        coalesce(CAST(CAST(payload AS JSON) ->> 'stated_at' AS TIMESTAMPTZ), effective_at) AS happened_at,
        CAST(NULL AS BIGINT) AS moved,
        CAST(NULL AS TEXT) AS state,
        CAST(NULL AS TIMESTAMPTZ) AS expired_at
    FROM audit.operations
    WHERE op_type = 'ACCESS'
        AND effective_at > :as_of - :days * INTERVAL '24 hours'
        AND effective_at <= :as_of
        AND (:namespace IS NULL OR namespace_id = :namespace)
    UNION ALL
    SELECT namespace_id, object_id, NULL, NULL, effective_at, seq, lifecycle_state, NULL
    FROM audit.entries
    WHERE lifecycle_state IS NOT NULL AND op_type <> 'ASSERT'
    UNION ALL
    -- A ttl ends by the clock, before any run says so.
    SELECT namespace_id, target_id, NULL, NULL, effective_at, NULL, NULL, effective_at
    FROM audit.tombstones
    WHERE reason = 'retention_policy_expiry'
    UNION ALL
    SELECT namespace_id, id, NULL, NULL, expires_at, NULL, NULL, expires_at
    FROM audit.memories
    WHERE expires_at IS NOT NULL
),
-- Each change of state and what was shown until the next one, as a group.
grouped AS (
    SELECT
        timeline.*,
        min(expired_at) OVER (PARTITION BY namespace_id, object_id) AS ttl_ended,
        count(moved) OVER (
            PARTITION BY namespace_id, object_id ORDER BY happened_at, seq IS NOT NULL, moved ROWS UNBOUNDED PRECEDING
        ) AS nth
    FROM timeline
),
shown AS (
    SELECT
        namespace_id,
        object_id,
        seq,
        actor_id,
        happened_at,
        ttl_ended,
        max(moved) OVER period AS moved,
        max(state) OVER period AS state,
        max(CASE WHEN moved IS NOT NULL THEN happened_at END) OVER period AS since
    FROM grouped
    WINDOW period AS (PARTITION BY namespace_id, object_id, nth)
),
stale AS MATERIALIZED (
    SELECT
        namespace_id,
        object_id,
        seq,
        actor_id,
        happened_at AS shown_at,
        CASE WHEN ttl_ended <= happened_at THEN 'EXPIRED' ELSE state END AS state,
        CASE WHEN ttl_ended <= happened_at THEN ttl_ended ELSE since END AS since
    FROM shown
    WHERE seq IS NOT NULL AND (ttl_ended <= happened_at OR (state <> 'ACTIVE' AND moved < seq))
)
SELECT
    stale.namespace_id,
    stale.object_id,
    memories.ref,
    stale.seq,
    stale.shown_at,
    stale.actor_id,
    stale.state,
    stale.since,
    floor(CAST(extract(epoch FROM stale.shown_at - stale.since) AS DOUBLE PRECISION) / 864 + 0.5) / 100 AS days_stale
FROM stale
JOIN audit.memories ON memories.namespace_id = stale.namespace_id AND memories.id = stale.object_id
ORDER BY stale.namespace_id COLLATE "C", stale.seq
