-- What `onbeat.stores.sql` composes for sqlite, by file and function below
-- `src/onbeat/stores`. Values are `?`; of several rows one is shown.
-- Write this file anew: WRITE_STATEMENTS=1 .venv/bin/pytest tests/stores/sql/test_statements.py
-- See a plan: EXPLAIN QUERY PLAN, in the command line of SQLite; `?` is then NULL.

-- sql/verbs/access.py add_key
INSERT INTO onbeat_keys (name, digest, record, used_at) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO NOTHING;

-- sql/verbs/access.py add_value
INSERT INTO onbeat_secrets (name, value) VALUES ('cells', lower(hex(?)))
ON CONFLICT (name) DO NOTHING;

-- sql/verbs/access.py add_value
INSERT INTO onbeat_secrets (name, value) VALUES ('tokens', lower(hex(?)))
ON CONFLICT (name) DO NOTHING;

-- sql/verbs/access.py audit
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM onbeat_audit WHERE TRUE AND actor = ? AND action = ? AND object = ? AND at >= ? AND at < ? AND id < ? ORDER BY id DESC LIMIT ?);

-- sql/verbs/access.py audit
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM onbeat_audit WHERE TRUE ORDER BY id DESC LIMIT ?);

-- sql/verbs/access.py keys
SELECT json_group_array(json_array(record, used_at)) FROM (SELECT record, used_at FROM onbeat_keys ORDER BY name);

-- sql/verbs/access.py note_key_use
UPDATE onbeat_keys SET used_at = ?
WHERE name = ? AND (used_at IS NULL OR used_at < ?);

-- sql/verbs/access.py note_map_version
UPDATE onbeat_secrets SET value = lower(hex(?)) WHERE name = ?;

-- sql/verbs/access.py prune_audit
DELETE FROM onbeat_audit WHERE id IN (SELECT id FROM onbeat_audit WHERE at < ? ORDER BY at LIMIT ?);

-- sql/verbs/access.py put_audit
INSERT INTO onbeat_audit (id, at, actor, action, object, record) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET object = excluded.object, record = excluded.record;

-- sql/verbs/access.py remove_key
DELETE FROM onbeat_keys WHERE name = ?;

-- sql/verbs/access.py replace_targets
SELECT json_group_array(json_array(id, spec)) FROM (SELECT id, spec
FROM onbeat_finished WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id
);

-- sql/verbs/access.py replace_targets
SELECT json_group_array(json_array(id, spec)) FROM (SELECT id, spec
FROM onbeat_jobs WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id
);

-- sql/verbs/access.py replace_targets
SELECT json_group_array(json_array(id, spec)) FROM (SELECT id, spec
FROM onbeat_schedules WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id
);

-- sql/verbs/access.py replace_targets
UPDATE onbeat_finished SET spec = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/access.py replace_targets
UPDATE onbeat_jobs SET spec = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/access.py replace_targets
UPDATE onbeat_schedules SET spec = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/access.py stored_value
SELECT json_group_array(json_array(value)) FROM (SELECT value FROM onbeat_secrets WHERE name = 'cells' );

-- sql/verbs/access.py stored_value
SELECT json_group_array(json_array(value)) FROM (SELECT value FROM onbeat_secrets WHERE name = 'tokens' );

-- sql/verbs/alerts.py add_silence
INSERT INTO onbeat_silences (id, until_at, record) VALUES (?, ?, ?);

-- sql/verbs/alerts.py alerts
SELECT json_group_array(json_array(record, since, seen_at, ended_at, is_announced, times)) FROM (SELECT record, since, seen_at, ended_at, is_announced, times FROM onbeat_alerts WHERE ended_at IS NOT NULL ORDER BY since DESC, name LIMIT ?);

-- sql/verbs/alerts.py alerts
SELECT json_group_array(json_array(record, since, seen_at, ended_at, is_announced, times)) FROM (SELECT record, since, seen_at, ended_at, is_announced, times FROM onbeat_alerts WHERE ended_at IS NULL ORDER BY since DESC, name LIMIT ?);

-- sql/verbs/alerts.py end_silence
DELETE FROM onbeat_silences WHERE id = ?;

-- sql/verbs/alerts.py note_announced
UPDATE onbeat_alerts SET is_announced = TRUE
WHERE name = ? AND is_announced = FALSE AND ended_at IS NULL;

-- sql/verbs/alerts.py note_ended
UPDATE onbeat_alerts SET ended_at = ?
WHERE name = ? AND ended_at IS NULL AND seen_at <= ?;

-- sql/verbs/alerts.py note_seen
INSERT INTO onbeat_alerts (name, since, seen_at, ended_at, is_announced, record)
VALUES (?, ?, ?, NULL, FALSE, ?)
ON CONFLICT (name) DO NOTHING;

-- sql/verbs/alerts.py note_seen
UPDATE onbeat_alerts
SET since = ?, seen_at = ?, ended_at = NULL, is_announced = FALSE, record = ?,
times = times + 1
WHERE name = ? AND ended_at IS NOT NULL;

-- sql/verbs/alerts.py note_seen
UPDATE onbeat_alerts SET seen_at = ?, record = ? WHERE name = ? AND seen_at < ?;

-- sql/verbs/alerts.py prune_alerts
DELETE FROM onbeat_alerts WHERE name IN (SELECT name FROM onbeat_alerts WHERE ended_at < ? ORDER BY ended_at LIMIT ?);

-- sql/verbs/alerts.py prune_alerts
DELETE FROM onbeat_silences WHERE id IN (SELECT id FROM onbeat_silences WHERE until_at < ? ORDER BY until_at LIMIT ?);

-- sql/verbs/alerts.py silences
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM onbeat_silences WHERE until_at > ? ORDER BY until_at, id);

-- sql/verbs/bulks.py add_bulk
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT id FROM onbeat_bulks WHERE next_at IS NOT NULL LIMIT ?) AS unfinished);

-- sql/verbs/bulks.py bulks
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM onbeat_bulks WHERE TRUE ORDER BY id DESC LIMIT ?);

-- sql/verbs/bulks.py bulks
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM onbeat_bulks WHERE id < ? ORDER BY id DESC LIMIT ?);

-- sql/verbs/bulks.py one_bulk
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM onbeat_bulks WHERE id = ? );

-- sql/verbs/bulks.py one_bulk
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM onbeat_bulks WHERE id = ?);

-- sql/verbs/bulks.py one_bulk
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM onbeat_bulks WHERE next_at IS NOT NULL ORDER BY next_at, id LIMIT 1);

-- sql/verbs/bulks.py prune_bulks
DELETE FROM onbeat_bulks WHERE id IN (SELECT id FROM onbeat_bulks WHERE finished_at < ? ORDER BY finished_at LIMIT ?);

-- sql/verbs/bulks.py put_bulk
INSERT INTO onbeat_bulks (id, next_at, finished_at, record) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET next_at = excluded.next_at, finished_at = excluded.finished_at, record = excluded.record;

-- sql/verbs/cancel_and_retry.py caused_by
SELECT json_group_array(json_array(id)) FROM (SELECT id
FROM onbeat_finished
WHERE cause_id IN (SELECT value FROM json_each(?)) AND cancel_reason IS NULL
LIMIT ?
);

-- sql/verbs/cancel_and_retry.py change_causes
UPDATE onbeat_finished SET reason = column2, cause_id = column3 FROM (VALUES (?,?,?)) WHERE id = column1;

-- sql/verbs/cancel_and_retry.py confirm_cancelled
UPDATE onbeat_finished SET cancel_reason = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/cancel_and_retry.py forget_causes
UPDATE onbeat_finished SET cause_id = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/cancel_and_retry.py lock_unsuccessful
SELECT json_group_array(json_array(record)) FROM (SELECT record
FROM onbeat_ended_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state IN ('failed', 'cancelled')
ORDER BY id
);

-- sql/verbs/cancel_and_retry.py move_back
INSERT INTO onbeat_jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, token, started_at, fault, held, blocked_by) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING;

-- sql/verbs/cascades.py has_cascades
SELECT json_group_array(json_array(job_id)) FROM (SELECT job_id FROM onbeat_cascades LIMIT 1);

-- sql/verbs/cascades.py lock_ended
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM onbeat_finished  WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id );

-- sql/verbs/cascades.py lock_ended
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM onbeat_jobs  WHERE id IN (SELECT value FROM json_each(?)));

-- sql/verbs/cascades.py take_cascades
DELETE FROM onbeat_cascades WHERE job_id IN (SELECT value FROM json_each(?));

-- sql/verbs/cascades.py take_cascades
SELECT json_group_array(json_array(job_id, state)) FROM (SELECT job_id, state FROM onbeat_cascades LIMIT ? );

-- sql/verbs/counts.py count_by_state
SELECT json_group_array(json_array(state, total)) FROM (SELECT state, total FROM (SELECT state, count(*) AS total FROM onbeat_finished INDEXED BY onbeat_finished_by_end GROUP BY state) AS counted);

-- sql/verbs/counts.py group_depths
SELECT json_group_array(json_array(grp)) FROM (SELECT grp FROM onbeat_jobs INDEXED BY onbeat_jobs_due WHERE queue = ? AND ready LIMIT ?);

-- sql/verbs/counts.py group_depths
SELECT json_group_array(json_array(grp)) FROM (SELECT grp FROM onbeat_jobs INDEXED BY onbeat_jobs_running WHERE state = 'running' AND queue = ? LIMIT ?);

-- sql/verbs/counts.py group_depths
SELECT json_group_array(json_array(grp, turn)) FROM (SELECT grp, turn FROM onbeat_turns WHERE queue = ? ORDER BY turn DESC LIMIT ?);

-- sql/verbs/counts.py queues
SELECT json_group_array(json_array(name, paused, limits, pause)) FROM (SELECT name, paused, limits, pause FROM onbeat_queues  WHERE paused OR limits IS NOT NULL);

-- sql/verbs/counts.py select_counts
SELECT json_group_array(json_array(queue, lane, waiting, due, oldest, running, blocked)) FROM (SELECT queue, lane, waiting, due, oldest, running, blocked FROM (
SELECT queue AS queue, lane AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= ? THEN 1 END) AS due, min(due_at) AS oldest, 0 AS running,
0 AS blocked
FROM onbeat_jobs INDEXED BY onbeat_jobs_due WHERE ready
GROUP BY queue, priority, lane
UNION ALL
SELECT queue AS queue, lane AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= ? AND blocked_by = 0 THEN 1 END) AS due, min(CASE WHEN blocked_by = 0 THEN due_at END) AS oldest, 0 AS running,
count(CASE WHEN blocked_by > 0 THEN 1 END) AS blocked
FROM onbeat_jobs INDEXED BY onbeat_jobs_stuck WHERE state = 'waiting' AND NOT ready
GROUP BY queue, lane
UNION ALL
SELECT queue, NULL AS lane, 0 AS waiting, 0 AS due, NULL AS oldest, count(*) AS running,
0 AS blocked
FROM onbeat_jobs INDEXED BY onbeat_jobs_running WHERE state = 'running'
GROUP BY queue
) AS counted);

-- sql/verbs/counts.py select_counts
SELECT json_group_array(json_array(queue, lane, waiting, due, oldest, running, blocked)) FROM (SELECT queue, lane, waiting, due, oldest, running, blocked FROM (
SELECT queue, NULL AS lane, 0 AS waiting, 0 AS due, NULL AS oldest, count(*) AS running,
0 AS blocked
FROM onbeat_jobs INDEXED BY onbeat_jobs_running WHERE state = 'running'
GROUP BY queue
) AS counted);

-- sql/verbs/counts.py stats
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM onbeat_workers);

-- sql/verbs/counts.py stats
SELECT json_group_array(json_array(status, total)) FROM (SELECT status, total FROM (SELECT status, count(*) AS total FROM onbeat_schedules GROUP BY status) AS counted);

