-- question: How fast does salience really halve, by profile, and how fast should it?
-- parameter as_of (instant, default now): up to this instant
-- parameter days (integer, default 30): how far back from as_of
-- parameter namespace (text, optional): only this namespace
-- column decay_profile: the profile
-- column policy: the policy version
-- column memories: how many memories were seen to decay
-- column intervals: between how many pairs of neighbouring scores
-- column days: how many days these cover together
-- column observed_days: the half-life seen, the sum of ln 2 times the days per the sum of the logarithms of what was lost
-- column nominal_days: the half-life of what was never used, by the policy's numbers
-- column ratio: observed per nominal
WITH scored AS (
    SELECT
        namespace_id,
        object_id,
        version,
        op_type,
        effective_at,
        decay_profile,
        policy,
        salience,
        -- Its place among the memory's entries, warnings left out: they change no score.
        version - count(CASE WHEN op_type = 'DECAY_WARNING' THEN 1 END) OVER (
            PARTITION BY namespace_id, object_id ORDER BY version
        ) AS place
    FROM audit.entries
    WHERE op_type IN ('ASSERT', 'DECAY_APPLIED', 'DECAY_WARNING')
        AND effective_at <= :as_of
        AND (:namespace IS NULL OR namespace_id = :namespace)
),
neighbours AS (
    SELECT
        scored.*,
        place - lag(place) OVER stream AS apart,
        lag(effective_at) OVER stream AS effective_before,
        lag(salience) OVER stream AS salience_before
    FROM scored
    WHERE op_type <> 'DECAY_WARNING'
    WINDOW stream AS (PARTITION BY namespace_id, object_id ORDER BY version)
),
-- Of two scores with no other entry between them, only time made the difference.
faded AS (
    SELECT
        namespace_id,
        object_id,
        decay_profile,
        policy,
        -- Whole numbers add up to the same in any order.
        CAST(floor(extract(epoch FROM effective_at - effective_before) * 1000 + 0.5) AS BIGINT) AS milliseconds,
        CAST(floor(ln(salience_before / salience) * 1000000000 + 0.5) AS BIGINT) AS lost
    FROM neighbours
    WHERE op_type = 'DECAY_APPLIED'
        AND apart = 1
        AND effective_at > effective_before
        AND effective_at > :as_of - :days * INTERVAL '24 hours'
        AND salience > 0
        AND salience_before > 0
),
summed AS (
    SELECT
        decay_profile,
        policy,
        count(DISTINCT namespace_id || ' ' || CAST(object_id AS TEXT)) AS memories,
        count(*) AS intervals,
        CAST(sum(milliseconds) AS DOUBLE PRECISION) / 86400000 AS days,
        CAST(sum(lost) AS DOUBLE PRECISION) / 1000000000 AS lost
    FROM faded
    GROUP BY 1, 2
)
SELECT
    summed.decay_profile,
    summed.policy,
    summed.memories,
    summed.intervals,
    floor(summed.days * 100 + 0.5) / 100 AS days,
    CASE WHEN summed.lost > 0 THEN floor(ln(2) * summed.days / summed.lost * 100 + 0.5) / 100 END AS observed_days,
    floor(numbers.half_life_days * 100 + 0.5) / 100 AS nominal_days,
    CASE
        WHEN summed.lost > 0 AND numbers.half_life_days > 0
            THEN floor(ln(2) * summed.days / summed.lost / numbers.half_life_days * 1000 + 0.5) / 1000
    END AS ratio
FROM summed
JOIN audit.policy_parameters numbers
    ON numbers.policy = summed.policy AND numbers.decay_profile = summed.decay_profile
ORDER BY summed.decay_profile COLLATE "C", summed.policy COLLATE "C"
