-- question: How fast does the log grow: entries a day, and bytes an entry?
-- parameter as_of (instant, default now): what had taken effect by this instant
-- parameter days (integer, default 30): how many days back from as_of
-- parameter known_at (instant, optional): only what was recorded by then
-- parameter namespace (text, optional): only this namespace
-- column day: the UTC day they were recorded
-- column op_type: the operation
-- column entries: how many
-- column bytes: the bytes of their values, as both databases have them; what they take on disk is each database's own
-- column bytes_per_entry: bytes / entries
SELECT
    recorded_day AS day,
    op_type,
    count(*) AS entries,
    CAST(sum(bytes) AS BIGINT) AS bytes,
    CAST(sum(bytes) AS DOUBLE PRECISION) / count(*) AS bytes_per_entry
FROM audit.entries
WHERE recorded_at <= :as_of
    AND recorded_at > :as_of - :days * INTERVAL '24 hours'
    -- Said again by the day, which PostgreSQL has an index on.
    AND recorded_day >= CAST((:as_of - :days * INTERVAL '24 hours') AT TIME ZONE 'UTC' AS DATE)
    AND recorded_day <= CAST(:as_of AT TIME ZONE 'UTC' AS DATE)
    AND (:known_at IS NULL OR recorded_at <= :known_at)
    AND (:namespace IS NULL OR namespace_id = :namespace)
GROUP BY recorded_day, op_type
ORDER BY recorded_day, op_type COLLATE "C"