-- sql/verbs/counts.py watched
SELECT json_group_array(json_array(name, paused, late_after)) FROM (SELECT name, paused, late_after FROM onbeat_queues INDEXED BY onbeat_queues_watched WHERE late_after IS NOT NULL);

-- sql/verbs/dead_letters.py add_dead_letters
INSERT INTO onbeat_dead_letters (id, at, source, record) SELECT * FROM (VALUES (?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (id) DO NOTHING;

-- sql/verbs/dead_letters.py dead_letters
SELECT json_group_array(json_array(id, at, source, record)) FROM (SELECT id, at, source, record
FROM onbeat_dead_letters
WHERE TRUE
ORDER BY id DESC
LIMIT ?
);

-- sql/verbs/dead_letters.py dead_letters
SELECT json_group_array(json_array(id, at, source, record)) FROM (SELECT id, at, source, record
FROM onbeat_dead_letters
WHERE TRUE AND id < ? AND source = ?
ORDER BY id DESC
LIMIT ?
);

-- sql/verbs/dead_letters.py dead_letters_by_id
SELECT json_group_array(json_array(id, at, source, record)) FROM (SELECT id, at, source, record FROM onbeat_dead_letters WHERE id IN (SELECT value FROM json_each(?)));

-- sql/verbs/dead_letters.py delete_dead_letters
DELETE FROM onbeat_dead_letters WHERE id IN (SELECT value FROM json_each(?));

-- sql/verbs/dependents.py add_cascades
INSERT INTO onbeat_cascades (job_id, state) SELECT * FROM (VALUES (?,?)) WHERE column1 IS NOT NULL ON CONFLICT (job_id) DO UPDATE SET state = excluded.state;

-- sql/verbs/dependents.py awaited_among
SELECT json_group_array(json_array(awaits)) FROM (SELECT awaits
FROM (SELECT DISTINCT awaits FROM onbeat_waits
WHERE awaits IN (SELECT value FROM json_each(?))) AS awaited
);

-- sql/verbs/dependents.py delete_waits
DELETE FROM onbeat_waits WHERE job_id IN (SELECT value FROM json_each(?));

-- sql/verbs/dependents.py free
DELETE FROM onbeat_waits WHERE (awaits, job_id) IN (SELECT column1, column2 FROM (VALUES (?,?)) WHERE column1 IS NOT NULL);

-- sql/verbs/dependents.py insert_flow_waits
INSERT INTO onbeat_flow_waits (flow, job_id, wanted) SELECT * FROM (VALUES (?,?,?)) WHERE column1 IS NOT NULL;

-- sql/verbs/dependents.py insert_waits
INSERT INTO onbeat_waits (awaits, job_id, wanted) SELECT * FROM (VALUES (?,?,?)) WHERE column1 IS NOT NULL;

-- sql/verbs/dependents.py lock_jobs
SELECT json_group_array(json_array(id, worker, blocked_by)) FROM (SELECT id, worker, blocked_by
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/dependents.py lock_waiting
SELECT json_group_array(json_array(id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec)) FROM (SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'waiting'
AND (token = 0 OR start_by IS NOT NULL)
ORDER BY id
);

-- sql/verbs/dependents.py lock_waiting
SELECT json_group_array(json_array(id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec)) FROM (SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'waiting'
ORDER BY id
);

-- sql/verbs/dependents.py move_cancelled
INSERT INTO onbeat_finished (id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec, state, finished_at, reason, cause_id) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL;

-- sql/verbs/dependents.py put_after_holders
SELECT json_group_array(json_array(record)) FROM (SELECT record
FROM onbeat_live_jobs
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/dependents.py put_after_holders
UPDATE onbeat_jobs SET spec = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/dependents.py rewrite_waits
UPDATE onbeat_jobs SET blocked_by = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/dependents.py states_of_ended
SELECT json_group_array(json_array(id, state)) FROM (SELECT id, state FROM onbeat_finished  WHERE id IN (SELECT value FROM json_each(?)));

-- sql/verbs/dependents.py stored_flow_waits
SELECT json_group_array(json_array(job_id)) FROM (SELECT job_id
FROM onbeat_flow_waits
WHERE flow IN (SELECT value FROM json_each(?))
);

-- sql/verbs/dependents.py stored_waits
SELECT json_group_array(json_array(job_id, awaits)) FROM (SELECT job_id, awaits FROM onbeat_waits  WHERE job_id IN (SELECT value FROM json_each(?)));

-- sql/verbs/dependents.py waits_for
SELECT json_group_array(json_array(job_id, awaits, wanted)) FROM (SELECT job_id, awaits, wanted
FROM onbeat_waits
WHERE awaits IN (SELECT value FROM json_each(?))
LIMIT ?
);

-- sql/verbs/dispositions.py add_dispositions
SELECT json_group_array(json(
(SELECT json_group_array(json_array(schedule_id, first, last))
FROM (SELECT schedule_id, first, last FROM onbeat_dispositions WHERE schedule_id = params.schedule_id AND
first <= params.last
AND first >= coalesce((SELECT first FROM onbeat_dispositions
WHERE schedule_id = params.schedule_id AND first <= params.first
ORDER BY first DESC LIMIT 1), params.first)
))))
FROM (SELECT value ->> 0 AS schedule_id, value ->> 1 AS first, value ->> 2 AS last FROM json_each(?)) AS params;

-- sql/verbs/dispositions.py dispositions
SELECT json_group_array(json_array(schedule_id, first, last, job_id, reason)) FROM (SELECT schedule_id, first, last, job_id, reason
FROM onbeat_dispositions
WHERE schedule_id = ? AND
first >= coalesce((SELECT max(first)
FROM (SELECT first, last FROM onbeat_dispositions
WHERE schedule_id = ? AND first <= ?
ORDER BY first DESC LIMIT 2000) AS before
WHERE last >= ?), ?)
AND first <= ?
ORDER BY first
);

-- sql/verbs/dispositions.py export_dispositions
SELECT json_group_array(json_array(schedule_id, first, last, job_id, reason)) FROM (SELECT schedule_id, first, last, job_id, reason FROM onbeat_dispositions  WHERE TRUE ORDER BY schedule_id, first LIMIT ?);

-- sql/verbs/dispositions.py export_dispositions
SELECT json_group_array(json_array(schedule_id, first, last, job_id, reason)) FROM (SELECT schedule_id, first, last, job_id, reason FROM onbeat_dispositions  WHERE schedule_id = ? AND first > ? AND first > ? ORDER BY first LIMIT ?);

-- sql/verbs/dispositions.py export_dispositions
SELECT json_group_array(json_array(schedule_id, first, last, job_id, reason)) FROM (SELECT schedule_id, first, last, job_id, reason FROM onbeat_dispositions  WHERE schedule_id > ? ORDER BY schedule_id, first LIMIT ?);

-- sql/verbs/dispositions.py forget_dispositions_after
DELETE FROM onbeat_dispositions WHERE schedule_id = ? AND first > ? AND (job_id IS NULL OR job_id IN (SELECT value FROM json_each(?)));

-- sql/verbs/dispositions.py forget_dispositions_after
DELETE FROM onbeat_dispositions WHERE schedule_id = ? AND first > ? AND TRUE;

-- sql/verbs/dispositions.py forget_dispositions_after
UPDATE onbeat_dispositions SET last = ? WHERE schedule_id = ? AND first <= ? AND last > ?;

-- sql/verbs/dispositions.py free_instant
DELETE FROM onbeat_dispositions WHERE (schedule_id, first) IN (SELECT column1, column2 FROM (VALUES (?,?)) WHERE column1 IS NOT NULL);

-- sql/verbs/dispositions.py free_instant
SELECT json_group_array(json_array(first, last, job_id, reason)) FROM (SELECT first, last, job_id, reason FROM onbeat_dispositions WHERE schedule_id = ? AND first <= ? ORDER BY first DESC LIMIT 1);

-- sql/verbs/dispositions.py insert_dispositions
INSERT INTO onbeat_dispositions (schedule_id, first, last, job_id, reason) SELECT * FROM (VALUES (?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (schedule_id, first) DO NOTHING;

-- sql/verbs/dispositions.py latest_dispositions
SELECT json_group_array(json_array(schedule_id, first, last, job_id, reason)) FROM (SELECT schedule_id, first, last, job_id, reason
FROM onbeat_dispositions
WHERE schedule_id = ? AND first < ? AND last < ?
ORDER BY first DESC
LIMIT ?
);

-- sql/verbs/dispositions.py replace_skips
DELETE FROM onbeat_dispositions
WHERE schedule_id = ? AND job_id IS NULL AND first <= ? AND last >= ?;

-- sql/verbs/edit_schedules.py delete_schedule
DELETE FROM onbeat_schedules WHERE id = ?;

-- sql/verbs/edit_schedules.py follow
SELECT json_group_array(json_array(record)) FROM (SELECT record
FROM onbeat_live_jobs
WHERE schedule_id = ? AND state = 'waiting'
ORDER BY id
);

-- sql/verbs/edit_schedules.py follow
UPDATE onbeat_jobs SET queue = column2, priority = column3, lane = column4, overlap = column5, spec = column6 FROM (VALUES (?,?,?,?,?,?)) WHERE id = column1;

-- sql/verbs/edit_schedules.py forget_after
SELECT json_group_array(json_array(id)) FROM (SELECT id
FROM onbeat_jobs
WHERE schedule_id = ? AND occurrence > ? AND state = 'waiting'
AND (token = 0 OR start_by IS NOT NULL)
);

-- sql/verbs/edit_schedules.py forget_after
UPDATE onbeat_schedules SET planned_through = ? WHERE id = ? AND planned_through > ?;

-- sql/verbs/edit_schedules.py hold_jobs
UPDATE onbeat_jobs  SET held = ?
WHERE schedule_id IN (SELECT value FROM json_each(?)) AND held <> ?;

-- sql/verbs/edit_schedules.py lock_jobs_of
SELECT json_group_array(json_array(id)) FROM (SELECT id
FROM onbeat_jobs
WHERE schedule_id = ?
ORDER BY id
);

-- sql/verbs/edit_schedules.py planned_after_next
SELECT json_group_array(json_array(id)) FROM (SELECT id
FROM onbeat_jobs
WHERE schedule_id = ? AND occurrence > ? AND state = 'waiting' AND token = 0
ORDER BY due_at, id
);

-- sql/verbs/enqueue.py keep_places
UPDATE onbeat_jobs SET cursor = column2, progress = column3 FROM (VALUES (?,?,?)) WHERE id = column1;

-- sql/verbs/enqueue.py lock_senders
SELECT json_group_array(json_array(id, token, cursor, progress)) FROM (SELECT id, token, cursor, progress
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'running'
ORDER BY id
);

-- sql/verbs/event_copies.py export_event_keys
SELECT json_group_array(json_array(schedule_id, by_key, job_id, opened_at, gathered)) FROM (SELECT schedule_id, by_key, job_id, opened_at, gathered FROM onbeat_event_keys  WHERE TRUE ORDER BY job_id LIMIT ?);

-- sql/verbs/event_copies.py export_event_keys
SELECT json_group_array(json_array(schedule_id, by_key, job_id, opened_at, gathered)) FROM (SELECT schedule_id, by_key, job_id, opened_at, gathered FROM onbeat_event_keys  WHERE job_id > ? ORDER BY job_id LIMIT ?);

-- sql/verbs/event_copies.py export_events
SELECT json_group_array(json_array(seq, record, received_at, routed_at, verdicts)) FROM (SELECT seq, record, received_at, routed_at, verdicts FROM onbeat_events WHERE TRUE ORDER BY seq LIMIT ?);

-- sql/verbs/event_copies.py export_events
SELECT json_group_array(json_array(seq, record, received_at, routed_at, verdicts)) FROM (SELECT seq, record, received_at, routed_at, verdicts FROM onbeat_events WHERE seq > ? ORDER BY seq LIMIT ?);

-- sql/verbs/event_copies.py import_event_keys
INSERT INTO onbeat_event_keys (schedule_id, by_key, job_id, opened_at, gathered) SELECT * FROM (VALUES (?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (schedule_id, by_key, job_id) DO UPDATE SET opened_at = excluded.opened_at, gathered = excluded.gathered;

-- sql/verbs/event_copies.py import_events
INSERT INTO onbeat_events (id, source, type, received_at, kept_from, tag, record, routed_at, verdicts) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (id, source) DO NOTHING;

-- sql/verbs/event_copies.py import_events
UPDATE onbeat_events SET routed_at = column2, verdicts = column3 FROM (VALUES (?,?,?)) WHERE seq = column1;

-- sql/verbs/event_copies.py lock_decisions
SELECT json_group_array(json_array(seq, routed_at)) FROM (SELECT seq, routed_at
FROM onbeat_events
WHERE seq IN (SELECT value FROM json_each(?))
ORDER BY seq
);

-- sql/verbs/event_copies.py stored_seqs
SELECT json_group_array(json(
(SELECT json_group_array(json_array(id, source, seq, tag))
FROM (SELECT id, source, seq, tag FROM onbeat_events WHERE id = params.id AND source = params.source))))
FROM (SELECT value ->> 0 AS id, value ->> 1 AS source FROM json_each(?)) AS params;

-- sql/verbs/event_waits.py awaited_seqs
SELECT json_group_array(json_array(event_seq)) FROM (SELECT event_seq FROM onbeat_event_waits  WHERE event_seq IN (SELECT value FROM json_each(?)));

-- sql/verbs/event_waits.py event_at
SELECT json_group_array(json_array(seq, record, received_at, routed_at, verdicts)) FROM (SELECT seq, record, received_at, routed_at, verdicts FROM onbeat_events WHERE seq = ?);

-- sql/verbs/event_waits.py export_event_waits
SELECT json_group_array(json_array(job_id, step, type, by_key, since, until_at, is_open, event_seq)) FROM (SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq FROM onbeat_event_waits WHERE (job_id > ? OR (job_id = ? AND step > ?)) AND EXISTS (SELECT 1 FROM onbeat_jobs WHERE onbeat_jobs.id = job_id) ORDER BY job_id, step LIMIT ?);

-- sql/verbs/event_waits.py export_event_waits
SELECT json_group_array(json_array(job_id, step, type, by_key, since, until_at, is_open, event_seq)) FROM (SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq FROM onbeat_event_waits WHERE TRUE AND EXISTS (SELECT 1 FROM onbeat_jobs WHERE onbeat_jobs.id = job_id) ORDER BY job_id, step LIMIT ?);

-- sql/verbs/event_waits.py export_event_waits
SELECT json_group_array(json_array(seq, source, id)) FROM (SELECT seq, source, id FROM onbeat_events WHERE seq IN (SELECT value FROM json_each(?)));

-- sql/verbs/event_waits.py first_since
SELECT json_group_array(json_array(seq, record, received_at, routed_at, verdicts)) FROM (SELECT seq, record, received_at, routed_at, verdicts FROM onbeat_events WHERE seq > ? AND type = ? ORDER BY seq LIMIT 20);

-- sql/verbs/event_waits.py free
UPDATE onbeat_event_waits SET is_open = column3, event_seq = column4, since = column5 FROM (VALUES (?,?,?,?,?)) WHERE job_id = column1 AND step = column2;

-- sql/verbs/event_waits.py lock_live
SELECT json_group_array(json_array(id)) FROM (SELECT id
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/event_waits.py open_waits
SELECT json_group_array(json(
(SELECT json_group_array(json_array(job_id, step, type, by_key, since, until_at, is_open, event_seq))
FROM (SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq
FROM onbeat_event_waits  WHERE is_open = TRUE AND type = params.type AND by_key = params.by_key AND EXISTS (SELECT 1 FROM onbeat_jobs WHERE onbeat_jobs.id = job_id)
ORDER BY job_id, step
LIMIT 100
))))
FROM (SELECT value ->> 0 AS type, value ->> 1 AS by_key FROM json_each(?)) AS params;

-- sql/verbs/event_waits.py open_waits
SELECT json_group_array(json_array(is_open)) FROM (SELECT is_open FROM onbeat_event_waits  WHERE is_open = TRUE LIMIT 1);

-- sql/verbs/event_waits.py prune_waits
DELETE FROM onbeat_event_waits WHERE (job_id, step) IN (SELECT column1, column2 FROM (VALUES (?,?)) WHERE column1 IS NOT NULL);

-- sql/verbs/event_waits.py prune_waits
SELECT json_group_array(json_array(job_id, step)) FROM (SELECT job_id, step FROM onbeat_event_waits WHERE NOT EXISTS (SELECT 1 FROM onbeat_jobs WHERE onbeat_jobs.id = job_id) LIMIT ? );

-- sql/verbs/event_waits.py put_waits
INSERT INTO onbeat_event_waits (job_id, step, type, by_key, since, until_at, is_open, event_seq) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (job_id, step) DO UPDATE SET type = excluded.type, by_key = excluded.by_key, since = excluded.since, until_at = excluded.until_at, is_open = excluded.is_open, event_seq = excluded.event_seq;

-- sql/verbs/event_waits.py seqs_of
SELECT json_group_array(json(
(SELECT json_group_array(json_array(source, id, seq))
FROM (SELECT source, id, seq FROM onbeat_events WHERE id = params.id AND source = params.source))))
FROM (SELECT value ->> 0 AS id, value ->> 1 AS source FROM json_each(?)) AS params;

-- sql/verbs/event_waits.py types_in
SELECT json_group_array(json(
(SELECT json_group_array(json_array(type))
FROM (SELECT type FROM onbeat_event_waits  WHERE is_open = TRUE AND type = params.type LIMIT 1))))
FROM (SELECT value ->> 0 AS type FROM json_each(?)) AS params;

-- sql/verbs/event_waits.py waits_by_key
SELECT json_group_array(json(
(SELECT json_group_array(json_array(job_id, step, type, by_key, since, until_at, is_open, event_seq))
FROM (SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq FROM onbeat_event_waits WHERE job_id = params.job_id AND step = params.step))))
FROM (SELECT value ->> 0 AS job_id, value ->> 1 AS step FROM json_each(?)) AS params;

-- sql/verbs/event_waits.py wake
SELECT json_group_array(json_array(id, reason)) FROM (SELECT id, reason
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'waiting' AND due_at > ?
);

-- sql/verbs/event_waits.py wake
UPDATE onbeat_jobs SET due_at = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/events.py carried_by
SELECT json_group_array(json_array(seq, job_id, schedule_id, is_read)) FROM (SELECT seq, job_id, schedule_id, is_read
FROM onbeat_event_jobs
WHERE seq IN (SELECT value FROM json_each(?))
ORDER BY seq, job_id
);

-- sql/verbs/events.py events
SELECT json_group_array(json_array(seq, record, received_at, routed_at, verdicts)) FROM (SELECT seq, record, received_at, routed_at, verdicts
FROM onbeat_events
WHERE TRUE
ORDER BY seq DESC
LIMIT ?
);

-- sql/verbs/events.py events
SELECT json_group_array(json_array(seq, record, received_at, routed_at, verdicts)) FROM (SELECT seq, record, received_at, routed_at, verdicts
FROM onbeat_events
WHERE TRUE AND seq < ? AND type = ? AND substr(source, 1, ?) = ?
ORDER BY seq DESC
LIMIT ?
);

-- sql/verbs/events.py events_by_id
SELECT json_group_array(json_array(seq, record, received_at, routed_at, verdicts)) FROM (SELECT seq, record, received_at, routed_at, verdicts
FROM onbeat_events
WHERE id = ? AND TRUE
ORDER BY seq
LIMIT 10
);

-- sql/verbs/events.py events_by_id
SELECT json_group_array(json_array(seq, record, received_at, routed_at, verdicts)) FROM (SELECT seq, record, received_at, routed_at, verdicts
FROM onbeat_events
WHERE id = ? AND source = ?
ORDER BY seq
LIMIT 10
);

-- sql/verbs/events.py events_of_job
SELECT json_group_array(json_array(seq, record, received_at, routed_at, verdicts)) FROM (SELECT seq, record, received_at, routed_at, verdicts
FROM onbeat_events
WHERE seq IN (SELECT seq FROM onbeat_event_jobs
WHERE job_id = ? AND is_read = TRUE)
ORDER BY seq
);

-- sql/verbs/events.py publish
INSERT INTO onbeat_events (id, source, type, received_at, kept_from, tag, record) SELECT * FROM (VALUES (?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (id, source) DO NOTHING;

-- sql/verbs/events.py replay_event
SELECT json_group_array(json_array(seq)) FROM (SELECT seq FROM onbeat_events WHERE seq = ?);

-- sql/verbs/events.py replay_event
UPDATE onbeat_events SET routed_at = NULL WHERE seq = ?;

-- sql/verbs/events.py stored_tags
SELECT json_group_array(json(
(SELECT json_group_array(json_array(id, source, tag))
FROM (SELECT id, source, tag FROM onbeat_events WHERE id = params.id AND source = params.source))))
FROM (SELECT value ->> 0 AS id, value ->> 1 AS source FROM json_each(?)) AS params;

-- sql/verbs/events.py wanted_types
SELECT json_group_array(json_array(type)) FROM (SELECT type FROM onbeat_own_event_types);

-- sql/verbs/faults.py dead_letter_heads
SELECT json_group_array(json_array(id, at, source, reason)) FROM (SELECT id, at, source, reason
FROM (SELECT id, at, source, record ->> '$.reason' AS reason
FROM onbeat_dead_letters
WHERE TRUE
ORDER BY id DESC
LIMIT ?) AS heads
);

-- sql/verbs/faults.py dead_letter_heads
SELECT json_group_array(json_array(id, at, source, reason)) FROM (SELECT id, at, source, reason
FROM (SELECT id, at, source, record ->> '$.reason' AS reason
FROM onbeat_dead_letters
WHERE id < ?
ORDER BY id DESC
LIMIT ?) AS heads
);

-- sql/verbs/faults.py fault
SELECT json_group_array(json_array(fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, silenced_until, note, operator_note)) FROM (SELECT fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, silenced_until, note, operator_note FROM onbeat_faults WHERE fault = ?);

-- sql/verbs/faults.py fault_jobs
SELECT json_group_array(json_array(failed, waiting)) FROM (SELECT failed, waiting FROM (SELECT
(SELECT count(*) FROM (SELECT 1 FROM onbeat_finished INDEXED BY onbeat_finished_of_fault
WHERE fault = ? AND state = 'failed' AND state <> 'succeeded' LIMIT ?) AS counted_finished)
AS failed,
(SELECT count(*) FROM (SELECT 1 FROM onbeat_jobs INDEXED BY onbeat_jobs_of_fault
WHERE fault = ? AND state = 'waiting' LIMIT ?) AS counted_jobs)
AS waiting) AS counted);

-- sql/verbs/faults.py faults
SELECT json_group_array(json_array(fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, silenced_until, note, operator_note)) FROM (SELECT fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, silenced_until, note, operator_note FROM onbeat_faults ORDER BY fault);

-- sql/verbs/faults.py lock_faults
SELECT json_group_array(json_array(fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, silenced_until, note, operator_note)) FROM (SELECT fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, silenced_until, note, operator_note
FROM onbeat_faults
WHERE fault IN (SELECT value FROM json_each(?))
ORDER BY fault
);

-- sql/verbs/faults.py note_faults
UPDATE onbeat_faults SET queue = column2, first_at = column3, last_at = column4, attempts = column5, hours = column6, sample_job = column7 FROM (VALUES (?,?,?,?,?,?,?)) WHERE fault = column1;

-- sql/verbs/faults.py prune_faults
DELETE FROM onbeat_faults WHERE last_at < ?;

-- sql/verbs/faults.py silence_fault
UPDATE onbeat_faults SET silenced_until = column2, note = column3 FROM (VALUES (?,?,?)) WHERE fault = column1;

-- sql/verbs/faults.py with_room
INSERT INTO onbeat_faults (fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (fault) DO NOTHING;

-- sql/verbs/faults.py with_room
SELECT json_group_array(json_array(total)) FROM (SELECT total FROM (SELECT count(*) AS total FROM onbeat_faults) AS kept);

-- sql/verbs/faults.py write_fault_note
UPDATE onbeat_faults SET operator_note = column2 FROM (VALUES (?,?)) WHERE fault = column1;

-- sql/verbs/flows.py close_flows
DELETE FROM onbeat_flow_waits WHERE (flow, job_id) IN (SELECT column1, column2 FROM (VALUES (?,?)) WHERE column1 IS NOT NULL);

-- sql/verbs/flows.py close_flows
SELECT json_group_array(json_array(flow, job_id, wanted)) FROM (SELECT flow, job_id, wanted
FROM onbeat_flow_waits
WHERE flow IN (SELECT value FROM json_each(?))
LIMIT ?
);

-- sql/verbs/flows.py ended_flows
SELECT json_group_array(json_array(flow)) FROM (SELECT flow
FROM (SELECT DISTINCT flow FROM onbeat_flow_waits) AS awaited
WHERE NOT EXISTS (SELECT 1 FROM onbeat_jobs WHERE onbeat_jobs.flow = awaited.flow)
AND NOT EXISTS (SELECT 1 FROM onbeat_jobs WHERE onbeat_jobs.id = awaited.flow)
LIMIT ?
);

-- sql/verbs/flows.py ends_of_flows
SELECT json_group_array(json_array(flow, state)) FROM (SELECT flow, state
FROM (SELECT flow,
CASE WHEN EXISTS (SELECT 1 FROM onbeat_finished WHERE (onbeat_finished.flow = one.flow AND state = 'failed'))
OR EXISTS (SELECT 1 FROM onbeat_finished WHERE (onbeat_finished.id = one.flow AND state = 'failed')) THEN 'failed'
WHEN EXISTS (SELECT 1 FROM onbeat_finished WHERE (onbeat_finished.flow = one.flow AND state = 'cancelled' AND cause_id IS NULL))
OR EXISTS (SELECT 1 FROM onbeat_finished WHERE (onbeat_finished.id = one.flow AND state = 'cancelled' AND cause_id IS NULL)) THEN 'cancelled'
ELSE 'succeeded' END AS state
FROM (SELECT DISTINCT flow FROM onbeat_flow_waits
WHERE flow IN (SELECT value FROM json_each(?))) AS one) AS judged
);

-- sql/verbs/flows.py flow_below
SELECT json_group_array(json_array(flow)) FROM (SELECT flow FROM (
SELECT * FROM (SELECT flow FROM onbeat_jobs
WHERE flow IS NOT NULL AND flow < ? ORDER BY flow DESC LIMIT 1) AS of_jobs
UNION ALL
SELECT * FROM (SELECT flow FROM onbeat_finished
WHERE flow IS NOT NULL AND flow < ? ORDER BY flow DESC LIMIT 1) AS of_finished
) AS found ORDER BY flow DESC LIMIT 1);

-- sql/verbs/flows.py flow_below
SELECT json_group_array(json_array(flow)) FROM (SELECT flow FROM (
SELECT * FROM (SELECT flow FROM onbeat_jobs
WHERE flow IS NOT NULL ORDER BY flow DESC LIMIT 1) AS of_jobs
UNION ALL
SELECT * FROM (SELECT flow FROM onbeat_finished
WHERE flow IS NOT NULL ORDER BY flow DESC LIMIT 1) AS of_finished
) AS found ORDER BY flow DESC LIMIT 1);

-- sql/verbs/flows.py flow_counts
SELECT json_group_array(json_array(flow, state, total)) FROM (SELECT flow, state, total FROM (
SELECT flow AS flow, CASE WHEN state = 'running' THEN 'running' ELSE 'waiting' END AS state, count(*) AS total
FROM onbeat_jobs
WHERE flow IN (SELECT value FROM json_each(?))
GROUP BY flow, CASE WHEN state = 'running' THEN 'running' ELSE 'waiting' END
UNION ALL
SELECT id AS flow, CASE WHEN state = 'running' THEN 'running' ELSE 'waiting' END AS state, count(*) AS total
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?))
GROUP BY id, CASE WHEN state = 'running' THEN 'running' ELSE 'waiting' END
UNION ALL
SELECT flow AS flow, state AS state, count(*) AS total
FROM onbeat_finished
WHERE flow IN (SELECT value FROM json_each(?))
GROUP BY flow, state
UNION ALL
SELECT id AS flow, state AS state, count(*) AS total
FROM onbeat_finished
WHERE id IN (SELECT value FROM json_each(?))
GROUP BY id, state
) AS counted);

-- sql/verbs/flows.py forget_waits
DELETE FROM onbeat_flow_waits WHERE (flow, job_id) IN (SELECT column1, column2 FROM (VALUES (?,?)) WHERE column1 IS NOT NULL);

-- sql/verbs/flows.py live_flows
SELECT json_group_array(json_array(flow)) FROM (SELECT flow
FROM (SELECT flow FROM onbeat_jobs
WHERE flow IN (SELECT value FROM json_each(?))
UNION
SELECT id FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?))) AS found
);

-- sql/verbs/flows.py look_at
SELECT json_group_array(json_array(place, state, total)) FROM (SELECT place, state, total FROM (
SELECT 0 AS place, state, count(*) AS total
FROM (SELECT CASE WHEN state = 'running' THEN 'running' ELSE 'waiting' END AS state
FROM onbeat_jobs
WHERE flow = ? LIMIT ?) AS of_jobs
GROUP BY state
UNION ALL
SELECT 1 AS place, state, count(*) AS total
FROM (SELECT state AS state
FROM onbeat_finished
WHERE flow = ? LIMIT ?) AS of_finished
GROUP BY state
) AS counted);

-- sql/verbs/held_keys.py delete_new
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM onbeat_jobs WHERE id IN (SELECT value FROM json_each(?)) AND token = 0);

-- sql/verbs/held_keys.py export_held_keys
SELECT json_group_array(json_array(unique_key, job_id, held_until)) FROM (SELECT unique_key, job_id, held_until FROM onbeat_held_keys WHERE TRUE ORDER BY unique_key LIMIT ?);

-- sql/verbs/held_keys.py export_held_keys
SELECT json_group_array(json_array(unique_key, job_id, held_until)) FROM (SELECT unique_key, job_id, held_until FROM onbeat_held_keys WHERE unique_key > ? ORDER BY unique_key LIMIT ?);

-- sql/verbs/held_keys.py find_held_key
SELECT json_group_array(json_array(unique_key, job_id, held_until)) FROM (SELECT unique_key, job_id, held_until FROM onbeat_held_keys WHERE unique_key = ? AND held_until > ?);

-- sql/verbs/held_keys.py hold_keys
INSERT INTO onbeat_held_keys (unique_key, job_id, held_until) SELECT * FROM (VALUES (?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (unique_key) DO UPDATE SET job_id = excluded.job_id, held_until = excluded.held_until;

-- sql/verbs/held_keys.py holders
SELECT json_group_array(json_array(unique_key, job_id)) FROM (SELECT unique_key, job_id
FROM onbeat_held_keys
WHERE unique_key IN (SELECT value FROM json_each(?)) AND held_until > ?
);

-- sql/verbs/held_keys.py import_held_keys
SELECT json_group_array(json_array(unique_key, held_until)) FROM (SELECT unique_key, held_until FROM onbeat_held_keys WHERE unique_key IN (SELECT value FROM json_each(?)));

-- sql/verbs/held_keys.py prune_held_keys
DELETE FROM onbeat_held_keys WHERE (unique_key) IN (SELECT column1 FROM (VALUES (?)) WHERE column1 IS NOT NULL);

-- sql/verbs/held_keys.py prune_held_keys
SELECT json_group_array(json_array(unique_key)) FROM (SELECT unique_key
FROM onbeat_held_keys
WHERE held_until <= ?
ORDER BY held_until
LIMIT ?
);

-- sql/verbs/history.py add_attempts
INSERT INTO onbeat_attempts (job_id, token, record) SELECT * FROM (VALUES (?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (job_id, token) DO NOTHING;

-- sql/verbs/history.py add_transitions
INSERT INTO onbeat_transitions (job_id, record) SELECT * FROM (VALUES (?,?)) WHERE column1 IS NOT NULL;

-- sql/verbs/history.py attempts_of
SELECT json_group_array(json_array(record)) FROM (SELECT record
FROM (SELECT job_id, token, record FROM onbeat_attempts
WHERE job_id IN (SELECT value FROM json_each(?))
UNION ALL
SELECT id, token, last_attempt FROM onbeat_finished
WHERE id IN (SELECT value FROM json_each(?)) AND last_attempt IS NOT NULL) AS all_attempts
ORDER BY job_id, token
);

-- sql/verbs/history.py delete_histories
DELETE FROM onbeat_attempts WHERE job_id IN (SELECT value FROM json_each(?));

-- sql/verbs/history.py delete_histories
DELETE FROM onbeat_job_logs WHERE job_id IN (SELECT value FROM json_each(?));

-- sql/verbs/history.py delete_histories
DELETE FROM onbeat_transitions WHERE job_id IN (SELECT value FROM json_each(?));

-- sql/verbs/history.py transitions_of
SELECT json_group_array(json_array(job_id, record)) FROM (SELECT job_id, record FROM onbeat_transitions WHERE job_id IN (SELECT value FROM json_each(?)) ORDER BY job_id, seq);

-- sql/verbs/idempotency.py export_requests
SELECT json_group_array(json_array(digest, fingerprint, made_at, kept_from, first_job, last_job, answer)) FROM (SELECT digest, fingerprint, made_at, kept_from, first_job, last_job, answer
FROM (SELECT lower(hex(digest)) AS digest, lower(hex(fingerprint)) AS fingerprint, made_at, kept_from, first_job, last_job, lower(hex(answer)) AS answer
FROM onbeat_idempotency_keys
WHERE digest > ?
ORDER BY onbeat_idempotency_keys.digest
LIMIT ?) AS above
ORDER BY digest
);

-- sql/verbs/idempotency.py forget_requests
DELETE FROM onbeat_idempotency_keys WHERE (digest) IN (SELECT column1 FROM (VALUES (?)) WHERE column1 IS NOT NULL);

-- sql/verbs/idempotency.py forget_requests
SELECT json_group_array(json_array(digest, is_live)) FROM (SELECT digest, is_live
FROM (SELECT lower(hex(digest)) AS digest,
EXISTS (SELECT 1 FROM onbeat_jobs
WHERE id BETWEEN first_job AND last_job) AS is_live
FROM onbeat_idempotency_keys
WHERE kept_from < ?
ORDER BY kept_from
LIMIT ?
) AS past
);

-- sql/verbs/idempotency.py forget_requests
UPDATE onbeat_idempotency_keys SET kept_from = column2 FROM (VALUES (?,?)) WHERE digest = column1;

-- sql/verbs/idempotency.py import_requests
INSERT INTO onbeat_idempotency_keys (digest, fingerprint, made_at, kept_from, first_job, last_job, answer) SELECT * FROM (VALUES (?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (digest) DO NOTHING;

-- sql/verbs/idempotency.py insert_requests
INSERT INTO onbeat_idempotency_keys (digest, fingerprint, made_at, kept_from, first_job, last_job, answer) SELECT * FROM (VALUES (?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (digest) DO NOTHING;

-- sql/verbs/idempotency.py keyed_answers
SELECT json_group_array(json_array(digest, fingerprint, made_at, answer)) FROM (SELECT digest, fingerprint, made_at, answer
FROM (SELECT lower(hex(digest)) AS digest,
lower(hex(fingerprint)) AS fingerprint,
made_at,
lower(hex(answer)) AS answer
FROM onbeat_idempotency_keys
WHERE digest IN (SELECT unhex(value) FROM json_each(?))) AS known
);

-- sql/verbs/imports.py forget_planned
DELETE FROM onbeat_dispositions
WHERE schedule_id IN (SELECT value FROM json_each(?))
AND NOT EXISTS (SELECT 1 FROM onbeat_jobs
WHERE onbeat_jobs.id = job_id AND token > 0)
AND NOT EXISTS (SELECT 1 FROM onbeat_finished
WHERE onbeat_finished.id = job_id AND token > 0);

-- sql/verbs/imports.py forget_planned
SELECT json_group_array(json_array(id)) FROM (SELECT id
FROM onbeat_jobs
WHERE schedule_id IN (SELECT value FROM json_each(?)) AND occurrence IS NOT NULL AND state = 'waiting' AND token = 0
AND NOT EXISTS (SELECT 1 FROM onbeat_waits WHERE awaits = onbeat_jobs.id)
ORDER BY id
);

-- sql/verbs/imports.py free_keys
SELECT json_group_array(json_array(key)) FROM (SELECT key FROM onbeat_schedules WHERE key IN (SELECT value FROM json_each(?)));

-- sql/verbs/imports.py free_keys
UPDATE onbeat_schedules SET key = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/imports.py insert_ended
INSERT INTO onbeat_finished (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, spec, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, fault, progress, state, finished_at, cause_id, last_attempt) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL;

-- sql/verbs/imports.py insert_live
INSERT INTO onbeat_jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, fault, progress, cursor, suspicion, held) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING;

-- sql/verbs/imports.py lock_exports
SELECT json_group_array(json_array(record)) FROM (SELECT record
FROM onbeat_ended_jobs
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/imports.py lock_exports
SELECT json_group_array(json_array(record)) FROM (SELECT record
FROM onbeat_live_jobs
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/job_logs.py add_log_lines
INSERT INTO onbeat_job_logs (job_id, number, attempt, at, level, logger, text, fields) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (job_id, number) DO NOTHING;

-- sql/verbs/job_logs.py add_log_lines
SELECT json_group_array(json_array(id)) FROM (SELECT id
FROM (SELECT id FROM onbeat_jobs WHERE id IN (SELECT value FROM json_each(?))
UNION ALL
SELECT id FROM onbeat_finished WHERE id IN (SELECT value FROM json_each(?))) AS known
);

-- sql/verbs/job_logs.py select_lines
SELECT json_group_array(json_array(job_id, number, attempt, at, level, logger, text, fields)) FROM (SELECT job_id, number, attempt, at, level, logger, text, fields FROM onbeat_job_logs  WHERE TRUE ORDER BY job_id, number LIMIT ?);

-- sql/verbs/job_logs.py select_lines
SELECT json_group_array(json_array(job_id, number, attempt, at, level, logger, text, fields)) FROM (SELECT job_id, number, attempt, at, level, logger, text, fields FROM onbeat_job_logs  WHERE job_id = ? AND number > ? AND attempt = ? ORDER BY number LIMIT ?);

-- sql/verbs/job_logs.py select_lines
SELECT json_group_array(json_array(job_id, number, attempt, at, level, logger, text, fields)) FROM (SELECT job_id, number, attempt, at, level, logger, text, fields FROM onbeat_job_logs  WHERE job_id = ? AND number > ? ORDER BY number LIMIT ?);

-- sql/verbs/job_logs.py select_lines
SELECT json_group_array(json_array(job_id, number, attempt, at, level, logger, text, fields)) FROM (SELECT job_id, number, attempt, at, level, logger, text, fields FROM onbeat_job_logs  WHERE job_id > ? ORDER BY job_id, number LIMIT ?);

-- sql/verbs/job_search.py count_of
SELECT json_group_array(json_array(total)) FROM (SELECT total FROM (SELECT count(*) AS total FROM onbeat_finished  WHERE TRUE AND (flow = ?) AND (state = 'failed' AND state <> 'succeeded') AND (queue = ?) AND (substr(lane, 1, 2) = ?)) AS counted);

-- sql/verbs/job_search.py count_of
SELECT json_group_array(json_array(total)) FROM (SELECT total FROM (SELECT count(*) AS total FROM onbeat_jobs  WHERE TRUE AND (state = 'waiting') AND (lane = ?)) AS counted);

-- sql/verbs/job_search.py newest_ids
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT * FROM (SELECT id FROM onbeat_finished  WHERE TRUE AND (flow = ?) AND (state = 'failed' AND state <> 'succeeded') AND (queue = ?) AND (substr(lane, 1, 2) = ?) ORDER BY id DESC LIMIT ?) AS part0) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/job_search.py newest_ids
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT * FROM (SELECT id FROM onbeat_finished  WHERE TRUE AND (flow = ?) AND (state = 'failed' AND state <> 'succeeded') ORDER BY id DESC LIMIT ?) AS part0) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/job_search.py newest_ids
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT * FROM (SELECT id FROM onbeat_finished  WHERE TRUE AND (state = 'failed' AND state <> 'succeeded') AND (id < ?) AND (finished_at < ?) ORDER BY id DESC LIMIT ?) AS part0) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/job_search.py newest_ids
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT * FROM (SELECT id FROM onbeat_finished  WHERE TRUE AND (state = 'failed' AND state <> 'succeeded') AND (id < ?) ORDER BY id DESC LIMIT ?) AS part0) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/job_search.py newest_ids
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT * FROM (SELECT id FROM onbeat_jobs  WHERE TRUE AND (due_at >= ?) AND (due_at < ?) AND (instr(lower(error), ?) > 0) AND (instr(spec, ?) > 0) AND (instr(spec, ?) > 0) ORDER BY id DESC LIMIT ?) AS part0 UNION ALL SELECT * FROM (SELECT id FROM onbeat_finished  WHERE TRUE AND (finished_at >= ?) AND (finished_at < ?) AND (instr(lower(error), ?) > 0) AND (instr(spec, ?) > 0) AND (instr(spec, ?) > 0) ORDER BY id DESC LIMIT ?) AS part1) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/job_search.py newest_ids
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT * FROM (SELECT id FROM onbeat_jobs  WHERE TRUE AND (id >= ?) AND (due_at >= ?) AND (due_at < ?) AND (instr(lower(error), ?) > 0) AND (instr(spec, ?) > 0) AND (instr(spec, ?) > 0) ORDER BY id DESC LIMIT ?) AS part0 UNION ALL SELECT * FROM (SELECT id FROM onbeat_finished  WHERE TRUE AND (id >= ?) AND (finished_at >= ?) AND (finished_at < ?) AND (instr(lower(error), ?) > 0) AND (instr(spec, ?) > 0) AND (instr(spec, ?) > 0) ORDER BY id DESC LIMIT ?) AS part1) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/job_search.py newest_ids
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT * FROM (SELECT id FROM onbeat_jobs  WHERE TRUE AND (schedule_id = ?) AND (id < ?) AND (queue = ?) AND (lane = ?) ORDER BY id DESC LIMIT ?) AS part0 UNION ALL SELECT * FROM (SELECT id FROM onbeat_finished INDEXED BY onbeat_finished_by_schedule WHERE TRUE AND (schedule_id = ?) AND (id < ?) AND (queue = ?) AND (lane = ?) ORDER BY id DESC LIMIT ?) AS part1) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/job_search.py newest_ids
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT * FROM (SELECT id FROM onbeat_jobs  WHERE TRUE AND (schedule_id = ?) AND (id < ?) ORDER BY id DESC LIMIT ?) AS part0 UNION ALL SELECT * FROM (SELECT id FROM onbeat_finished INDEXED BY onbeat_finished_by_schedule WHERE TRUE AND (schedule_id = ?) AND (id < ?) ORDER BY id DESC LIMIT ?) AS part1) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/job_search.py newest_ids
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT * FROM (SELECT id FROM onbeat_jobs  WHERE TRUE AND (state = 'waiting') AND (id < ?) ORDER BY id DESC LIMIT ?) AS part0) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/job_search.py newest_ids
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT * FROM (SELECT id FROM onbeat_jobs  WHERE TRUE AND (state = 'waiting') AND (lane = ?) ORDER BY id DESC LIMIT ?) AS part0) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/job_search.py newest_ids
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT * FROM (SELECT id FROM onbeat_jobs  WHERE TRUE AND (state = 'waiting') ORDER BY id DESC LIMIT ?) AS part0) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/job_search.py newest_ids
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (SELECT * FROM (SELECT id FROM onbeat_jobs  WHERE TRUE ORDER BY id DESC LIMIT ?) AS part0 UNION ALL SELECT * FROM (SELECT id FROM onbeat_finished  WHERE TRUE ORDER BY id DESC LIMIT ?) AS part1) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/jobs.py delete_ended
DELETE FROM onbeat_finished WHERE id IN (SELECT value FROM json_each(?));

-- sql/verbs/jobs.py delete_live
DELETE FROM onbeat_jobs WHERE id IN (SELECT value FROM json_each(?));

-- sql/verbs/jobs.py export_jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_live_jobs
WHERE seq IN (SELECT seq FROM onbeat_jobs
WHERE TRUE ORDER BY id LIMIT ?)
) AS part0 UNION ALL SELECT * FROM (
SELECT record
FROM onbeat_ended_jobs
WHERE seq IN (SELECT seq FROM onbeat_finished
WHERE TRUE ORDER BY id LIMIT ?)
) AS part1) AS chosen);

-- sql/verbs/jobs.py export_jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_live_jobs
WHERE seq IN (SELECT seq FROM onbeat_jobs
WHERE id > ? ORDER BY id LIMIT ?)
) AS part0 UNION ALL SELECT * FROM (
SELECT record
FROM onbeat_ended_jobs
WHERE seq IN (SELECT seq FROM onbeat_finished
WHERE id > ? ORDER BY id LIMIT ?)
) AS part1) AS chosen);

