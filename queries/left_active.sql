-- question: Which memories did a policy version move out of ACTIVE, and where are they since?
-- parameter policy (text, optional): only this version, as id@version
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- column policy: the version, as id@version
-- column namespace_id: whose memory
-- column seq: the place of the entry in the namespace's log
-- column effective_at: when it left
-- column object_id: the memory
-- column ref: its caller's name
-- column to_state: where it went
-- column reason: the rule, or why it was merged or expired
-- column state: its lifecycle state as of as_of
WITH moved AS (
    SELECT
        *,
        coalesce(lag(to_state) OVER (PARTITION BY namespace_id, object_id ORDER BY version), 'ACTIVE') AS from_state
    FROM audit.lifecycle_transitions
    WHERE to_state IS NOT NULL
        AND effective_at <= :as_of
        AND (:known_at IS NULL OR recorded_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
),
placed AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY namespace_id, object_id ORDER BY version DESC) AS newest
    FROM moved
)
SELECT
    t.policy_id || '@' || t.policy_version AS policy,
    t.namespace_id,
    t.seq,
    t.effective_at,
    t.object_id,
    m.ref,
    t.to_state,
    t.reason,
    last.to_state AS state
FROM placed t
JOIN placed last ON last.namespace_id = t.namespace_id AND last.object_id = t.object_id AND last.newest = 1
LEFT JOIN audit.memories m ON m.namespace_id = t.namespace_id AND m.id = t.object_id
WHERE t.from_state = 'ACTIVE'
    AND t.to_state <> 'ACTIVE'
    -- What somebody asked for was no policy's decision.
    AND t.actor_id = 'ebbtide'
    AND (:policy IS NULL OR t.policy_id || '@' || t.policy_version = :policy)
ORDER BY t.policy_id COLLATE "C", t.policy_version COLLATE "C", t.namespace_id COLLATE "C", t.seq
