-- question: Which ACTIVE memories will be warned, or leave, within so many days if nothing touches them?
-- parameter days (integer, default 7): how many days from as_of on
-- parameter as_of (instant, default now): from when
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column object_id: the memory
-- column ref: its caller's name
-- column salience: as the last entry left it
-- column rule: what comes: warning, the rule of decay by which it leaves ACTIVE, or ttl
-- column due_at: when; before as_of, no run has executed it yet
WITH active AS (
    SELECT
        namespace_id,
        id AS object_id,
        ref,
        stored_salience AS salience,
        due_rule,
        due_at,
        CASE WHEN expires_at <= coalesce(exit_at, expires_at) THEN 'ttl' ELSE exit_rule END AS leaves_by,
        CASE WHEN expires_at <= coalesce(exit_at, expires_at) THEN expires_at ELSE exit_at END AS leaves_at
    FROM audit.memories
    WHERE lifecycle_state = 'ACTIVE'
        AND due_at <= :as_of + :days * INTERVAL '24 hours'
        AND (:namespace IS NULL OR namespace_id = :namespace)
),
coming AS (
    SELECT namespace_id, object_id, ref, salience, due_rule AS rule, due_at
    FROM active
    UNION ALL
    -- What is to be warned may also leave in that time.
    SELECT namespace_id, object_id, ref, salience, leaves_by, leaves_at
    FROM active
    WHERE due_rule = 'warning' AND leaves_at <= :as_of + :days * INTERVAL '24 hours'
)
SELECT *
FROM coming
ORDER BY due_at, namespace_id COLLATE "C", object_id