-- sql/verbs/jobs.py jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_ended_jobs
WHERE seq IN (SELECT seq FROM onbeat_finished
WHERE +state = 'succeeded' ORDER BY id DESC LIMIT ?)
) AS part0) AS chosen);

-- sql/verbs/jobs.py jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_ended_jobs
WHERE seq IN (SELECT seq FROM onbeat_finished
WHERE id < ? AND fault = ? AND state = 'failed' AND state <> 'succeeded' ORDER BY id DESC LIMIT ?)
) AS part0) AS chosen);

-- sql/verbs/jobs.py jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_ended_jobs
WHERE seq IN (SELECT seq FROM onbeat_finished
WHERE state = 'cancelled' AND state <> 'succeeded' ORDER BY id DESC LIMIT ?)
) AS part0) AS chosen);

-- sql/verbs/jobs.py jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_ended_jobs
WHERE seq IN (SELECT seq FROM onbeat_finished
WHERE state = 'failed' AND state <> 'succeeded' ORDER BY id DESC LIMIT ?)
) AS part0) AS chosen);

-- sql/verbs/jobs.py jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_live_jobs
WHERE seq IN (SELECT seq FROM onbeat_jobs
WHERE TRUE ORDER BY id DESC LIMIT ?)
) AS part0 UNION ALL SELECT * FROM (
SELECT record
FROM onbeat_ended_jobs
WHERE seq IN (SELECT seq FROM onbeat_finished
WHERE TRUE ORDER BY id DESC LIMIT ?)
) AS part1) AS chosen);

