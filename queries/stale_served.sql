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
WITH shown AS (
    SELECT
        namespace_id,
        object_id,
        seq,
        actor_id,
        coalesce(CAST(CAST(payload AS JSON) ->> 'stated_at' AS TIMESTAMPTZ), effective_at) AS shown_at
    FROM audit.operations
    WHERE op_type = 'ACCESS'
        AND effective_at > :as_of - :days * INTERVAL '24 hours'
        AND effective_at <= :as_of
        AND (:namespace IS NULL OR namespace_id = :namespace)
),
-- What was on record of the memory by then, and the end of its ttl, which holds by the clock, before any run says so.
marks AS (
    SELECT shown.namespace_id, shown.seq, moves.lifecycle_state AS state, moves.effective_at AS since, moves.seq AS place
    FROM shown
    JOIN audit.entries moves
        ON moves.namespace_id = shown.namespace_id
        AND moves.object_id = shown.object_id
        AND moves.lifecycle_state IS NOT NULL
        AND moves.op_type <> 'ASSERT'
        AND moves.seq < shown.seq
        AND moves.effective_at <= shown.shown_at
    UNION ALL
    SELECT shown.namespace_id, shown.seq, 'EXPIRED', expired.since, 9223372036854775807
    FROM shown
    JOIN (
        SELECT namespace_id, target_id AS object_id, effective_at AS since
        FROM audit.tombstones
        WHERE reason = 'retention_policy_expiry'
        UNION
        SELECT namespace_id, id, expires_at
        FROM audit.memories
        WHERE expires_at IS NOT NULL
    ) expired
        ON expired.namespace_id = shown.namespace_id
        AND expired.object_id = shown.object_id
        AND expired.since <= shown.shown_at
),
last_mark AS (
    SELECT
        marks.*,
        row_number() OVER (PARTITION BY namespace_id, seq ORDER BY place DESC, since) AS nth
    FROM marks
)
SELECT
    shown.namespace_id,
    shown.object_id,
    memories.ref,
    shown.seq,
    shown.shown_at,
    shown.actor_id,
    last_mark.state,
    last_mark.since,
    floor(CAST(extract(epoch FROM shown.shown_at - last_mark.since) AS DOUBLE PRECISION) / 864 + 0.5) / 100
        AS days_stale
FROM shown
JOIN last_mark
    ON last_mark.namespace_id = shown.namespace_id
    AND last_mark.seq = shown.seq
    AND last_mark.nth = 1
    AND last_mark.state <> 'ACTIVE'
JOIN audit.memories ON memories.namespace_id = shown.namespace_id AND memories.id = shown.object_id
ORDER BY shown.namespace_id COLLATE "C", shown.seq
