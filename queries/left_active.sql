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
        policy_id,
        policy_version,
        policy,
        namespace_id,
        seq,
        effective_at,
        object_id,
        ref,
        from_state,
        to_state,
        reason,
        actor_id,
        row_number() OVER (PARTITION BY namespace_id, object_id ORDER BY version DESC) AS place
    FROM audit.lifecycle_transitions
    WHERE to_state IS NOT NULL
        AND effective_at <= :as_of
        AND (:known_at IS NULL OR recorded_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
)
SELECT
    t.policy,
    t.namespace_id,
    t.seq,
    t.effective_at,
    t.object_id,
    t.ref,
    t.to_state,
    t.reason,
    newest.to_state AS state
FROM moved t
JOIN moved newest
    ON newest.namespace_id = t.namespace_id AND newest.object_id = t.object_id AND newest.place = 1
WHERE t.from_state = 'ACTIVE'
    AND t.to_state <> 'ACTIVE'
    -- What somebody asked for was no policy's decision.
    AND t.actor_id = 'ebbtide'
    AND (:policy IS NULL OR t.policy = :policy)
ORDER BY t.policy_id COLLATE "C", t.policy_version COLLATE "C", t.namespace_id COLLATE "C", t.seq
