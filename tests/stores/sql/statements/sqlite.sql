-- What `onbeat.stores.sql` composes for sqlite, by file and function below
-- `src/onbeat/stores`. Values are `?`; of several rows one is shown.
-- Write this file anew: WRITE_STATEMENTS=1 .venv/bin/pytest tests/stores/sql/test_statements.py
-- See a plan: EXPLAIN QUERY PLAN, in the command line of SQLite; `?` is then NULL.

-- sql/verbs/access.py add_key
INSERT INTO onbeat_keys (name, digest, record, used_at) VALUES (?, ?, ?, ?)
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

-- sql/verbs/access.py secret
INSERT INTO onbeat_secrets (name, value) VALUES ('tokens', lower(hex(?)))
ON CONFLICT (name) DO NOTHING;

-- sql/verbs/access.py stored_secret
SELECT json_group_array(json_array(value)) FROM (SELECT value FROM onbeat_secrets WHERE name = 'tokens' );

-- sql/verbs/cancel_and_retry.py lock_unsuccessful
SELECT json_group_array(json_array(record)) FROM (SELECT record
FROM onbeat_ended_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state IN ('failed', 'cancelled')
ORDER BY id
);

-- sql/verbs/cancel_and_retry.py move_back
INSERT INTO onbeat_jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, token, started_at, held, blocked_by) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING;

-- sql/verbs/counts.py count_ended
SELECT json_group_array(json_array(state, total)) FROM (SELECT state, total FROM (SELECT state, count(*) AS total FROM onbeat_finished INDEXED BY onbeat_finished_by_end GROUP BY state) AS counted);

-- sql/verbs/counts.py count_live
SELECT json_group_array(json_array(queue, lane, waiting, due, oldest, running)) FROM (SELECT queue, lane, waiting, due, oldest, running FROM (
SELECT queue AS queue, lane AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= ? THEN 1 END) AS due, min(due_at) AS oldest, 0 AS running
FROM onbeat_jobs INDEXED BY onbeat_jobs_due WHERE ready
GROUP BY queue, priority, lane
UNION ALL
SELECT queue AS queue, lane AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= ? AND blocked_by = 0 THEN 1 END) AS due, min(CASE WHEN blocked_by = 0 THEN due_at END) AS oldest, 0 AS running
FROM onbeat_jobs INDEXED BY onbeat_jobs_stuck WHERE state = 'waiting' AND NOT ready
GROUP BY queue, lane
UNION ALL
SELECT queue, NULL, 0, 0, NULL, count(*)
FROM onbeat_jobs INDEXED BY onbeat_jobs_running WHERE state = 'running'
GROUP BY queue
) AS counted);

-- sql/verbs/counts.py queues
SELECT json_group_array(json_array(name, paused, limits)) FROM (SELECT name, paused, limits FROM onbeat_queues  WHERE paused OR limits IS NOT NULL);

-- sql/verbs/counts.py stats
SELECT json_group_array(json_array(record)) FROM (SELECT record FROM onbeat_workers);

-- sql/verbs/counts.py stats
SELECT json_group_array(json_array(status, total)) FROM (SELECT status, total FROM (SELECT status, count(*) AS total FROM onbeat_schedules GROUP BY status) AS counted);

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

-- sql/verbs/dependents.py add_waits
INSERT INTO onbeat_waits (awaits, job_id, any_end) SELECT * FROM (VALUES (?,?,?)) WHERE column1 IS NOT NULL;

-- sql/verbs/dependents.py cascade
INSERT INTO onbeat_cascades (job_id, state) SELECT * FROM (VALUES (?,?)) WHERE column1 IS NOT NULL ON CONFLICT (job_id) DO UPDATE SET state = excluded.state;

-- sql/verbs/dependents.py delete_waits
DELETE FROM onbeat_waits WHERE job_id IN (SELECT value FROM json_each(?));

-- sql/verbs/dependents.py free
DELETE FROM onbeat_waits WHERE (awaits, job_id) IN (SELECT column1, column2 FROM (VALUES (?,?)) WHERE column1 IS NOT NULL);

-- sql/verbs/dependents.py has_cascades
SELECT json_group_array(json_array(job_id)) FROM (SELECT job_id FROM onbeat_cascades LIMIT 1);

-- sql/verbs/dependents.py lock_ended
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM onbeat_finished  WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id );

-- sql/verbs/dependents.py lock_ended
SELECT json_group_array(json_array(id)) FROM (SELECT id FROM onbeat_jobs  WHERE id IN (SELECT value FROM json_each(?)));