-- sql/verbs/jobs.py jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_live_jobs
WHERE seq IN (SELECT seq FROM onbeat_jobs
WHERE fault = ? AND TRUE ORDER BY id DESC LIMIT ?)
) AS part0 UNION ALL SELECT * FROM (
SELECT record
FROM onbeat_ended_jobs
WHERE seq IN (SELECT seq FROM onbeat_finished
WHERE fault = ? AND TRUE AND state = 'failed' AND state <> 'succeeded' ORDER BY id DESC LIMIT ?)
) AS part1 UNION ALL SELECT * FROM (
SELECT record
FROM onbeat_ended_jobs
WHERE seq IN (SELECT seq FROM onbeat_finished
WHERE fault = ? AND TRUE AND state = 'cancelled' AND state <> 'succeeded' ORDER BY id DESC LIMIT ?)
) AS part2) AS chosen);

-- sql/verbs/jobs.py jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_live_jobs
WHERE seq IN (SELECT seq FROM onbeat_jobs
WHERE flow = ? AND state = 'waiting' ORDER BY id DESC LIMIT ?)
) AS part0) AS chosen);

-- sql/verbs/jobs.py jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_live_jobs
WHERE seq IN (SELECT seq FROM onbeat_jobs
WHERE id < ? AND fault = ? AND state = 'waiting' ORDER BY id DESC LIMIT ?)
) AS part0) AS chosen);

