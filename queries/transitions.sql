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
-- column reason: the rule, `requested`, or why it expired or was merged
-- column threshold: the threshold of the rule; null where no rule of decay did it
-- column archive_min_confidence: the confidence below which the rule `archive` deprecates
-- column salience: the salience at that instant
-- column confidence: the confidence at that instant
-- column policy: the version it was decided under, as id@version
-- column actor_id: who asked; `ebbtide` for the organiser
SELECT
    namespace_id,
    seq,
    effective_at,
    recorded_at,
    object_id,
    ref,
    op_type,
    from_state,
    to_state,
    reason,
    threshold,
    archive_min_confidence,
    salience,
    confidence,
    policy,
    actor_id
FROM audit.lifecycle_transitions
-- A warning changes no state.
WHERE to_state IS NOT NULL
    AND effective_at <= :as_of
    AND effective_at > :as_of - :days * INTERVAL '24 hours'
    AND (:known_at IS NULL OR recorded_at <= :known_at)
    AND (:namespace IS NULL OR namespace_id = :namespace)
ORDER BY namespace_id COLLATE "C", seq
