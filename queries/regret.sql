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
gone AS (
    SELECT
        moves.*,
        CASE reason WHEN 'retention_policy_expiry' THEN 'ttl' ELSE reason END AS rule,
        effective_at + :days * INTERVAL '24 hours' AS watched_to,
        CASE next_state WHEN 'ACTIVE' THEN next_at END AS back_at
    FROM moves
    WHERE from_state = 'ACTIVE' AND to_state <> 'ACTIVE'
        AND reason IN ('archive', 'force_archive', 'deprecate_by_confidence', 'retention_policy_expiry')
        AND effective_at > :as_of - 2 * :days * INTERVAL '24 hours'
        AND effective_at <= :as_of - :days * INTERVAL '24 hours'
),
asked AS (
    SELECT namespace_id, object_id, effective_at
    FROM audit.entries
    WHERE op_type = 'ACCESS'
    UNION ALL
    -- What was asked of it and refused, since it was gone.
    SELECT namespace_id, object_id, effective_at
    FROM audit.refusals
    WHERE op_type IN ('ACCESS', 'REINFORCE', 'PIN', 'RESTORE')
),
-- What says the same; of what is erased nothing but the caller's word for it is left.
again AS (
    SELECT gone.namespace_id, gone.seq, said.created_at AS missed_at
    FROM gone
    JOIN audit.memories was ON was.namespace_id = gone.namespace_id AND was.id = gone.object_id
    JOIN audit.memories said
        ON said.namespace_id = was.namespace_id
        AND said.type = was.type
        AND coalesce(said.subject, '') = coalesce(was.subject, '')
        AND said.value = was.value
        AND said.created_at > gone.effective_at
        AND said.created_at <= gone.watched_to
        AND said.id <> was.id
    UNION ALL
    SELECT namespace_id, seq, missed_at
    FROM (
        SELECT
            gone.namespace_id,
            gone.seq,
            said.created_at AS missed_at,
            row_number() OVER (
                PARTITION BY said.namespace_id, said.id ORDER BY gone.effective_at DESC, gone.seq DESC
            ) AS nth
        FROM gone
        JOIN audit.memories was ON was.namespace_id = gone.namespace_id AND was.id = gone.object_id
        JOIN audit.memories said
            ON said.namespace_id = was.namespace_id
            AND said.type = was.type
            AND coalesce(said.subject, '') = coalesce(was.subject, '')
            AND said.created_at > gone.effective_at
            AND said.created_at <= gone.watched_to
        JOIN audit.operations asserted
            ON asserted.namespace_id = said.namespace_id
            AND asserted.object_id = said.id
            AND asserted.op_type = 'ASSERT'
            AND (CAST(asserted.payload AS JSON) ->> 'reasserts_erased') = 'true'
        WHERE was.erased_at IS NOT NULL
    ) one
    WHERE nth = 1
),
signs AS (
    SELECT gone.namespace_id, gone.seq, asked.effective_at AS missed_at, 'asked' AS sign
    FROM gone
    JOIN asked
        ON asked.namespace_id = gone.namespace_id
        AND asked.object_id = gone.object_id
        AND asked.effective_at > gone.effective_at
        AND asked.effective_at <= gone.watched_to
        AND (gone.back_at IS NULL OR asked.effective_at < gone.back_at)
    UNION ALL
    SELECT namespace_id, seq, next_at, 'restored'
    FROM gone
    WHERE next_op = 'RESTORE' AND next_at <= watched_to
    UNION ALL
    SELECT namespace_id, seq, missed_at, 'said_again'
    FROM again
),
first_sign AS (
    SELECT
        signs.*,
        row_number() OVER (PARTITION BY namespace_id, seq ORDER BY missed_at, sign COLLATE "C") AS nth
    FROM signs
)
SELECT
    gone.namespace_id,
    gone.object_id,
    memories.ref,
    gone.effective_at AS left_at,
    gone.rule,
    gone.to_state,
    memories.erased_at IS NOT NULL AS erased,
    gone.decay_profile,
    gone.policy,
    first_sign.missed_at,
    first_sign.sign,
    floor(CAST(extract(epoch FROM first_sign.missed_at - gone.effective_at) AS DOUBLE PRECISION) / 864 + 0.5) / 100
        AS days_later
FROM gone
JOIN audit.memories ON memories.namespace_id = gone.namespace_id AND memories.id = gone.object_id
LEFT JOIN first_sign
    ON first_sign.namespace_id = gone.namespace_id AND first_sign.seq = gone.seq AND first_sign.nth = 1
ORDER BY (first_sign.sign IS NULL), gone.namespace_id COLLATE "C", first_sign.missed_at, gone.effective_at, gone.seq
