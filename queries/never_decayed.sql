-- question: Which memories never decayed, and why?
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- column namespace_id: whose memory
-- column object_id: the memory
-- column ref: its caller's name
-- column decay_profile: its profile
-- column lifecycle_state: its state as of as_of
-- column began_at: when it was asserted
-- column why: left_active, pinned, frozen, permanent, no_slot_since (its time began, or went on, after the last
--   decay slot of its profile) or no_change (a slot looked at it, and its scores stayed: at a floor, or at zero)
WITH known AS (
    SELECT e.*
    FROM audit.entries e
    WHERE e.stream_type = 'object'
        AND e.effective_at <= :as_of
        AND (:known_at IS NULL OR e.recorded_at <= :known_at)
        AND (:namespace IS NULL OR e.namespace_id = :namespace)
        AND NOT EXISTS (
            SELECT 1
            FROM audit.entries d
            WHERE d.namespace_id = e.namespace_id
                AND d.object_id = e.object_id
                AND d.op_type = 'DECAY_APPLIED'
                AND d.effective_at <= :as_of
                AND (:known_at IS NULL OR d.recorded_at <= :known_at)
        )
),
undecayed AS (
    SELECT
        namespace_id,
        object_id,
        min(effective_at) AS began_at,
        max(CASE WHEN lifecycle_state IS NOT NULL THEN version END) AS state_version,
        max(CASE WHEN decay_profile IS NOT NULL THEN version END) AS profile_version,
        max(CASE WHEN op_type IN ('PIN', 'UNPIN') THEN version END) AS pin_version,
        max(CASE WHEN op_type NOT IN ('ACCESS', 'HOLD', 'RELEASE') AND fact_version IS NOT NULL THEN effective_at END)
            AS runs_since
    FROM known
    GROUP BY namespace_id, object_id
    HAVING min(version) = 1
),
freezes AS (
    SELECT namespace_id, object_id, version, op_type, CAST(payload AS JSON) AS said
    FROM audit.operations
    WHERE op_type IN ('SUPPRESS', 'UNSUPPRESS')
        AND effective_at <= :as_of
        AND (:known_at IS NULL OR recorded_at <= :known_at)
),
frozen AS (
    SELECT DISTINCT s.namespace_id, s.object_id
    FROM freezes s
    LEFT JOIN freezes u
        ON u.namespace_id = s.namespace_id AND u.object_id = s.object_id
        AND u.op_type = 'UNSUPPRESS' AND u.version > s.version
    WHERE s.op_type = 'SUPPRESS'
        AND (s.said ->> 'freeze') IS NOT NULL
        AND coalesce(CAST((s.said ->> 'expires_at') AS TIMESTAMP WITH TIME ZONE) > :as_of, TRUE)
        AND u.object_id IS NULL
),
slots AS (
    SELECT namespace_id, task, max(slot) AS slot
    FROM audit.organiser_runs
    WHERE slot <= :as_of AND (:known_at IS NULL OR started_at <= :known_at)
    GROUP BY namespace_id, task
)
SELECT
    o.namespace_id,
    o.object_id,
    m.ref,
    p.decay_profile,
    s.lifecycle_state,
    o.began_at,
    CASE
        WHEN s.lifecycle_state <> 'ACTIVE' THEN 'left_active'
        WHEN pin.op_type = 'PIN' THEN 'pinned'
        WHEN f.object_id IS NOT NULL THEN 'frozen'
        WHEN p.decay_profile = 'PERMANENT' THEN 'permanent'
        WHEN r.slot IS NULL OR r.slot <= o.runs_since THEN 'no_slot_since'
        ELSE 'no_change'
    END AS why
FROM undecayed o
JOIN known s ON s.namespace_id = o.namespace_id AND s.object_id = o.object_id AND s.version = o.state_version
JOIN known p ON p.namespace_id = o.namespace_id AND p.object_id = o.object_id AND p.version = o.profile_version
LEFT JOIN known pin
    ON pin.namespace_id = o.namespace_id AND pin.object_id = o.object_id AND pin.version = o.pin_version
LEFT JOIN frozen f ON f.namespace_id = o.namespace_id AND f.object_id = o.object_id
LEFT JOIN slots r
    ON r.namespace_id = o.namespace_id
    AND r.task = CASE
        WHEN p.decay_profile IN ('RAPID', 'FAST') THEN 'decay_rapid_fast'
        WHEN p.decay_profile = 'MEDIUM' THEN 'decay_medium'
        WHEN p.decay_profile = 'SLOW' THEN 'decay_slow'
    END
LEFT JOIN audit.memories m ON m.namespace_id = o.namespace_id AND m.id = o.object_id
ORDER BY o.namespace_id COLLATE "C", o.began_at, o.object_id
