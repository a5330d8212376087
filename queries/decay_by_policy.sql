-- question: Which policy version decayed what, by profile and day, and how much?
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter days (integer, default 30): how many days back from as_of
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- column day: the UTC day it took effect
-- column policy: the version it was applied under, as id@version
-- column decay_profile: the profile of the memories
-- column entries: how many DECAY_APPLIED
-- column salience_lost: the salience they took, in all
-- column confidence_lost: the confidence they took, in all
SELECT
    effective_day AS day,
    policy_id || '@' || policy_version AS policy,
    decay_profile,
    count(*) AS entries,
    -- Scores have nine decimals: as whole numbers they add up to the same in any order.
    CAST(-sum(CAST(salience_delta * 1000000000 AS INTEGER)) AS DOUBLE PRECISION) / 1000000000 AS salience_lost,
    CAST(-sum(CAST(confidence_delta * 1000000000 AS INTEGER)) AS DOUBLE PRECISION) / 1000000000 AS confidence_lost
FROM audit.entries
WHERE op_type = 'DECAY_APPLIED'
    AND effective_at <= :as_of
    AND effective_at > :as_of - :days * INTERVAL '24 hours'
    -- Said again by the day, which PostgreSQL has an index on.
    AND effective_day >= CAST((:as_of - :days * INTERVAL '24 hours') AT TIME ZONE 'UTC' AS DATE)
    AND effective_day <= CAST(:as_of AT TIME ZONE 'UTC' AS DATE)
    AND (:known_at IS NULL OR recorded_at <= :known_at)
    AND (:namespace IS NULL OR namespace_id = :namespace)
GROUP BY effective_day, policy_id, policy_version, decay_profile
ORDER BY effective_day, policy_id COLLATE "C", policy_version COLLATE "C", decay_profile COLLATE "C"
