-- question: Who was told no, by which rule?
-- parameter as_of (instant, default now): what was refused by this instant
-- parameter days (integer, default 30): how many days back from as_of
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column refused_at: when
-- column actor_id: who asked
-- column actor_type: of which type
-- column op_type: what was asked
-- column object_id: of which memory; null where it was of none
-- column ref: its caller's name
-- column effective_at: when it would have taken effect
-- column rule: the rule that said no
SELECT
    r.namespace_id,
    r.recorded_at AS refused_at,
    r.actor_id,
    r.actor_type,
    r.op_type,
    r.object_id,
    m.ref,
    r.effective_at,
    r.rule
FROM audit.refusals r
LEFT JOIN audit.memories m ON m.namespace_id = r.namespace_id AND m.id = r.object_id
WHERE r.recorded_at <= :as_of
    AND r.recorded_at > :as_of - :days * INTERVAL '24 hours'
    AND (:namespace IS NULL OR r.namespace_id = :namespace)
ORDER BY r.recorded_at, r.namespace_id COLLATE "C", r.id