-- sql/verbs/dependents.py lock_jobs
SELECT json_group_array(json_array(id, worker, blocked_by)) FROM (SELECT id, worker, blocked_by
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/dependents.py lock_waiting
SELECT json_group_array(json_array(id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec)) FROM (SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'waiting'
AND (token = 0 OR start_by IS NOT NULL)
ORDER BY id
);

-- sql/verbs/dependents.py lock_waiting
SELECT json_group_array(json_array(id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec)) FROM (SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'waiting'
ORDER BY id
);

-- sql/verbs/dependents.py move_cancelled
INSERT INTO onbeat_finished (id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec, state, finished_at, reason) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL;

-- sql/verbs/dependents.py rewrite_waits
UPDATE onbeat_jobs SET blocked_by = column2 FROM (VALUES (?,?)) WHERE id = column1;

-- sql/verbs/dependents.py states_of_ended
SELECT json_group_array(json_array(id, state)) FROM (SELECT id, state FROM onbeat_finished  WHERE id IN (SELECT value FROM json_each(?)));

-- sql/verbs/dependents.py stored_waits
SELECT json_group_array(json_array(job_id, awaits)) FROM (SELECT job_id, awaits FROM onbeat_waits  WHERE job_id IN (SELECT value FROM json_each(?)));

-- sql/verbs/dependents.py take_cascades
DELETE FROM onbeat_cascades WHERE job_id IN (SELECT value FROM json_each(?));

-- sql/verbs/dependents.py take_cascades
SELECT json_group_array(json_array(job_id, state)) FROM (SELECT job_id, state FROM onbeat_cascades LIMIT ? );

-- sql/verbs/dependents.py waits_for
SELECT json_group_array(json_array(job_id, awaits, any_end)) FROM (SELECT job_id, awaits, any_end
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
first >= coalesce((SELECT first FROM onbeat_dispositions
WHERE schedule_id = ? AND first <= ? AND last >= ?
ORDER BY first DESC LIMIT 1), ?)
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

-- sql/verbs/enqueue.py keep_places
UPDATE onbeat_jobs SET cursor = column2, progress = column3 FROM (VALUES (?,?,?)) WHERE id = column1;

-- sql/verbs/enqueue.py lock_senders
SELECT json_group_array(json_array(id, token, cursor, progress)) FROM (SELECT id, token, cursor, progress
FROM onbeat_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'running'
ORDER BY id
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
DELETE FROM onbeat_transitions WHERE job_id IN (SELECT value FROM json_each(?));

-- sql/verbs/history.py transitions_of
SELECT json_group_array(json_array(job_id, record)) FROM (SELECT job_id, record FROM onbeat_transitions WHERE job_id IN (SELECT value FROM json_each(?)) ORDER BY job_id, seq);

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

-- sql/verbs/imports.py awaited_among
SELECT json_group_array(json_array(awaits)) FROM (SELECT awaits
FROM (SELECT DISTINCT awaits FROM onbeat_waits
WHERE awaits IN (SELECT value FROM json_each(?))) AS awaited
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
INSERT INTO onbeat_finished (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, spec, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, progress, state, finished_at, last_attempt) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL;

-- sql/verbs/imports.py insert_live
INSERT INTO onbeat_jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, progress, cursor, suspicion, held) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING;

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
WHERE id < ? AND queue = ? AND lane = ? AND schedule_id = ? AND TRUE ORDER BY id DESC LIMIT ?)
) AS part0 UNION ALL SELECT * FROM (
SELECT record
FROM onbeat_ended_jobs
WHERE seq IN (SELECT seq FROM onbeat_finished
WHERE id < ? AND queue = ? AND lane = ? AND schedule_id = ? AND TRUE ORDER BY id DESC LIMIT ?)
) AS part1) AS chosen);

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
SELECT json_group_array(json_array(record)) FROM (SELECT record
FROM onbeat_ended_jobs
WHERE schedule_id = ?
ORDER BY due_at DESC, id DESC
LIMIT ? OFFSET ?
);

-- sql/verbs/jobs.py occurrence_jobs
SELECT json_group_array(json_array(record)) FROM (SELECT record
FROM onbeat_live_jobs
WHERE schedule_id = ?
ORDER BY due_at DESC, id DESC
LIMIT ? OFFSET ?
);

-- sql/verbs/jobs.py occurrence_jobs
SELECT json_group_array(json_array(total)) FROM (SELECT total FROM (SELECT count(*) AS total FROM onbeat_finished WHERE schedule_id = ?) AS counted);

-- sql/verbs/jobs.py occurrence_jobs
SELECT json_group_array(json_array(total)) FROM (SELECT total FROM (SELECT count(*) AS total FROM onbeat_jobs WHERE schedule_id = ?) AS counted);

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
INSERT INTO onbeat_jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, held) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT DO NOTHING;

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
INSERT INTO onbeat_queues (name, paused) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused;

-- sql/verbs/queues.py queue_names
SELECT json_group_array(json_array(name)) FROM (SELECT name FROM onbeat_queues ORDER BY name);

-- sql/verbs/queues.py store_buckets
INSERT INTO onbeat_meters (queue, grp, full_at) SELECT * FROM (VALUES (?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (queue, grp) DO UPDATE SET full_at = excluded.full_at;

-- sql/verbs/queues.py unnamed_queues
SELECT json_group_array(json_array(name)) FROM (SELECT name FROM onbeat_queues WHERE name IN (SELECT value FROM json_each(?)));

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

-- sql/verbs/schedules.py hold_schedules
SELECT json_group_array(json_array(id, status)) FROM (SELECT id, status
FROM onbeat_schedules
WHERE id IN (SELECT value FROM json_each(?))
ORDER BY id
);

-- sql/verbs/schedules.py insert_schedules
INSERT INTO onbeat_schedules (id, key, search, status, planned_through, plan_at, version, spec) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL;

-- sql/verbs/schedules.py insert_schedules
INSERT INTO onbeat_schedules (id, key, search, status, planned_through, plan_at, version, spec) SELECT * FROM (VALUES (?,?,?,?,?,?,?,?)) WHERE column1 IS NOT NULL ON CONFLICT (id) DO UPDATE SET key = excluded.key, search = excluded.search, status = excluded.status, planned_through = excluded.planned_through, plan_at = excluded.plan_at, version = excluded.version, spec = excluded.spec;

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
SET key = ?, search = ?, status = ?, version = ?, spec = ?
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

-- sql/verbs/workers.py forget_workers
DELETE FROM onbeat_workers
WHERE id IN (SELECT value FROM json_each(?))
AND NOT EXISTS (SELECT 1 FROM onbeat_jobs
WHERE worker = onbeat_workers.id AND state = 'running');

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
