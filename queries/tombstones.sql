-- question: What was deleted logically, for which reason, and by which rule?
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter days (integer, default 365): how many days back from as_of
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- column reason: retention_policy_expiry, user_request or compliance
-- column policy_ref: the policy version it happened under, as id@version
-- column action: archive, which keeps the content, or erase
-- column target_type: memory_object or event
-- column actor_id: who asked; `ebbtide` for the organiser
-- column tombstones: how many
-- column first_at: when the first took effect
-- column last_at: when the last did
SELECT
    reason,
    policy_ref,
    action,
    target_type,
    actor_id,
    count(*) AS tombstones,
    min(effective_at) AS first_at,
    max(effective_at) AS last_at
FROM audit.tombstones
WHERE effective_at <= :as_of
    AND effective_at > :as_of - :days * INTERVAL '24 hours'
    AND (:known_at IS NULL OR recorded_at <= :known_at)
    AND (:namespace IS NULL OR namespace_id = :namespace)
GROUP BY reason, policy_ref, action, target_type, actor_id
ORDER BY
    reason COLLATE "C",
    policy_ref COLLATE "C",
    action COLLATE "C",
    target_type COLLATE "C",
    actor_id COLLATE "C"
