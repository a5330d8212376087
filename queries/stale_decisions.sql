-- question: Which decisions cite a policy version that is no longer the namespace's?
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column policy: the version they cite, as id@version
-- column assigned: the version of the namespace as of as_of
-- column op_type: what was decided
-- column entries: how many
-- column objects: on how many memories
-- column first_at: when the first took effect
-- column last_at: when the last did
WITH known AS (
    SELECT namespace_id, seq, effective_at, op_type, stream_type, object_id, actor_id, policy_id || '@' || policy_version AS policy
    FROM audit.entries
    WHERE effective_at <= :as_of
        AND (:known_at IS NULL OR recorded_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
),
numbered AS (
    SELECT namespace_id, policy, row_number() OVER (PARTITION BY namespace_id ORDER BY seq DESC) AS place
    FROM known
    WHERE op_type = 'POLICY_ASSIGNED' AND stream_type = 'namespace'
)
SELECT
    d.namespace_id,
    d.policy,
    a.policy AS assigned,
    d.op_type,
    count(*) AS entries,
    count(DISTINCT d.object_id) AS objects,
    min(d.effective_at) AS first_at,
    max(d.effective_at) AS last_at
FROM known d
JOIN numbered a ON a.namespace_id = d.namespace_id AND a.place = 1
WHERE d.actor_id = 'ebbtide'
    -- A run's report decides nothing.
    AND d.op_type NOT IN ('ORGANISER_RUN', 'INTEGRITY_CHECK')
    AND d.policy <> a.policy
GROUP BY d.namespace_id, d.policy, a.policy, d.op_type
ORDER BY d.namespace_id COLLATE "C", d.policy COLLATE "C", d.op_type COLLATE "C"
