-- question: Which ACTIVE memories will no rule ever move, and why not?
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column reason: pinned, frozen (without an end), no_decay (a profile with rate 0), floor (salience_floor at or above the
--   archive threshold), no_threshold (the policy's are 0) or beyond_horizon (not within 100 years)
-- column decay_profile: their profile
-- column policy: the policy they are under
-- column memories: how many
-- column held: how many of them are also under a legal hold, while which no ttl ends
-- column share: memories per ACTIVE memory of the namespace
WITH numbers AS MATERIALIZED (
    SELECT *
    FROM audit.policy_parameters
),
kept AS (
    SELECT
        memories.namespace_id,
        memories.decay_profile,
        memories.policy,
        memories.held,
        CASE
            WHEN memories.exit_at IS NOT NULL OR memories.expires_at IS NOT NULL THEN NULL
            WHEN memories.pinned THEN 'pinned'
            WHEN memories.frozen AND memories.thaws_at IS NULL THEN 'frozen'
            WHEN numbers.rate = 0 THEN 'no_decay'
            WHEN
                numbers.floor >= numbers.archive AND numbers.archive > 0
                AND numbers.floor_after <= CASE
                    WHEN numbers.counts_accesses THEN memories.access_count ELSE memories.reinforce_count
                END
                THEN 'floor'
            WHEN numbers.archive = 0 THEN 'no_threshold'
            ELSE 'beyond_horizon'
        END AS reason
    FROM audit.memories
    JOIN numbers ON numbers.policy = memories.policy AND numbers.decay_profile = memories.decay_profile
    WHERE memories.lifecycle_state = 'ACTIVE' AND (:namespace IS NULL OR memories.namespace_id = :namespace)
),
counted AS (
    SELECT
        namespace_id,
        reason,
        decay_profile,
        policy,
        count(*) AS memories,
        count(CASE WHEN held THEN 1 END) AS held,
        CAST(sum(count(*)) OVER (PARTITION BY namespace_id) AS DOUBLE PRECISION) AS active
    FROM kept
    GROUP BY namespace_id, reason, decay_profile, policy
)
SELECT
    namespace_id,
    reason,
    decay_profile,
    policy,
    memories,
    held,
    memories / active AS share
FROM counted
WHERE reason IS NOT NULL
ORDER BY namespace_id COLLATE "C", reason COLLATE "C", decay_profile COLLATE "C", policy COLLATE "C"
