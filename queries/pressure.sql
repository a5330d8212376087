-- question: How many memories are ACTIVE day by day, and what came and went?
-- parameter as_of (instant, default now): up to this instant
-- parameter days (integer, default 30): how far back from as_of
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column day: the UTC day; the first of a namespace is where the days begin, then those on which anything moved
-- column asserted: how many memories were made
-- column came_back: how many became ACTIVE again, by RESTORE or a correction
-- column left_by_decay: how many left ACTIVE by a rule of decay
-- column left_by_ttl: how many left by a retention rule
-- column left_by_hand: how many left otherwise: archived, deprecated, superseded, merged, erased, corrected
-- column active: how many were ACTIVE at the end of the day, or at as_of
WITH moves AS (
    SELECT namespace_id, effective_at, effective_day, 'asserted' AS what, 1 AS change
    FROM audit.entries
    WHERE op_type = 'ASSERT'
    UNION ALL
    SELECT
        namespace_id,
        effective_at,
        CAST(effective_at AT TIME ZONE 'UTC' AS DATE),
        CASE
            WHEN to_state = 'ACTIVE' THEN 'came_back'
            WHEN reason IN ('archive', 'force_archive', 'deprecate_by_confidence') THEN 'decay'
            WHEN reason = 'retention_policy_expiry' THEN 'ttl'
            ELSE 'hand'
        END,
        CASE WHEN to_state = 'ACTIVE' THEN 1 ELSE -1 END
    FROM (
        SELECT
            namespace_id,
            effective_at,
            lifecycle_state AS to_state,
            coalesce(lag(lifecycle_state) OVER (PARTITION BY namespace_id, object_id ORDER BY seq), 'ACTIVE') AS was,
            CAST(payload AS JSON) ->> 'reason' AS reason
        FROM audit.operations
        WHERE lifecycle_state IS NOT NULL AND op_type <> 'ASSERT'
    ) moved
    WHERE (to_state = 'ACTIVE') <> (was = 'ACTIVE')
),
dated AS (
    SELECT
        namespace_id,
        what,
        change,
        greatest(
            effective_day, CAST((:as_of - :days * INTERVAL '24 hours') AT TIME ZONE 'UTC' AS DATE)
        ) AS day,
        effective_at > :as_of - :days * INTERVAL '24 hours' AS within
    FROM moves
    WHERE effective_at <= :as_of AND (:namespace IS NULL OR namespace_id = :namespace)
),
by_day AS (
    SELECT
        namespace_id,
        day,
        count(CASE WHEN within AND what = 'asserted' THEN 1 END) AS asserted,
        count(CASE WHEN within AND what = 'came_back' THEN 1 END) AS came_back,
        count(CASE WHEN within AND what = 'decay' THEN 1 END) AS left_by_decay,
        count(CASE WHEN within AND what = 'ttl' THEN 1 END) AS left_by_ttl,
        count(CASE WHEN within AND what = 'hand' THEN 1 END) AS left_by_hand,
        sum(change) AS change
    FROM dated
    GROUP BY 1, 2
)
SELECT
    namespace_id,
    day,
    asserted,
    came_back,
    left_by_decay,
    left_by_ttl,
    left_by_hand,
    CAST(sum(change) OVER (PARTITION BY namespace_id ORDER BY day) AS BIGINT) AS active
FROM by_day
ORDER BY namespace_id COLLATE "C", day
