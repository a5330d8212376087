-- question: What left its lifecycle state, when, and at which thresholds?
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter days (integer, default 30): how many days back from as_of
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column seq: the place of the entry in the namespace's log
-- column effective_at: when it took effect: by rule, the instant its condition first held
-- column recorded_at: when it was written
-- column object_id: the memory
-- column ref: its caller's name
-- column op_type: the operation
-- column from_state: the state before
-- column to_state: the state after
-- column reason: the rule, `requested`, or why two memories were merged
-- column thresholds_triggered: JSON list of the rules of decay whose thresholds it met; null where no rule of decay did it
-- column threshold: the threshold
-- column archive_min_confidence: the confidence below which `archive` deprecates
-- column salience: the salience at that instant
-- column confidence: the confidence at that instant
-- column policy: the version it was decided under, as id@version
-- column actor_id: who asked; `ebbtide` for the organiser
WITH moved AS (
    SELECT
        *,
        coalesce(lag(to_state) OVER (PARTITION BY namespace_id, object_id ORDER BY version), 'ACTIVE') AS from_state
    FROM audit.lifecycle_transitions
    WHERE to_state IS NOT NULL
        AND effective_at <= :as_of
        AND (:known_at IS NULL OR recorded_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
)
SELECT
    t.namespace_id,
    t.seq,
    t.effective_at,
    t.recorded_at,
    t.object_id,
    m.ref,
    t.op_type,
    t.from_state,
    t.to_state,
    t.reason,
    d.thresholds_triggered,
    d.threshold,
    d.archive_min_confidence,
    d.salience,
    d.confidence,
    t.policy_id || '@' || t.policy_version AS policy,
    t.actor_id
FROM moved t
-- A transition by rule follows the entry with what met the thresholds.
LEFT JOIN audit.decay_applied d
    ON d.namespace_id = t.namespace_id
    AND d.object_id = t.object_id
    AND d.version = t.version - 1
    AND d.thresholds_triggered IS NOT NULL
LEFT JOIN audit.memories m ON m.namespace_id = t.namespace_id AND m.id = t.object_id
WHERE t.effective_at > :as_of - :days * INTERVAL '24 hours'
ORDER BY t.namespace_id COLLATE "C", t.seq
