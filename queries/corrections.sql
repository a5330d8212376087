-- question: Which corrections were made, and what did they change?
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column seq: the place of the entry in the namespace's log
-- column recorded_at: when it was written, and took effect
-- column actor_id: who asked
-- column correction: the id of the correction
-- column replaced: the version that was wrong, as id@version
-- column replaced_by: the version it was replaced by
-- column memories: how many memories it changed, in the row that says that it was made; null in the others
-- column object_id: the memory; null in the row that says that the correction was made
-- column ref: its caller's name
-- column from_state: the lifecycle state before
-- column to_state: the lifecycle state after
-- column salience: the salience after
-- column salience_delta: the change of salience
-- column confidence: the confidence after
-- column confidence_delta: the change of confidence
WITH told AS (
    SELECT
        namespace_id,
        seq,
        recorded_at,
        actor_id,
        correction,
        replaced,
        replaced_by,
        memories,
        CAST(NULL AS UUID) AS object_id,
        CAST(NULL AS TEXT) AS ref,
        CAST(NULL AS TEXT) AS from_state,
        CAST(NULL AS TEXT) AS to_state,
        CAST(NULL AS DOUBLE PRECISION) AS salience,
        CAST(NULL AS DOUBLE PRECISION) AS salience_delta,
        CAST(NULL AS DOUBLE PRECISION) AS confidence,
        CAST(NULL AS DOUBLE PRECISION) AS confidence_delta
    FROM audit.policy_corrections
    WHERE effective_at <= :as_of
        AND (:known_at IS NULL OR recorded_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
    UNION ALL
    SELECT
        namespace_id,
        seq,
        recorded_at,
        actor_id,
        correction,
        replaced,
        replaced_by,
        NULL,
        object_id,
        ref,
        from_state,
        to_state,
        salience,
        salience_delta,
        confidence,
        confidence_delta
    FROM audit.corrections
    WHERE effective_at <= :as_of
        AND (:known_at IS NULL OR recorded_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
)
SELECT *
FROM told
ORDER BY namespace_id COLLATE "C", seq
