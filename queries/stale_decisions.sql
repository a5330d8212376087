-- question: Which decisions cite a policy version that is no longer the namespace's?
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column policy: the version they cite, as id@version
-- column assigned: the version of the namespace as of as_of
-- column op_type: what was decided
-- column entries: how many
-- column first_at: when the first took effect
-- column last_at: when the last did
WITH assigned AS (
    SELECT
        namespace_id,
        policy_id,
        policy_version,
        row_number() OVER (PARTITION BY namespace_id ORDER BY seq DESC) AS place
    FROM audit.entries
    WHERE op_type = 'POLICY_ASSIGNED'
        AND stream_type = 'namespace'
        AND effective_at <= :as_of
        AND (:known_at IS NULL OR recorded_at <= :known_at)
),
decided AS (
    SELECT
        namespace_id,
        policy_id,
        policy_version,
        op_type,
        count(*) AS entries,
        min(effective_at) AS first_at,
        max(effective_at) AS last_at
    FROM audit.entries
    -- What somebody asked for is no policy's decision, nor are a run's report and an assignment.
    WHERE actor_id = 'ebbtide'
        AND op_type NOT IN ('POLICY_ASSIGNED', 'ORGANISER_RUN', 'INTEGRITY_CHECK')
        AND effective_at <= :as_of
        AND (:known_at IS NULL OR recorded_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
    GROUP BY namespace_id, policy_id, policy_version, op_type
)
SELECT
    d.namespace_id,
    d.policy_id || '@' || d.policy_version AS policy,
    a.policy_id || '@' || a.policy_version AS assigned,
    d.op_type,
    d.entries,
    d.first_at,
    d.last_at
FROM decided d
JOIN assigned a ON a.namespace_id = d.namespace_id AND a.place = 1
WHERE d.policy_id <> a.policy_id OR d.policy_version <> a.policy_version
ORDER BY d.namespace_id COLLATE "C", d.policy_id COLLATE "C", d.policy_version COLLATE "C", d.op_type COLLATE "C"