-- sql/verbs/jobs.py jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_live_jobs
WHERE seq IN (SELECT seq FROM onbeat_jobs
WHERE state = 'running' ORDER BY id DESC LIMIT ?)
) AS part0) AS chosen);

-- sql/verbs/jobs.py jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_live_jobs
WHERE seq IN (SELECT seq FROM onbeat_jobs
WHERE state = 'waiting' ORDER BY id DESC LIMIT ?)
) AS part0) AS chosen);

-- sql/verbs/jobs.py jobs_by_id
SELECT json_group_array(json_array(record)) FROM (SELECT record
FROM onbeat_live_jobs  WHERE id IN (SELECT value FROM json_each(?))
UNION ALL
SELECT record FROM onbeat_ended_jobs  WHERE id IN (SELECT value FROM json_each(?))
);

-- sql/verbs/jobs.py occurrence_jobs
SELECT json_group_array(json_array(id)) FROM (SELECT id
FROM (
SELECT id, due_at, occurrence AS run_time FROM (
SELECT id, due_at, occurrence FROM onbeat_finished INDEXED BY onbeat_finished_by_occurrence
WHERE schedule_id = ? AND occurrence IS NOT NULL
ORDER BY occurrence DESC, due_at DESC, id DESC
LIMIT ?
) AS planned
UNION ALL
SELECT id, due_at, due_at AS run_time FROM (
SELECT id, due_at, occurrence FROM onbeat_finished INDEXED BY onbeat_finished_by_occurrence
WHERE schedule_id = ? AND occurrence IS NULL
ORDER BY occurrence DESC, due_at DESC, id DESC
LIMIT ?
) AS others
) AS chosen
ORDER BY run_time DESC, due_at DESC, id DESC
LIMIT ? OFFSET ?
);

