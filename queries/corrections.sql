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
-- column corrected_by: the version it was replaced by
-- column object_id: the memory; null in the row that says that the correction was made
-- column ref: its caller's name
-- column from_state: the lifecycle state before
-- column to_state: the lifecycle state after
-- column salience: the salience after
-- column salience_delta: the change of salience
-- column confidence: the confidence after
-- column confidence_delta: the change of confidence
WITH told AS (
    SELECT o.*, CAST(o.payload AS JSON) AS said
    FROM audit.operations o
    WHERE o.op_type IN ('POLICY_CORRECTED', 'CORRECTED')
        AND o.effective_at <= :as_of
        AND (:known_at IS NULL OR o.recorded_at <= :known_at)
        AND (:namespace IS NULL OR o.namespace_id = :namespace)
)
SELECT
    t.namespace_id,
    t.seq,
    t.recorded_at,
    t.actor_id,
    CAST((t.said ->> 'correction') AS UUID) AS correction,
    (t.said ->> 'replaced') AS replaced,
    (t.said ->> 'by') AS corrected_by,
    t.object_id,
    m.ref,
    (t.said ->> 'from_state') AS from_state,
    (t.said ->> 'to_state') AS to_state,
    e.salience,
    e.salience_delta,
    e.confidence,
    e.confidence_delta
FROM told t
JOIN audit.entries e ON e.namespace_id = t.namespace_id AND e.seq = t.seq
LEFT JOIN audit.memories m ON m.namespace_id = t.namespace_id AND m.id = t.object_id
ORDER BY t.namespace_id COLLATE "C", t.seq
