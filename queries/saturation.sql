-- question: How many memories stand at the ceiling, where scores no longer tell them apart?
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column policy: the policy the memories are under
-- column epistemic_type: how they are known
-- column ceiling: the confidence that reinforcement lifts such a memory to at most
-- column active: how many are ACTIVE
-- column confident: how many of them have a confidence within 0.05 of the ceiling, or above
-- column salient: how many are not pinned and have a salience of 0.95 or more
-- column confident_share: confident per active
-- column salient_share: salient per active
WITH ceilings AS MATERIALIZED (
    SELECT
        versions.policy_id || '@' || versions.policy_version AS policy,
        kinds.epistemic_type,
        CAST(CAST(versions.document AS JSON) -> 'params' -> 'reinforcement' -> 'ceiling' ->> kinds.epistemic_type
            AS DOUBLE PRECISION) AS ceiling
    FROM audit.policy_versions versions
    CROSS JOIN (SELECT DISTINCT epistemic_type FROM audit.memories) kinds
)
SELECT
    memories.namespace_id,
    memories.policy,
    memories.epistemic_type,
    ceilings.ceiling,
    count(*) AS active,
    count(CASE WHEN memories.confidence >= ceilings.ceiling - 0.05 THEN 1 END) AS confident,
    count(CASE WHEN NOT memories.pinned AND memories.salience >= 0.95 THEN 1 END) AS salient,
    CAST(count(CASE WHEN memories.confidence >= ceilings.ceiling - 0.05 THEN 1 END) AS DOUBLE PRECISION) / count(*)
        AS confident_share,
    CAST(count(CASE WHEN NOT memories.pinned AND memories.salience >= 0.95 THEN 1 END) AS DOUBLE PRECISION) / count(*)
        AS salient_share
FROM audit.memories
LEFT JOIN ceilings ON ceilings.policy = memories.policy AND ceilings.epistemic_type = memories.epistemic_type
WHERE memories.lifecycle_state = 'ACTIVE' AND (:namespace IS NULL OR memories.namespace_id = :namespace)
GROUP BY 1, 2, 3, 4
ORDER BY memories.namespace_id COLLATE "C", memories.policy COLLATE "C", memories.epistemic_type COLLATE "C"
