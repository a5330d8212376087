-- question: Who was told no, by which rule?
-- parameter as_of (instant, default now): what was refused by this instant
-- parameter days (integer, default 30): how many days back from as_of
-- parameter known_at (instant, optional): only what was recorded by then
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
    namespace_id,
    recorded_at AS refused_at,
    actor_id,
    actor_type,
    op_type,
    object_id,
    ref,
    effective_at,
    rule
FROM audit.refusals
WHERE recorded_at <= :as_of
    AND recorded_at > :as_of - :days * INTERVAL '24 hours'
    AND (:known_at IS NULL OR recorded_at <= :known_at)
    AND (:namespace IS NULL OR namespace_id = :namespace)
ORDER BY recorded_at, namespace_id COLLATE "C", id