-- sql/verbs/jobs.py occurrence_jobs
SELECT json_group_array(json_array(id)) FROM (SELECT id
FROM (
SELECT id, due_at, occurrence AS run_time FROM (
SELECT id, due_at, occurrence FROM onbeat_jobs INDEXED BY onbeat_jobs_by_occurrence
WHERE schedule_id = ? AND occurrence IS NOT NULL
ORDER BY occurrence DESC, due_at DESC, id DESC
LIMIT ?
) AS planned
UNION ALL
SELECT id, due_at, due_at AS run_time FROM (
SELECT id, due_at, occurrence FROM onbeat_jobs INDEXED BY onbeat_jobs_by_occurrence
WHERE schedule_id = ? AND occurrence IS NULL
ORDER BY occurrence DESC, due_at DESC, id DESC
LIMIT ?
) AS others
) AS chosen
ORDER BY run_time DESC, due_at DESC, id DESC
LIMIT ? OFFSET ?
);

-- sql/verbs/lateness.py list_heads
SELECT json_group_array(json_array(queue, priority, lane, grouped, due_at, id)) FROM (SELECT queue, priority, lane, grouped, due_at, id
FROM onbeat_jobs INDEXED BY onbeat_jobs_due
WHERE ready AND (queue, priority, lane, grouped, due_at) > (?, ?, ?, ?, 9223372036854775807)
ORDER BY queue, priority, lane, grouped, due_at, id
LIMIT 1
);

-- sql/verbs/lateness.py list_heads
SELECT json_group_array(json_array(queue, priority, lane, grouped, due_at, id)) FROM (SELECT queue, priority, lane, grouped, due_at, id
FROM onbeat_jobs INDEXED BY onbeat_jobs_due
WHERE ready AND queue = ?
ORDER BY queue, priority, lane, grouped, due_at, id
LIMIT 1
);

-- sql/verbs/lateness.py note_in_time
UPDATE onbeat_queues SET late_since = NULL WHERE name = ? AND late_since IS NOT NULL;

-- sql/verbs/lateness.py note_late
UPDATE onbeat_queues SET late_since = ?
WHERE name = ? AND late_since IS NULL AND late_after IS NOT NULL;

-- sql/verbs/lateness.py watched_queues
SELECT json_group_array(json_array(name, paused, late_after, late_since)) FROM (SELECT name, paused, late_after, late_since FROM onbeat_queues INDEXED BY onbeat_queues_watched WHERE late_after IS NOT NULL ORDER BY name);

-- sql/verbs/live.py add_stream_batch
INSERT INTO onbeat_stream_batches (at, source, seq, missed, body) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (at, source, seq) DO NOTHING;

-- sql/verbs/live.py prune_stream
DELETE FROM onbeat_stream_batches WHERE (at, source, seq) IN (SELECT column1, column2, column3 FROM (VALUES (?,?,?)) WHERE column1 IS NOT NULL);

-- sql/verbs/live.py prune_stream
DELETE FROM onbeat_stream_watchers WHERE until < ?;

-- sql/verbs/live.py prune_stream
SELECT json_group_array(json_array(at, source, seq)) FROM (SELECT at, source, seq
FROM onbeat_stream_batches
WHERE at < ?
ORDER BY at, source, seq
LIMIT ?
);

-- sql/verbs/live.py stream_batches
SELECT json_group_array(json_array(at, source, seq, missed, body)) FROM (SELECT at, source, seq, missed, body
FROM onbeat_stream_batches
WHERE at >= ? AND source <> ?
ORDER BY at, source, seq
LIMIT ?
);

-- sql/verbs/live.py stream_watchers
SELECT json_group_array(json_array(process)) FROM (SELECT process FROM onbeat_stream_watchers WHERE until > ? ORDER BY process);

-- sql/verbs/live.py watch_stream
INSERT INTO onbeat_stream_watchers (process, until) VALUES (?, ?)
ON CONFLICT (process) DO UPDATE SET until = excluded.until;

-- sql/verbs/overlap.py ask_to_stop
SELECT json_group_array(json_array(id, attempt, worker)) FROM (SELECT id, attempt, worker
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'running' AND cancel_reason IS NULL
ORDER BY id
);

-- sql/verbs/overlap.py ask_to_stop
UPDATE onbeat_jobs SET cancel_reason = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/overlap.py find_earlier
SELECT json_group_array(json_array(id, worker)) FROM (SELECT id, worker
FROM onbeat_jobs
WHERE schedule_id = ? AND id <> ? AND (state = 'running'
OR token > 0
OR (due_at < ? OR due_at = ? AND id < ?) AND (start_by IS NULL OR start_by >= ?)
)
ORDER BY CASE WHEN state = 'running' THEN 0 ELSE 1 END, due_at DESC, id DESC
);

-- sql/verbs/own_events.py wanted_of
SELECT json_group_array(json_array(type)) FROM (SELECT type
FROM onbeat_own_event_types
WHERE type IN (SELECT value FROM json_each(?))
);

-- sql/verbs/payloads.py drop_payloads
UPDATE onbeat_finished SET spec = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/plans.py allow_late
SELECT json_group_array(json_array(id, start_by, attempt, worker)) FROM (SELECT id, start_by, attempt, worker
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?))
AND state = 'waiting' AND start_by IS NOT NULL
ORDER BY id
);

-- sql/verbs/plans.py allow_late
UPDATE onbeat_jobs SET start_by = column2, lapsed = column3 FROM (VALUES (?,?,?)) WHERE id = column1;

-- sql/verbs/plans.py drop_planned
SELECT json_group_array(json_array(id, schedule_id, occurrence, start_by, due_at)) FROM (SELECT id, schedule_id, occurrence, start_by, due_at FROM onbeat_jobs WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id);

-- sql/verbs/plans.py insert_jobs
INSERT INTO onbeat_jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, held) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING;

-- sql/verbs/plans.py insert_jobs
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM onbeat_finished WHERE id IN (SELECT value FROM json_each(?)));

-- sql/verbs/plans.py raise_watermarks
UPDATE onbeat_schedules SET planned_through = column2, plan_at = column3, status = column4 FROM (VALUES (?,?,?,?)) WHERE id = column1;

-- sql/verbs/plans.py turn_into_skip
UPDATE onbeat_dispositions SET job_id = NULL, reason = ?
WHERE schedule_id = ? AND first = ? AND job_id = ?;

-- sql/verbs/prune.py delete_jobs
DELETE FROM onbeat_finished WHERE id IN (SELECT value FROM json_each(?));

-- sql/verbs/prune.py delete_jobs
SELECT json_group_array(json_array(id)) FROM (SELECT id
FROM onbeat_finished
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/prune.py overdue_jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM (SELECT * FROM (
SELECT record
FROM onbeat_live_jobs
WHERE seq IN (SELECT seq FROM onbeat_jobs
WHERE lapsed = TRUE AND start_by < ? AND start_by IS NOT NULL AND state = 'waiting' ORDER BY start_by LIMIT ?)
) AS part0 UNION ALL SELECT * FROM (
SELECT record
FROM onbeat_live_jobs
WHERE seq IN (SELECT seq FROM onbeat_jobs
WHERE lapsed = FALSE AND start_by < ? AND start_by IS NOT NULL AND state = 'waiting' ORDER BY start_by LIMIT ?)
) AS part1) AS chosen);

-- sql/verbs/prune.py past_jobs
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM (
SELECT * FROM (SELECT id, finished_at FROM onbeat_finished INDEXED BY onbeat_finished_by_end
WHERE state = 'succeeded' AND finished_at < ?
ORDER BY finished_at
LIMIT ?) AS succeeded
UNION ALL
SELECT * FROM (SELECT id, finished_at FROM onbeat_finished INDEXED BY onbeat_finished_by_end
WHERE state = 'cancelled' AND finished_at < ?
ORDER BY finished_at
LIMIT ?) AS cancelled
UNION ALL
SELECT * FROM (SELECT id, finished_at FROM onbeat_finished INDEXED BY onbeat_finished_by_end
WHERE state = 'failed' AND finished_at < ?
ORDER BY finished_at
LIMIT ?) AS failed
) AS past ORDER BY finished_at, id LIMIT ?);

-- sql/verbs/prune.py prune_dead_letters
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM onbeat_dead_letters  WHERE at < ? ORDER BY at LIMIT ?);

-- sql/verbs/prune.py prune_dispositions
DELETE FROM onbeat_dispositions WHERE (schedule_id, first) IN (SELECT column1, column2 FROM (VALUES (?,?)) WHERE column1 IS NOT NULL);

