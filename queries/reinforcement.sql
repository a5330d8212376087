-- question: Who reinforced and penalised, by which signals, and what was it worth?
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter days (integer, default 30): how many days back from as_of
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- column op_type: REINFORCE or PENALTY
-- column signal_type: the signal
-- column actor_id: who gave it
-- column actor_type: of which type
-- column signals: how many
-- column objects: on how many memories
-- column gamma: the γ of the signals, in all
-- column gamma_effective: what counted of it
-- column delta: the δ of penalties, in all
-- column confidence_change: the change of stored confidence, in all
SELECT
    op_type,
    signal_type,
    actor_id,
    actor_type,
    count(*) AS signals,
    count(DISTINCT object_id) AS objects,
    -- Scores have nine decimals: as whole numbers they add up to the same in any order.
    CAST(sum(CAST(gamma * 1000000000 AS BIGINT)) AS DOUBLE PRECISION) / 1000000000 AS gamma,
    CAST(sum(CAST(gamma_effective * 1000000000 AS BIGINT)) AS DOUBLE PRECISION) / 1000000000 AS gamma_effective,
    CAST(sum(CAST(delta * 1000000000 AS BIGINT)) AS DOUBLE PRECISION) / 1000000000 AS delta,
    CAST(sum(CAST(confidence_delta * 1000000000 AS BIGINT)) AS DOUBLE PRECISION) / 1000000000 AS confidence_change
FROM audit.reinforcements
WHERE effective_at <= :as_of
    AND effective_at > :as_of - :days * INTERVAL '24 hours'
    AND (:known_at IS NULL OR recorded_at <= :known_at)
    AND (:namespace IS NULL OR namespace_id = :namespace)
GROUP BY op_type, signal_type, actor_id, actor_type
ORDER BY op_type COLLATE "C", signal_type COLLATE "C", actor_id COLLATE "C", actor_type COLLATE "C"
