-- question: Which policy version decayed what, and how much?
-- parameter as_of (instant, default now): up to this instant
-- parameter days (integer, default 30): how far back from as_of
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- column policy_id: the policy it was applied under
-- column policy_version: and its version
-- column decay_profile: the profile of the memories
-- column day: the UTC day it took effect
-- column entries: how many DECAY_APPLIED
-- column objects: of how many memories
-- column salience_lost: the salience they lost, summed up
-- column confidence_lost: the confidence they lost, summed up
SELECT
    policy_id,
    policy_version,
    decay_profile,
    CAST(effective_at AT TIME ZONE 'UTC' AS DATE) AS day,
    count(*) AS entries,
    count(DISTINCT object_id) AS objects,
    -- Scores have nine decimals; whole numbers add up to the same in any order.
    CAST(-sum(CAST(salience_delta * 1000000000 AS BIGINT)) AS DOUBLE PRECISION) / 1000000000 AS salience_lost,
    CAST(-sum(CAST(confidence_delta * 1000000000 AS BIGINT)) AS DOUBLE PRECISION) / 1000000000 AS confidence_lost
FROM audit.decay_applied
WHERE effective_at <= :as_of
    AND effective_at > :as_of - :days * INTERVAL '24 hours'
    AND (:known_at IS NULL OR recorded_at <= :known_at)
    AND (:namespace IS NULL OR namespace_id = :namespace)
GROUP BY 1, 2, 3, 4
ORDER BY day, policy_id COLLATE "C", policy_version COLLATE "C", decay_profile COLLATE "C"