-- sql/verbs/prune.py prune_dispositions
SELECT json_group_array(json_array(schedule_id, first)) FROM (SELECT schedule_id, first
FROM onbeat_dispositions INDEXED BY onbeat_dispositions_by_age
WHERE last < ?
AND (job_id IS NULL
OR NOT EXISTS (SELECT 1 FROM onbeat_jobs WHERE onbeat_jobs.id = job_id))
ORDER BY last
LIMIT ?
);

-- sql/verbs/prune.py prune_meters
DELETE FROM onbeat_meters WHERE (queue, grp) IN (SELECT column1, column2 FROM (VALUES (?,?)) WHERE column1 IS NOT NULL);

-- sql/verbs/prune.py prune_meters
SELECT json_group_array(json_array(queue, grp)) FROM (SELECT queue, grp
FROM onbeat_meters
WHERE full_at < ?
LIMIT ?
);

-- sql/verbs/prune_events.py delete_events
DELETE FROM onbeat_event_jobs WHERE seq IN (SELECT value FROM json_each(?));

-- sql/verbs/prune_events.py delete_events
DELETE FROM onbeat_events WHERE seq IN (SELECT value FROM json_each(?));

-- sql/verbs/prune_events.py delete_keys
DELETE FROM onbeat_event_keys WHERE job_id IN (SELECT value FROM json_each(?));

-- sql/verbs/prune_events.py prune_events
SELECT json_group_array(json_array(seq)) FROM (SELECT seq
FROM onbeat_events INDEXED BY onbeat_events_by_age
WHERE kept_from < ? AND routed_at IS NOT NULL
ORDER BY kept_from
LIMIT ?
);

-- sql/verbs/prune_events.py prune_events
UPDATE onbeat_events SET kept_from = column2 FROM (VALUES (?,?)) WHERE seq = column1;

-- sql/verbs/prune_events.py stored_jobs
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM onbeat_finished  WHERE id IN (SELECT value FROM json_each(?)));

-- sql/verbs/prune_events.py stored_jobs
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM onbeat_jobs  WHERE id IN (SELECT value FROM json_each(?)));

-- sql/verbs/pulses.py count_dead_letters
SELECT json_group_array(json_array(total)) FROM (SELECT total
FROM (SELECT count(*) AS total
FROM (SELECT id FROM onbeat_dead_letters LIMIT 10001) AS found) AS counted
);

-- sql/verbs/pulses.py count_depths
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM onbeat_workers);

-- sql/verbs/pulses.py fold_history
DELETE FROM onbeat_gauges WHERE resolution = ? AND at >= ? AND at < ?;

-- sql/verbs/pulses.py fold_history
DELETE FROM onbeat_pulses WHERE resolution = ? AND at >= ? AND at < ?;

-- sql/verbs/pulses.py newest_sample
SELECT json_group_array(json_array(body)) FROM (SELECT body FROM onbeat_gauges WHERE resolution = ? ORDER BY at DESC LIMIT 1);

-- sql/verbs/pulses.py oldest_history
SELECT json_group_array(json_array(at)) FROM (SELECT at FROM onbeat_gauges WHERE resolution = ? ORDER BY at LIMIT 1);

-- sql/verbs/pulses.py oldest_history
SELECT json_group_array(json_array(at)) FROM (SELECT at FROM onbeat_pulses WHERE resolution = ? ORDER BY at LIMIT 1);

-- sql/verbs/pulses.py pulses
SELECT json_group_array(json_array(at, source, totals)) FROM (SELECT at, source, totals
FROM onbeat_pulses
WHERE resolution = ? AND at >= ? AND at < ?
ORDER BY at DESC, source DESC
LIMIT ?
);

-- sql/verbs/pulses.py pulses
SELECT json_group_array(json_array(at, source, totals, series)) FROM (SELECT at, source, totals, series
FROM onbeat_pulses
WHERE resolution = ? AND at >= ? AND at < ?
ORDER BY at DESC, source DESC
LIMIT ?
);

