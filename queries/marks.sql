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
WITH marked AS (
    SELECT *, CAST(payload AS JSON) AS said
    FROM audit.operations
    WHERE op_type IN ('PIN', 'UNPIN', 'HOLD', 'RELEASE', 'SUPPRESS', 'UNSUPPRESS')
        AND effective_at <= :as_of
        AND effective_at > :as_of - :days * INTERVAL '24 hours'
        AND (:known_at IS NULL OR recorded_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
),
done AS (
    SELECT
        namespace_id,
        seq,
        effective_at,
        recorded_at,
        actor_id,
        actor_type,
        op_type AS action,
        object_id,
        ref,
        nullif(concat_ws(' ', (said ->> 'object_type'), (said ->> 'epistemic_type'), (said ->> 'subject')), '') AS filter,
        CASE WHEN op_type = 'SUPPRESS' THEN (said ->> 'freeze') IS NOT NULL END AS freeze,
        CAST((said ->> 'expires_at') AS TIMESTAMP WITH TIME ZONE) AS expires_at,
        CAST(NULL AS TEXT) AS reason,
        policy
    FROM marked
    UNION ALL
    SELECT
        namespace_id,
        seq,
        effective_at,
        recorded_at,
        actor_id,
        actor_type,
        'ERASE',
        target_id,
        ref,
        NULL,
        NULL,
        NULL,
        reason,
        policy_ref
    FROM audit.tombstones
    WHERE action = 'erase'
        AND effective_at <= :as_of
        AND effective_at > :as_of - :days * INTERVAL '24 hours'
        AND (:known_at IS NULL OR recorded_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
)
SELECT *
FROM done
WHERE :actor IS NULL OR actor_id = :actor
ORDER BY namespace_id COLLATE "C", seq
