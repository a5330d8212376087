-- question: Who pinned, held, suppressed or erased what, and who undid it?
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter days (integer, default 30): how many days back from as_of
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- parameter actor (text, optional): only what this actor did
-- column namespace_id: whose memory
-- column seq: the place of the entry in the namespace's log
-- column effective_at: when it took effect
-- column recorded_at: when it was written
-- column actor_id: who; `ebbtide` for the organiser
-- column actor_type: of which type
-- column action: PIN, UNPIN, HOLD, RELEASE, SUPPRESS, UNSUPPRESS, or ERASE
-- column object_id: the memory, or the event that was erased; null for a suppression by filter
-- column ref: its caller's name
-- column filter: of a suppression by filter: object type, epistemic type and subject, as far as given
-- column freeze: whether a suppression stopped the memory's time
-- column expires_at: when a suppression ends by itself
-- column reason: of an erasure: retention_policy_expiry, user_request or compliance
-- column policy: the policy version of the namespace or memory, as id@version
WITH done AS (
    SELECT *, CAST(payload AS JSON) AS said
    FROM audit.operations
    WHERE op_type IN ('PIN', 'UNPIN', 'HOLD', 'RELEASE', 'SUPPRESS', 'UNSUPPRESS', 'TOMBSTONE')
        AND effective_at <= :as_of
        AND effective_at > :as_of - :days * INTERVAL '24 hours'
        AND (:known_at IS NULL OR recorded_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
        AND (:actor IS NULL OR actor_id = :actor)
),
told AS (
    SELECT
        *,
        CASE WHEN op_type = 'TOMBSTONE' THEN 'ERASE' ELSE op_type END AS action,
        coalesce(object_id, CAST((said ->> 'target_id') AS UUID)) AS target_id
    FROM done
    -- A tombstone that leaves the content only archives.
    WHERE op_type <> 'TOMBSTONE'
        OR (said -> 'record' ->> 'action') = 'erase'
        OR (said -> 'record' -> 'after' ->> 'erased_at') IS NOT NULL
)
SELECT
    t.namespace_id,
    t.seq,
    t.effective_at,
    t.recorded_at,
    t.actor_id,
    t.actor_type,
    t.action,
    t.target_id AS object_id,
    coalesce(m.ref, e.ref) AS ref,
    nullif(
        concat_ws(' ', (t.said ->> 'object_type'), (t.said ->> 'epistemic_type'), (t.said ->> 'subject')), ''
    ) AS filter,
    CASE WHEN t.op_type = 'SUPPRESS' THEN (t.said ->> 'freeze') IS NOT NULL END AS freeze,
    CAST((t.said ->> 'expires_at') AS TIMESTAMP WITH TIME ZONE) AS expires_at,
    CASE WHEN t.op_type = 'TOMBSTONE' THEN (t.said ->> 'reason') END AS reason,
    t.policy
FROM told t
LEFT JOIN audit.memories m ON m.namespace_id = t.namespace_id AND m.id = t.target_id
LEFT JOIN audit.events e ON e.namespace_id = t.namespace_id AND CAST(e.event_id AS UUID) = t.target_id
ORDER BY t.namespace_id COLLATE "C", t.seq