-- sql/verbs/pulses.py put_pulses
INSERT INTO onbeat_pulses (resolution, at, source, totals, series) SELECT * FROM (VALUES (?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (resolution, at, source) DO NOTHING;

-- sql/verbs/pulses.py put_samples
INSERT INTO onbeat_gauges (resolution, at, body) SELECT * FROM (VALUES (?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (resolution, at) DO NOTHING;

-- sql/verbs/pulses.py samples
SELECT json_group_array(json_array(body)) FROM (SELECT body
FROM (SELECT at, body FROM onbeat_gauges
WHERE resolution = ? AND at >= ? AND at < ? ORDER BY at DESC LIMIT ?) AS chosen
ORDER BY at DESC
);

-- sql/verbs/pulses.py samples
SELECT json_group_array(json_array(body)) FROM (SELECT body
FROM (SELECT at, substr(body, 1, 400) AS body FROM onbeat_gauges
WHERE resolution = ? AND at >= ? AND at < ? ORDER BY at DESC LIMIT ?) AS chosen
ORDER BY at DESC
);

-- sql/verbs/queues.py limit_queue
DELETE FROM onbeat_meters WHERE queue = ? AND grp = '';

-- sql/verbs/queues.py limit_queue
DELETE FROM onbeat_meters WHERE queue = ? AND grp > '';

-- sql/verbs/queues.py limit_queue
DELETE FROM onbeat_turns WHERE queue = ?;

-- sql/verbs/queues.py limit_queue
UPDATE onbeat_queues SET limits = ? WHERE name = ?;

-- sql/verbs/queues.py lock_limits
SELECT json_group_array(json_array(limits)) FROM (SELECT limits FROM onbeat_queues WHERE name = ? );

-- sql/verbs/queues.py name_queues
INSERT INTO onbeat_queues (name, paused) SELECT * FROM (VALUES (?,?)) WHERE column1 IS NOT NULL ON CONFLICT (name) DO NOTHING;

-- sql/verbs/queues.py pause_queue
INSERT INTO onbeat_queues (name, paused, pause) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, pause = excluded.pause;

-- sql/verbs/queues.py queue_names
SELECT json_group_array(json_array(name)) FROM (SELECT name FROM onbeat_queues ORDER BY name);

-- sql/verbs/queues.py store_buckets
INSERT INTO onbeat_meters (queue, grp, full_at) SELECT * FROM (VALUES (?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (queue, grp) DO UPDATE SET full_at = excluded.full_at;

-- sql/verbs/queues.py unnamed_queues
SELECT json_group_array(json_array(name)) FROM (SELECT name FROM onbeat_queues WHERE name IN (SELECT value FROM json_each(?)));

-- sql/verbs/queues.py watch_queue
UPDATE onbeat_queues SET late_after = ? WHERE name = ?;

-- sql/verbs/queues.py watch_queue
UPDATE onbeat_queues SET late_after = NULL, late_since = NULL WHERE name = ?;

-- sql/verbs/reschedule.py give_due_times
UPDATE onbeat_jobs SET due_at = column2, start_by = column3, lapsed = column4 FROM (VALUES (?,?,?,?)) WHERE id = column1;

-- sql/verbs/reschedule.py reschedule
SELECT json_group_array(json_array(record)) FROM (SELECT record
FROM onbeat_live_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'waiting'
);

-- sql/verbs/routes.py add_carried
INSERT INTO onbeat_event_jobs (seq, job_id, schedule_id, is_read) SELECT * FROM (VALUES (?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (seq, job_id) DO NOTHING;

-- sql/verbs/routes.py event_schedules
SELECT json_group_array(json_array(id, version)) FROM (SELECT id, version FROM onbeat_schedules INDEXED BY onbeat_schedules_on_event WHERE on_event = TRUE);

-- sql/verbs/routes.py have_versions
SELECT json_group_array(json_array(id, version)) FROM (SELECT id, version
FROM onbeat_schedules
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/routes.py job_places
SELECT json_group_array(json_array(id, due_at, waits)) FROM (SELECT id, due_at, waits
FROM (SELECT id, due_at, (state = 'waiting' AND (token = 0 OR start_by IS NOT NULL)) AS waits
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?))) AS found
);

-- sql/verbs/routes.py keyed_rows
SELECT json_group_array(json(
(SELECT json_group_array(json_array(schedule_id, by_key, job_id, opened_at, gathered))
FROM (SELECT schedule_id, by_key, job_id, opened_at, gathered
FROM onbeat_event_keys
WHERE schedule_id = params.schedule_id AND by_key = params.by_key
))))
FROM (SELECT value ->> 0 AS schedule_id, value ->> 1 AS by_key FROM json_each(?)) AS params;

-- sql/verbs/routes.py leave_unread
UPDATE onbeat_event_jobs  SET is_read = FALSE
WHERE job_id IN (SELECT value FROM json_each(?)) AND is_read = TRUE;

-- sql/verbs/routes.py lock_unrouted
SELECT json_group_array(json_array(seq)) FROM (SELECT seq
FROM onbeat_events
WHERE seq IN (SELECT value FROM json_each(?)) AND routed_at IS NULL
ORDER BY seq
);

-- sql/verbs/routes.py lock_unstarted
SELECT json_group_array(json_array(id)) FROM (SELECT id
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'waiting' AND (token = 0 OR start_by IS NOT NULL)
ORDER BY id
);

-- sql/verbs/routes.py postpone
UPDATE onbeat_jobs SET due_at = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/routes.py put_keyed
DELETE FROM onbeat_event_keys WHERE (schedule_id, by_key, job_id) IN (SELECT column1, column2, column3 FROM (VALUES (?,?,?)) WHERE column1 IS NOT NULL);

-- sql/verbs/routes.py put_keyed
INSERT INTO onbeat_event_keys (schedule_id, by_key, job_id, opened_at, gathered) SELECT * FROM (VALUES (?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (schedule_id, by_key, job_id) DO UPDATE SET opened_at = excluded.opened_at, gathered = excluded.gathered;

-- sql/verbs/routes.py route
UPDATE onbeat_events SET routed_at = column2, verdicts = column3 FROM (VALUES (?,?,?)) WHERE seq = column1;

-- sql/verbs/routes.py unrouted_events
SELECT json_group_array(json_array(seq, record, received_at, routed_at, verdicts)) FROM (SELECT seq, record, received_at, routed_at, verdicts
FROM onbeat_events INDEXED BY onbeat_events_unrouted
WHERE routed_at IS NULL
ORDER BY seq
LIMIT ?
);

-- sql/verbs/schedules.py delete_own_types
DELETE FROM onbeat_own_event_types WHERE schedule_id IN (SELECT value FROM json_each(?));

-- sql/verbs/schedules.py due_schedules
SELECT json_group_array(json_array(id, key, status, planned_through, plan_at, version, spec)) FROM (SELECT id, key, status, planned_through, plan_at, version, spec
FROM onbeat_schedules INDEXED BY onbeat_schedules_due
WHERE status = 'active' AND plan_at IS NOT NULL AND plan_at <= ?
ORDER BY plan_at
LIMIT ?
);

-- sql/verbs/schedules.py export_schedules
SELECT json_group_array(json_array(id, key, status, planned_through, plan_at, version, spec)) FROM (SELECT id, key, status, planned_through, plan_at, version, spec FROM onbeat_schedules WHERE TRUE ORDER BY id LIMIT ?);

-- sql/verbs/schedules.py export_schedules
SELECT json_group_array(json_array(id, key, status, planned_through, plan_at, version, spec)) FROM (SELECT id, key, status, planned_through, plan_at, version, spec FROM onbeat_schedules WHERE id > ? ORDER BY id LIMIT ?);

-- sql/verbs/schedules.py hold_statuses
SELECT json_group_array(json_array(id, status)) FROM (SELECT id, status
FROM onbeat_schedules
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/schedules.py insert_own_types
INSERT INTO onbeat_own_event_types (type, schedule_id) SELECT * FROM (VALUES (?,?)) WHERE column1 IS NOT NULL;

-- sql/verbs/schedules.py insert_schedules
INSERT INTO onbeat_schedules (id, key, search, status, planned_through, plan_at, version, on_event, owner, spec) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL;

-- sql/verbs/schedules.py insert_schedules
INSERT INTO onbeat_schedules (id, key, search, status, planned_through, plan_at, version, on_event, owner, spec) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (id) DO UPDATE SET key = excluded.key, search = excluded.search, status = excluded.status, planned_through = excluded.planned_through, plan_at = excluded.plan_at, version = excluded.version, on_event = excluded.on_event, owner = excluded.owner, spec = excluded.spec;

-- sql/verbs/schedules.py lock_schedules
SELECT json_group_array(json_array(id, key, status, planned_through, plan_at, version, spec)) FROM (SELECT id, key, status, planned_through, plan_at, version, spec
FROM onbeat_schedules
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/schedules.py lock_watermarks
SELECT json_group_array(json_array(id, version, status, planned_through, plan_at)) FROM (SELECT id, version, status, planned_through, plan_at
FROM onbeat_schedules
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/schedules.py next_plan_at
SELECT json_group_array(json_array(plan_at)) FROM (SELECT plan_at
FROM onbeat_schedules INDEXED BY onbeat_schedules_due
WHERE status = 'active' AND plan_at IS NOT NULL
ORDER BY plan_at
LIMIT 1
);

-- sql/verbs/schedules.py refuse_taken_key
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM onbeat_schedules WHERE key = ? AND id <> ?);

-- sql/verbs/schedules.py rewrite_schedule
UPDATE onbeat_schedules
SET key = ?, search = ?, status = ?, version = ?, on_event = ?,
owner = ?, spec = ?
WHERE id = ?;

-- sql/verbs/schedules.py schedule_by_key
SELECT json_group_array(json_array(id, key, status, planned_through, plan_at, version, spec)) FROM (SELECT id, key, status, planned_through, plan_at, version, spec FROM onbeat_schedules WHERE key = ?);

-- sql/verbs/schedules.py schedules
SELECT json_group_array(json_array(id, key, status, planned_through, plan_at, version, spec)) FROM (SELECT id, key, status, planned_through, plan_at, version, spec
FROM onbeat_schedules
WHERE TRUE
ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/schedules.py schedules
SELECT json_group_array(json_array(id, key, status, planned_through, plan_at, version, spec)) FROM (SELECT id, key, status, planned_through, plan_at, version, spec
FROM onbeat_schedules
WHERE TRUE AND status = ? AND instr(search, ?) > 0
ORDER BY id DESC LIMIT ? OFFSET ?);

-- sql/verbs/schedules.py schedules
SELECT json_group_array(json_array(total)) FROM (SELECT total FROM (SELECT count(*) AS total
FROM onbeat_schedules
WHERE TRUE
) AS counted);

-- sql/verbs/schedules.py schedules
SELECT json_group_array(json_array(total)) FROM (SELECT total FROM (SELECT count(*) AS total
FROM onbeat_schedules
WHERE TRUE AND status = ? AND instr(search, ?) > 0
) AS counted);

-- sql/verbs/schedules.py schedules_by_id
SELECT json_group_array(json_array(id, key, status, planned_through, plan_at, version, spec)) FROM (SELECT id, key, status, planned_through, plan_at, version, spec FROM onbeat_schedules WHERE id IN (SELECT value FROM json_each(?)));

-- sql/verbs/schedules.py schedules_of_owner
SELECT json_group_array(json_array(id, key, status, planned_through, plan_at, version, spec)) FROM (SELECT id, key, status, planned_through, plan_at, version, spec FROM onbeat_schedules INDEXED BY onbeat_schedules_of_owner WHERE owner = ? ORDER BY id);

-- sql/verbs/sweeps.py sweep
SELECT json_group_array(json_array(id, finished_at, queue)) FROM (SELECT id, finished_at, queue
FROM onbeat_finished INDEXED BY onbeat_finished_by_end
WHERE state = ? AND finished_at >= ? AND (finished_at > ? OR id > ?) AND finished_at < ?
ORDER BY finished_at, id
LIMIT ?
);

-- sql/verbs/timeline.py forgotten_between
SELECT json_group_array(json(
(SELECT json_group_array(json_array(schedule_id, first))
FROM (SELECT schedule_id, first
FROM (
SELECT schedule_id, first, job_id
FROM onbeat_dispositions
WHERE schedule_id = params.schedule_id AND
first <= params.last
AND first >= coalesce((SELECT first FROM onbeat_dispositions
WHERE schedule_id = params.schedule_id AND first <= params.first
ORDER BY first DESC LIMIT 1), params.first)
AND TRUE
ORDER BY first DESC
LIMIT 2000
) AS looked
WHERE job_id IS NOT NULL AND first >= params.first
AND NOT EXISTS (SELECT 1 FROM onbeat_jobs WHERE onbeat_jobs.id = looked.job_id)
AND NOT EXISTS (SELECT 1 FROM onbeat_finished WHERE onbeat_finished.id = looked.job_id)
))))
FROM (SELECT value ->> 0 AS schedule_id, value ->> 1 AS first, value ->> 2 AS last FROM json_each(?)) AS params;

-- sql/verbs/timeline.py run_counts
SELECT json_group_array(json(
(SELECT json_group_array(json_array(schedule_id, at, state, total, first_at))
FROM (SELECT schedule_id, at, state, total, first_at
FROM (
SELECT schedule_id, at, state, count(*) AS total, min(due_at) AS first_at
FROM (SELECT schedule_id, due_at, due_at - (due_at - params.first) % 60000000 AS at, CASE WHEN state = 'running' THEN 'running' ELSE 'waiting' END AS state
FROM onbeat_jobs
WHERE schedule_id = params.schedule_id
AND due_at >= params.first AND due_at < params.last
ORDER BY due_at DESC
LIMIT 1000
) AS runs
GROUP BY schedule_id, at, state
) AS counted
))))
FROM (SELECT value ->> 0 AS schedule_id, value ->> 1 AS first, value ->> 2 AS last FROM json_each(?)) AS params;

-- sql/verbs/timeline.py run_counts
SELECT json_group_array(json(
(SELECT json_group_array(json_array(schedule_id, at, state, total, first_at))
FROM (SELECT schedule_id, at, state, total, first_at
FROM (
SELECT schedule_id, at, state, count(*) AS total, min(due_at) AS first_at
FROM (SELECT schedule_id, due_at, due_at - (due_at - params.first) % 60000000 AS at, state
FROM onbeat_finished
WHERE schedule_id = params.schedule_id
AND due_at >= params.first AND due_at < params.last
ORDER BY due_at DESC
LIMIT 1000
) AS runs
GROUP BY schedule_id, at, state
) AS counted
))))
FROM (SELECT value ->> 0 AS schedule_id, value ->> 1 AS first, value ->> 2 AS last FROM json_each(?)) AS params;

-- sql/verbs/timeline.py runs_between
SELECT json_group_array(json(
(SELECT json_group_array(json_array(id, schedule_id, state, due_at, occurrence, started_at, finished_at, attempt, reason))
FROM (SELECT id, schedule_id, state, due_at, occurrence, started_at, finished_at, attempt, reason FROM (SELECT id, schedule_id, CASE WHEN state = 'running' THEN 'running' ELSE 'waiting' END AS state, due_at, occurrence, started_at, NULL AS finished_at, coalesce(attempt, token) AS attempt, reason
FROM onbeat_jobs
WHERE schedule_id = params.schedule_id
AND due_at >= params.first AND due_at < params.last
ORDER BY due_at DESC
LIMIT 200
) AS runs))))
FROM (SELECT value ->> 0 AS schedule_id, value ->> 1 AS first, value ->> 2 AS last FROM json_each(?)) AS params;

-- sql/verbs/timeline.py runs_between
SELECT json_group_array(json(
(SELECT json_group_array(json_array(id, schedule_id, state, due_at, occurrence, started_at, finished_at, attempt, reason))
FROM (SELECT id, schedule_id, state, due_at, occurrence, started_at, finished_at, attempt, reason FROM (SELECT id, schedule_id, state, due_at, occurrence, started_at, finished_at, coalesce(attempt, token) AS attempt, reason
FROM onbeat_finished
WHERE schedule_id = params.schedule_id
AND due_at >= params.first AND due_at < params.last
ORDER BY due_at DESC
LIMIT 200
) AS runs))))
FROM (SELECT value ->> 0 AS schedule_id, value ->> 1 AS first, value ->> 2 AS last FROM json_each(?)) AS params;

-- sql/verbs/timeline.py skips_between
SELECT json_group_array(json(
(SELECT json_group_array(json_array(schedule_id, first, last, reason))
FROM (SELECT schedule_id, first, last, reason
FROM (
SELECT schedule_id, first, last, reason, job_id
FROM onbeat_dispositions
WHERE schedule_id = params.schedule_id AND
first <= params.last
AND first >= coalesce((SELECT first FROM onbeat_dispositions
WHERE schedule_id = params.schedule_id AND first <= params.first
ORDER BY first DESC LIMIT 1), params.first)
AND TRUE
ORDER BY first DESC
LIMIT 2000
) AS looked
WHERE job_id IS NULL AND last >= params.first
))))
FROM (SELECT value ->> 0 AS schedule_id, value ->> 1 AS first, value ->> 2 AS last FROM json_each(?)) AS params;

-- sql/verbs/withdrawals.py changed_among
SELECT json_group_array(json_array(job_id)) FROM (SELECT job_id
FROM (SELECT DISTINCT job_id FROM onbeat_transitions
WHERE job_id IN (SELECT value FROM json_each(?))) AS changed
);

-- sql/verbs/withdrawals.py lock_untouched
SELECT json_group_array(json_array(id, token)) FROM (SELECT id, token
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'waiting'
ORDER BY id
);

-- sql/verbs/workers.py forget_workers
DELETE FROM onbeat_workers
WHERE id IN (SELECT value FROM json_each(?))
AND NOT EXISTS (SELECT 1 FROM onbeat_jobs
WHERE worker = onbeat_workers.id AND state = 'running');

-- sql/verbs/workers.py forget_workers
SELECT json_group_array(json_array(record)) FROM (SELECT record
FROM onbeat_workers
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/workers.py hand_over
SELECT json_group_array(json_array(token)) FROM (SELECT token FROM onbeat_jobs WHERE id = ? AND token = ? AND state = 'running' AND worker = ?);

-- sql/verbs/workers.py hand_over
UPDATE onbeat_jobs
SET worker = ?, lease_until = ?
WHERE id = ? AND token = ? AND state = 'running' AND worker <> ?;

-- sql/verbs/workers.py heartbeat
INSERT INTO onbeat_workers (id, record) VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET record = excluded.record;

-- sql/verbs/workers.py held_leases
SELECT json_group_array(json_array(id, token, cancel_reason)) FROM (SELECT id, token, cancel_reason
FROM onbeat_jobs INDEXED BY onbeat_jobs_running
WHERE worker = ? AND state = 'running'
ORDER BY id
);

-- sql/verbs/workers.py rewrite_workers
UPDATE onbeat_workers SET record = record WHERE id IN (SELECT value FROM json_each(?));

-- sql/verbs/workers.py workers
SELECT json_group_array(json_array(record, running)) FROM (SELECT record, running
FROM (SELECT id, record,
(SELECT count(*) FROM onbeat_jobs INDEXED BY onbeat_jobs_running
WHERE worker = onbeat_workers.id AND state = 'running') AS running
FROM onbeat_workers) AS counted
ORDER BY id
);
