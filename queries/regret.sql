-- question: What was forgotten, and missed soon after?
-- parameter as_of (instant, default now): up to this instant
-- parameter days (integer, default 30): how long each is watched; listed is what left between twice as many days before
--   as_of and as many days before it, so that all were watched as long
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column object_id: the memory
-- column ref: the caller's name for it
-- column left_at: when it left ACTIVE
-- column rule: the rule that moved it; ttl for a retention rule
-- column to_state: the state it went to
-- column erased: whether its content is gone
-- column decay_profile: its profile then
-- column policy: the policy that decided
-- column missed_at: when it was missed first within the days; null where it was not
-- column sign: how that showed, asked (shown or asked for while it was gone), restored or said_again
-- column days_later: the days from left_at to missed_at
WITH moves AS (
    SELECT
        namespace_id,
        object_id,
        seq,
        effective_at,
        lifecycle_state AS to_state,
        CAST(payload AS JSON) ->> 'reason' AS reason,
        decay_profile,
        policy,
        coalesce(lag(lifecycle_state) OVER stream, 'ACTIVE') AS from_state,
        lead(op_type) OVER stream AS next_op,
        lead(effective_at) OVER stream AS next_at,
        lead(lifecycle_state) OVER stream AS next_state
    FROM audit.operations
    WHERE lifecycle_state IS NOT NULL
        AND op_type <> 'ASSERT'
        AND (:namespace IS NULL OR namespace_id = :namespace)
    WINDOW stream AS (PARTITION BY namespace_id, object_id ORDER BY seq)
),
gone AS MATERIALIZED (
    SELECT
        moves.namespace_id,
        moves.object_id,
        moves.seq,
        moves.effective_at AS left_at,
        moves.effective_at + :days * INTERVAL '24 hours' AS watched_to,
        CASE moves.reason WHEN 'retention_policy_expiry' THEN 'ttl' ELSE moves.reason END AS rule,
        moves.to_state,
        moves.decay_profile,
        moves.policy,
        moves.next_op,
        moves.next_at,
        CASE moves.next_state WHEN 'ACTIVE' THEN moves.next_at END AS back_at,
        memories.ref,
        memories.type,
        coalesce(memories.subject, '') AS subject,
        memories.value,
        memories.erased_at IS NOT NULL AS erased
    FROM moves
    JOIN audit.memories ON memories.namespace_id = moves.namespace_id AND memories.id = moves.object_id
    WHERE moves.from_state = 'ACTIVE'
        AND moves.to_state <> 'ACTIVE'
        AND moves.reason IN ('archive', 'force_archive', 'deprecate_by_confidence', 'retention_policy_expiry')
        AND moves.effective_at > :as_of - 2 * :days * INTERVAL '24 hours'
        AND moves.effective_at <= :as_of - :days * INTERVAL '24 hours'
),
-- Each sign is looked for behind its memory's leaving, in the order of time. At one instant what left comes last:
-- only what is later counts.
asked AS (
    SELECT
        seq,
        namespace_id,
        watched_to,
        back_at,
        min(asked_at) OVER (
            PARTITION BY namespace_id, object_id ORDER BY happened_at, seq IS NOT NULL
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS missed_at
    FROM (
        SELECT namespace_id, object_id, left_at AS happened_at, seq, watched_to, back_at, CAST(NULL AS TIMESTAMPTZ) AS asked_at
        FROM gone
        UNION ALL
        SELECT namespace_id, object_id, effective_at, NULL, NULL, NULL, effective_at
        FROM audit.entries
        WHERE op_type = 'ACCESS' AND effective_at > :as_of - 2 * :days * INTERVAL '24 hours' AND effective_at <= :as_of
        UNION ALL
        -- What was asked of it and refused, since it was gone.
        SELECT namespace_id, object_id, effective_at, NULL, NULL, NULL, effective_at
        FROM audit.refusals
        WHERE op_type IN ('ACCESS', 'REINFORCE', 'PIN', 'RESTORE')
    ) timeline
),
said_again AS (
    SELECT
        seq,
        namespace_id,
        watched_to,
        min(made_at) OVER (
            PARTITION BY namespace_id, type, subject, value ORDER BY happened_at, seq IS NOT NULL
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS missed_at
    FROM (
        SELECT namespace_id, type, subject, value, left_at AS happened_at, seq, watched_to, CAST(NULL AS TIMESTAMPTZ) AS made_at
        FROM gone
        WHERE value IS NOT NULL
        UNION ALL
        SELECT namespace_id, type, coalesce(subject, ''), value, created_at, NULL, NULL, created_at
        FROM audit.memories
        WHERE value IS NOT NULL AND created_at > :as_of - 2 * :days * INTERVAL '24 hours' AND created_at <= :as_of
    ) timeline
),
-- Of what is erased nothing but the caller's word for it is left; it speaks of the last that went.
words AS MATERIALIZED (
    SELECT namespace_id, object_id
    FROM audit.operations
    WHERE op_type = 'ASSERT'
        AND effective_at > :as_of - 2 * :days * INTERVAL '24 hours'
        AND effective_at <= :as_of
        AND (CAST(payload AS JSON) ->> 'reasserts_erased') = 'true'
),
reasserted AS (
    SELECT
        seq,
        namespace_id,
        watched_to,
        lead(made_at) OVER (PARTITION BY namespace_id, type, subject ORDER BY happened_at, seq IS NOT NULL, seq)
            AS missed_at
    FROM (
        SELECT namespace_id, type, subject, left_at AS happened_at, seq, watched_to, CAST(NULL AS TIMESTAMPTZ) AS made_at
        FROM gone
        WHERE erased
        UNION ALL
        SELECT
            memories.namespace_id,
            memories.type,
            coalesce(memories.subject, ''),
            memories.created_at,
            NULL,
            NULL,
            memories.created_at
        FROM words
        JOIN audit.memories ON memories.namespace_id = words.namespace_id AND memories.id = words.object_id
    ) timeline
),
signs AS (
    SELECT namespace_id, seq, missed_at, 'asked' AS sign
    FROM asked
    WHERE seq IS NOT NULL AND missed_at <= watched_to AND (back_at IS NULL OR missed_at < back_at)
    UNION ALL
    SELECT namespace_id, seq, next_at, 'restored'
    FROM gone
    WHERE next_op = 'RESTORE' AND next_at <= watched_to
    UNION ALL
    SELECT namespace_id, seq, missed_at, 'said_again'
    FROM said_again
    WHERE seq IS NOT NULL AND missed_at <= watched_to
    UNION ALL
    SELECT namespace_id, seq, missed_at, 'said_again'
    FROM reasserted
    WHERE seq IS NOT NULL AND missed_at <= watched_to
),
first_sign AS MATERIALIZED (
    SELECT
        signs.*,
        row_number() OVER (PARTITION BY namespace_id, seq ORDER BY missed_at, sign COLLATE "C") AS nth
    FROM signs
)
SELECT
    gone.namespace_id,
    gone.object_id,
    gone.ref,
    gone.left_at,
    gone.rule,
    gone.to_state,
    gone.erased,
    gone.decay_profile,
    gone.policy,
    first_sign.missed_at,
    first_sign.sign,
    floor(CAST(extract(epoch FROM first_sign.missed_at - gone.left_at) AS DOUBLE PRECISION) / 864 + 0.5) / 100
        AS days_later
FROM gone
LEFT JOIN first_sign
    ON first_sign.namespace_id = gone.namespace_id AND first_sign.seq = gone.seq AND first_sign.nth = 1
ORDER BY (first_sign.sign IS NULL), gone.namespace_id COLLATE "C", first_sign.missed_at, gone.left_at, gone.seq
