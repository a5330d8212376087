-- question: What do the six measures of forgetting say, in one table?
-- parameter as_of (instant, default now): up to this instant; what stands at the ceiling and what is immortal is told as
--   of now
-- parameter days (integer, default 30): how far back from as_of, and how long is watched what left
-- parameter namespace (text, optional): only this namespace
-- uses: regret, stale_served, saturation, immortals, pressure, half_life
-- column measure: the measure; a query of that name, or of its beginning, lists what it counts
-- column namespace_id: whose memory; null for all
-- column about: of half_life the profile and the policy version; else empty
-- column value: how many, or of half_life the days seen
-- column out_of: of how many, or of half_life the days by the policy
-- column share: value per out_of
-- column means: what is counted, and what a high number says
SELECT
    measure,
    CAST(:namespace AS TEXT) AS namespace_id,
    about,
    CAST(value AS DOUBLE PRECISION) AS value,
    CAST(out_of AS DOUBLE PRECISION) AS out_of,
    CASE WHEN out_of <> 0 THEN floor(CAST(value AS DOUBLE PRECISION) / out_of * 10000 + 0.5) / 10000 END AS share,
    means
FROM (
    SELECT
        1 AS place,
        'regret' AS measure,
        '' AS about,
        count(sign) AS value,
        count(*) AS out_of,
        'left by itself and was missed within the days: forgotten too early' AS means
    FROM regret
    UNION ALL
    SELECT
        2,
        'stale_served',
        '',
        (SELECT count(*) FROM stale_served),
        count(*),
        'shown although it was gone: a copy or a search that does not follow'
    FROM audit.entries
    WHERE op_type = 'ACCESS'
        AND effective_at > :as_of - :days * INTERVAL '24 hours'
        AND effective_at <= :as_of
        AND (:namespace IS NULL OR namespace_id = :namespace)
    UNION ALL
    SELECT
        3,
        'saturation_confidence',
        '',
        coalesce(sum(confident), 0),
        coalesce(sum(active), 0),
        'ACTIVE and as sure as reinforcement makes it: signals tell nothing any more'
    FROM saturation
    UNION ALL
    SELECT
        4,
        'saturation_salience',
        '',
        coalesce(sum(salient), 0),
        coalesce(sum(active), 0),
        'ACTIVE and as salient as can be: ranking by it tells nothing any more'
    FROM saturation
    UNION ALL
    SELECT
        5,
        'immortals',
        '',
        (SELECT coalesce(sum(memories), 0) FROM immortals),
        coalesce(sum(active), 0),
        'ACTIVE and no rule will ever move it: the store only grows'
    FROM saturation
    UNION ALL
    SELECT
        6,
        'pressure',
        '',
        coalesce(sum(asserted + came_back - left_by_decay - left_by_ttl - left_by_hand), 0),
        coalesce(
            sum(
                CASE
                    WHEN nth = 1 THEN active - asserted - came_back + left_by_decay + left_by_ttl + left_by_hand
                    ELSE 0
                END
            ),
            0
        ),
        'more came than left in the days: retrieval has to choose among ever more'
    FROM (SELECT pressure.*, row_number() OVER (PARTITION BY namespace_id ORDER BY day) AS nth FROM pressure) days
    UNION ALL
    SELECT
        7,
        'half_life',
        decay_profile || ' ' || policy,
        observed_days,
        nominal_days,
        'days to half the salience, seen and by the policy: above 1 slower than it says'
    FROM half_life
) measures
ORDER BY place, about COLLATE "C"
