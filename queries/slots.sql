-- question: Which slots of the organiser were missed, late, held, or did not end?
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter days (integer, default 30): how many days back from as_of
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- parameter late_minutes (integer, default 60): a slot that was begun so long after its start is late
-- column namespace_id: whose memory
-- column task: the task
-- column slot: the start of the slot
-- column missed: how many slots right before it never ran by themselves: this one made them up
-- column late: whether it was begun late
-- column minutes_late: whole minutes from its start to its beginning
-- column status: done, nothing_due, running, held or quarantined
-- column started_at: when it was begun
-- column finished_at: when it ended; null: it did not
WITH begun AS (
    SELECT
        *,
        CAST(floor(extract(EPOCH FROM (started_at - slot)) / 60) AS BIGINT) AS minutes_late
    FROM audit.organiser_runs
    WHERE slot <= :as_of
        AND slot > :as_of - :days * INTERVAL '24 hours'
        AND (:known_at IS NULL OR started_at <= :known_at)
        AND (:namespace IS NULL OR namespace_id = :namespace)
)
SELECT
    namespace_id,
    task,
    slot,
    missed,
    minutes_late >= :late_minutes AS late,
    minutes_late,
    status,
    started_at,
    finished_at
FROM begun
WHERE missed > 0 OR minutes_late >= :late_minutes OR status NOT IN ('done', 'nothing_due')
ORDER BY slot, namespace_id COLLATE "C", task COLLATE "C"
