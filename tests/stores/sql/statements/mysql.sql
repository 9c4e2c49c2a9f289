-- What `onbeat.stores.sql` composes for mysql, by file and function below
-- `src/onbeat/stores`. Values are `%s`, lists of values `IN %s`; of several rows one is shown.
-- Write this file anew: WRITE_STATEMENTS=1 .venv/bin/pytest tests/stores/sql/test_statements.py
-- See a plan: EXPLAIN, with '1' for `%s`, ('1') for a list, and 1 after LIMIT and OFFSET.

-- mysql/enqueue.py keep
UPDATE idempotency_keys FORCE INDEX (PRIMARY) SET answer = %s WHERE digest IN %s;

-- sql/verbs/access.py add_key
INSERT INTO api_keys (name, digest, record, used_at) VALUES (%s, %s, %s, %s)
ON DUPLICATE KEY UPDATE name = name;

-- sql/verbs/access.py audit
SELECT record FROM audit WHERE TRUE AND actor = %s AND action = %s AND object = %s AND at >= %s AND at < %s AND id < %s ORDER BY id DESC LIMIT %s;

-- sql/verbs/access.py audit
SELECT record FROM audit WHERE TRUE ORDER BY id DESC LIMIT %s;

-- sql/verbs/access.py keys
SELECT record, used_at FROM api_keys ORDER BY name;

-- sql/verbs/access.py note_key_use
UPDATE api_keys SET used_at = %s
WHERE name = %s AND (used_at IS NULL OR used_at < %s);

-- sql/verbs/access.py prune_audit
DELETE FROM audit WHERE at < %s ORDER BY at LIMIT %s;

-- sql/verbs/access.py put_audit
INSERT INTO audit (id, at, actor, action, object, record) VALUES (%s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE object = VALUES(object), record = VALUES(record);

-- sql/verbs/access.py remove_key
DELETE FROM api_keys WHERE name = %s;

-- sql/verbs/access.py replace_targets
SELECT id, spec
FROM finished WHERE id IN %s ORDER BY id FOR UPDATE;

-- sql/verbs/access.py replace_targets
SELECT id, spec
FROM jobs WHERE id IN %s ORDER BY id FOR UPDATE;

-- sql/verbs/access.py replace_targets
SELECT id, spec
FROM schedules WHERE id IN %s ORDER BY id FOR UPDATE;

-- sql/verbs/access.py replace_targets
UPDATE finished FORCE INDEX (PRIMARY) SET spec = %s WHERE id IN %s;

-- sql/verbs/access.py replace_targets
UPDATE jobs FORCE INDEX (PRIMARY) SET spec = %s WHERE id IN %s;

-- sql/verbs/access.py replace_targets
UPDATE schedules FORCE INDEX (PRIMARY) SET spec = %s WHERE id IN %s;

-- sql/verbs/access.py secret
INSERT INTO secrets (name, value) VALUES ('tokens', %s)
ON DUPLICATE KEY UPDATE name = name;

-- sql/verbs/access.py stored_secret
SELECT value FROM secrets WHERE name = 'tokens';

-- sql/verbs/access.py stored_secret
SELECT value FROM secrets WHERE name = 'tokens' FOR UPDATE;

-- sql/verbs/cancel_and_retry.py lock_unsuccessful
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress
FROM finished FORCE INDEX (PRIMARY)
WHERE id IN %s AND state IN ('failed', 'cancelled')
ORDER BY id
FOR UPDATE;

-- sql/verbs/cancel_and_retry.py move_back
INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, token, started_at, held, blocked_by) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE id = id;

-- sql/verbs/counts.py count_ended
SELECT state, total FROM (SELECT state, count(*) AS total FROM finished FORCE INDEX (finished_by_end) GROUP BY state) AS counted;

-- sql/verbs/counts.py count_live
SELECT queue, lane, waiting, due, oldest, running FROM (
SELECT SUBSTR(line, 4, LEFT(line, 3)) AS queue, SUBSTR(line, 10 + LEFT(line, 3)) AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= %s THEN 1 END) AS due, min(due_at) AS oldest, 0 AS running
FROM jobs FORCE INDEX (jobs_due) WHERE line IS NOT NULL
GROUP BY line
UNION ALL
SELECT queue AS queue, lane AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= %s AND blocked_by = 0 THEN 1 END) AS due, min(CASE WHEN blocked_by = 0 THEN due_at END) AS oldest, 0 AS running
FROM jobs FORCE INDEX (jobs_due) WHERE line IS NULL AND running = 0
GROUP BY queue, lane
UNION ALL
SELECT queue, NULL, 0, 0, NULL, count(*)
FROM jobs FORCE INDEX (jobs_running) WHERE worker IS NOT NULL
GROUP BY queue
) AS counted;

-- sql/verbs/counts.py queues
SELECT name, paused, limits FROM queues FORCE INDEX (queues_apart) WHERE apart = 1;

-- sql/verbs/counts.py stats
SELECT record FROM workers;

-- sql/verbs/counts.py stats
SELECT status, total FROM (SELECT status, count(*) AS total FROM schedules GROUP BY status) AS counted;

-- sql/verbs/dead_letters.py add_dead_letters
INSERT INTO dead_letters (id, at, source, reason, body, headers) VALUES (%s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE id = id;

-- sql/verbs/dead_letters.py dead_letters
SELECT id, at, source, reason, body, headers
FROM dead_letters FORCE INDEX (PRIMARY)
WHERE TRUE
ORDER BY id DESC
LIMIT %s;

-- sql/verbs/dead_letters.py dead_letters
SELECT id, at, source, reason, body, headers
FROM dead_letters FORCE INDEX (dead_letters_of_source)
WHERE TRUE AND id < %s AND source = %s
ORDER BY id DESC
LIMIT %s;

-- sql/verbs/dead_letters.py dead_letters_by_id
SELECT id, at, source, reason, body, headers FROM dead_letters WHERE id IN %s;

-- sql/verbs/dead_letters.py delete_dead_letters
DELETE dead_letters FROM dead_letters FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/dependents.py add_waits
INSERT INTO waits (awaits, job_id, any_end) VALUES (%s, %s, %s);

-- sql/verbs/dependents.py cascade
INSERT INTO cascades (job_id, state) VALUES (%s, %s) ON DUPLICATE KEY UPDATE state = VALUES(state);

-- sql/verbs/dependents.py delete_waits
DELETE waits FROM waits FORCE INDEX (waits_of_job) WHERE job_id IN %s;

-- sql/verbs/dependents.py free
DELETE waits FROM waits FORCE INDEX (PRIMARY) WHERE awaits = %s AND job_id IN %s;

-- sql/verbs/dependents.py has_cascades
SELECT job_id FROM cascades LIMIT 1;

-- sql/verbs/dependents.py lock_ended
SELECT id FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s ORDER BY id FOR UPDATE;

-- sql/verbs/dependents.py lock_ended
SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/dependents.py lock_jobs
SELECT id, worker, blocked_by
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py lock_waiting
SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s AND running = 0
AND (token = 0 OR start_by IS NOT NULL)
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py lock_waiting
SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s AND running = 0
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py move_cancelled
INSERT INTO finished (id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec, state, finished_at, reason) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- sql/verbs/dependents.py rewrite_waits
UPDATE jobs FORCE INDEX (PRIMARY) SET blocked_by = %s WHERE id IN %s;

-- sql/verbs/dependents.py states_of_ended
SELECT id, state FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/dependents.py stored_waits
SELECT job_id, awaits FROM waits FORCE INDEX (waits_of_job) WHERE job_id IN %s;

-- sql/verbs/dependents.py take_cascades
DELETE FROM cascades WHERE job_id IN %s;

-- sql/verbs/dependents.py take_cascades
SELECT job_id, state FROM cascades LIMIT %s FOR UPDATE SKIP LOCKED;

-- sql/verbs/dependents.py waits_for
SELECT job_id, awaits, any_end
FROM waits FORCE INDEX (PRIMARY)
WHERE awaits IN %s
LIMIT %s;

-- sql/verbs/dispositions.py add_dispositions
(SELECT schedule_id, first, last FROM dispositions WHERE schedule_id = %s AND last >= %s AND first <= %s);

-- sql/verbs/dispositions.py dispositions
SELECT schedule_id, first, last, job_id, reason
FROM dispositions
WHERE schedule_id = %s AND last >= %s AND first <= %s
ORDER BY last;

-- sql/verbs/dispositions.py export_dispositions
SELECT schedule_id, first, last, job_id, reason FROM dispositions FORCE INDEX (PRIMARY) WHERE TRUE ORDER BY schedule_id, last LIMIT %s;

-- sql/verbs/dispositions.py export_dispositions
SELECT schedule_id, first, last, job_id, reason FROM dispositions FORCE INDEX (PRIMARY) WHERE schedule_id = %s AND last > %s AND first > %s ORDER BY last LIMIT %s;

-- sql/verbs/dispositions.py export_dispositions
SELECT schedule_id, first, last, job_id, reason FROM dispositions FORCE INDEX (PRIMARY) WHERE schedule_id > %s ORDER BY schedule_id, last LIMIT %s;

-- sql/verbs/dispositions.py forget_dispositions_after
DELETE FROM dispositions WHERE schedule_id = %s AND first > %s AND (job_id IS NULL OR job_id IN %s);

-- sql/verbs/dispositions.py forget_dispositions_after
DELETE FROM dispositions WHERE schedule_id = %s AND first > %s AND TRUE;

-- sql/verbs/dispositions.py forget_dispositions_after
UPDATE dispositions SET last = %s WHERE schedule_id = %s AND first <= %s AND last > %s;

-- sql/verbs/dispositions.py free_instant
DELETE dispositions FROM dispositions FORCE INDEX (PRIMARY) WHERE schedule_id = %s AND last IN %s;

-- sql/verbs/dispositions.py free_instant
SELECT first, last, job_id, reason FROM dispositions WHERE schedule_id = %s AND last >= %s ORDER BY last LIMIT 1;

-- sql/verbs/dispositions.py insert_dispositions
INSERT INTO dispositions (schedule_id, first, last, job_id, reason) VALUES (%s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE schedule_id = schedule_id;

-- sql/verbs/dispositions.py replace_skips
DELETE FROM dispositions
WHERE schedule_id = %s AND job_id IS NULL AND first <= %s AND last >= %s;

-- sql/verbs/edit_schedules.py delete_schedule
DELETE FROM schedules WHERE id = %s;

-- sql/verbs/edit_schedules.py follow
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by, worker,
lease_until, started_at, NULL AS finished_at, progress
FROM jobs FORCE INDEX (jobs_of_schedule)
WHERE schedule_id = %s AND running = 0
ORDER BY id
FOR UPDATE;

-- sql/verbs/edit_schedules.py follow
UPDATE jobs FORCE INDEX (PRIMARY) SET queue = %s, priority = %s, lane = %s, overlap = %s, spec = %s WHERE id IN %s;

-- sql/verbs/edit_schedules.py forget_after
SELECT id
FROM jobs FORCE INDEX (jobs_of_schedule)
WHERE schedule_id = %s AND occurrence > %s AND running = 0
AND (token = 0 OR start_by IS NOT NULL);

-- sql/verbs/edit_schedules.py forget_after
UPDATE schedules SET planned_through = %s WHERE id = %s AND planned_through > %s;

-- sql/verbs/edit_schedules.py hold_jobs
UPDATE jobs FORCE INDEX (jobs_of_schedule) SET held = %s
WHERE schedule_id IN %s AND held <> %s;

-- sql/verbs/edit_schedules.py lock_jobs_of
SELECT id
FROM jobs FORCE INDEX (jobs_of_schedule)
WHERE schedule_id = %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/enqueue.py keep_places
UPDATE jobs FORCE INDEX (PRIMARY) SET cursor_text = %s, progress = %s WHERE id IN %s;

-- sql/verbs/enqueue.py lock_senders
SELECT id, token, cursor_text, progress
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s AND worker IS NOT NULL
ORDER BY id
FOR UPDATE;

-- sql/verbs/history.py add_attempts
INSERT INTO attempts (job_id, token, record) VALUES (%s, %s, %s) ON DUPLICATE KEY UPDATE job_id = job_id;

-- sql/verbs/history.py add_transitions
INSERT INTO transitions (job_id, at, went, cause, attempt, worker) VALUES (%s, %s, %s, %s, %s, %s);

-- sql/verbs/history.py attempts_of
SELECT record
FROM (SELECT job_id, token, record FROM attempts FORCE INDEX (PRIMARY)
WHERE job_id IN %s
UNION ALL
SELECT id, token, last_attempt FROM finished FORCE INDEX (PRIMARY)
WHERE id IN %s AND last_attempt IS NOT NULL) AS all_attempts
ORDER BY job_id, token;

-- sql/verbs/history.py delete_histories
DELETE attempts FROM attempts FORCE INDEX (PRIMARY) WHERE job_id IN %s;

-- sql/verbs/history.py delete_histories
DELETE transitions FROM transitions FORCE INDEX (transitions_of_job) WHERE job_id IN %s;

-- sql/verbs/history.py transitions_of
SELECT job_id, at, went, cause, attempt, worker FROM transitions WHERE job_id IN %s ORDER BY job_id, seq;

-- sql/verbs/idempotency.py forget_requests
DELETE idempotency_keys FROM idempotency_keys FORCE INDEX (PRIMARY) WHERE digest IN %s;

-- sql/verbs/idempotency.py forget_requests
SELECT digest, is_live
FROM (SELECT digest AS digest,
EXISTS (SELECT 1 FROM jobs FORCE INDEX (PRIMARY)
WHERE id BETWEEN first_job AND last_job) AS is_live
FROM idempotency_keys FORCE INDEX (idempotency_keys_by_age)
WHERE kept_from < %s
ORDER BY kept_from
LIMIT %s
FOR UPDATE SKIP LOCKED) AS past;

-- sql/verbs/idempotency.py forget_requests
UPDATE idempotency_keys FORCE INDEX (PRIMARY) SET kept_from = %s WHERE digest IN %s;

-- sql/verbs/idempotency.py insert_requests
INSERT INTO idempotency_keys (digest, fingerprint, made_at, kept_from, first_job, last_job, answer) VALUES (%s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE digest = digest;

-- sql/verbs/idempotency.py keyed_answers
SELECT digest, fingerprint, made_at, answer
FROM (SELECT digest AS digest,
fingerprint AS fingerprint,
made_at,
answer AS answer
FROM idempotency_keys FORCE INDEX (PRIMARY)
WHERE digest IN %s) AS known;

-- sql/verbs/imports.py awaited_among
SELECT awaits
FROM (SELECT DISTINCT awaits FROM waits FORCE INDEX (PRIMARY)
WHERE awaits IN %s) AS awaited;

-- sql/verbs/imports.py forget_planned
DELETE FROM dispositions
WHERE schedule_id IN %s
AND NOT EXISTS (SELECT 1 FROM jobs
WHERE jobs.id = job_id AND token > 0)
AND NOT EXISTS (SELECT 1 FROM finished
WHERE finished.id = job_id AND token > 0);

-- sql/verbs/imports.py forget_planned
SELECT id
FROM jobs FORCE INDEX (jobs_of_schedule)
WHERE schedule_id IN %s AND occurrence IS NOT NULL AND running = 0 AND token = 0
AND NOT EXISTS (SELECT 1 FROM waits WHERE awaits = jobs.id)
ORDER BY id
FOR UPDATE;

-- sql/verbs/imports.py free_keys
SELECT name_key FROM schedules WHERE name_key IN %s;

-- sql/verbs/imports.py free_keys
UPDATE schedules FORCE INDEX (PRIMARY) SET name_key = %s WHERE id IN %s;

-- sql/verbs/imports.py insert_ended
INSERT INTO finished (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, spec, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, progress, state, finished_at, last_attempt) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- sql/verbs/imports.py insert_live
INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, progress, cursor_text, suspicion, held) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE id = id;

-- sql/verbs/imports.py lock_exports
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress
FROM finished FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/imports.py lock_exports
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by, worker,
lease_until, started_at, NULL AS finished_at, progress
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/jobs.py delete_ended
DELETE finished FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/jobs.py delete_live
DELETE jobs FROM jobs FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/jobs.py export_jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by, worker,
lease_until, started_at, NULL AS finished_at, progress
FROM jobs FORCE INDEX (PRIMARY) WHERE TRUE ORDER BY id LIMIT %s
) AS part0 UNION ALL SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress
FROM finished FORCE INDEX (PRIMARY) WHERE TRUE ORDER BY id LIMIT %s
) AS part1) AS chosen;

-- sql/verbs/jobs.py export_jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by, worker,
lease_until, started_at, NULL AS finished_at, progress
FROM jobs FORCE INDEX (PRIMARY) WHERE id > %s ORDER BY id LIMIT %s
) AS part0 UNION ALL SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress
FROM finished FORCE INDEX (PRIMARY) WHERE id > %s ORDER BY id LIMIT %s
) AS part1) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress
FROM finished FORCE INDEX (PRIMARY) WHERE state = 'succeeded' ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress
FROM finished FORCE INDEX (finished_badly) WHERE bad_state = 'cancelled' ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress
FROM finished FORCE INDEX (finished_badly) WHERE bad_state = 'failed' ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by, worker,
lease_until, started_at, NULL AS finished_at, progress
FROM jobs FORCE INDEX (PRIMARY) WHERE TRUE ORDER BY id DESC LIMIT %s
) AS part0 UNION ALL SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress
FROM finished FORCE INDEX (PRIMARY) WHERE TRUE ORDER BY id DESC LIMIT %s
) AS part1) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by, worker,
lease_until, started_at, NULL AS finished_at, progress
FROM jobs FORCE INDEX (PRIMARY) WHERE running = 0 ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by, worker,
lease_until, started_at, NULL AS finished_at, progress
FROM jobs FORCE INDEX (jobs_of_schedule) WHERE id < %s AND queue = %s AND lane = %s AND schedule_id = %s AND TRUE ORDER BY id DESC LIMIT %s
) AS part0 UNION ALL SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress
FROM finished FORCE INDEX (finished_of_schedule) WHERE id < %s AND queue = %s AND lane = %s AND schedule_id = %s AND TRUE ORDER BY id DESC LIMIT %s
) AS part1) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by, worker,
lease_until, started_at, NULL AS finished_at, progress
FROM jobs FORCE INDEX (jobs_running) WHERE running = 1 AND worker IS NOT NULL ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs_by_id
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by, worker,
lease_until, started_at, NULL AS finished_at, progress
FROM jobs FORCE INDEX (PRIMARY) WHERE id IN %s
UNION ALL
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress
FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/jobs.py occurrence_jobs
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress
FROM finished FORCE INDEX (finished_of_schedule)
WHERE schedule_id = %s
ORDER BY due_at DESC, id DESC
LIMIT %s OFFSET %s;

-- sql/verbs/jobs.py occurrence_jobs
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by, worker,
lease_until, started_at, NULL AS finished_at, progress
FROM jobs FORCE INDEX (jobs_of_schedule)
WHERE schedule_id = %s
ORDER BY due_at DESC, id DESC
LIMIT %s OFFSET %s;

-- sql/verbs/jobs.py occurrence_jobs
SELECT total FROM (SELECT count(*) AS total FROM finished WHERE schedule_id = %s) AS counted;

-- sql/verbs/jobs.py occurrence_jobs
SELECT total FROM (SELECT count(*) AS total FROM jobs WHERE schedule_id = %s) AS counted;

-- sql/verbs/overlap.py ask_to_stop
SELECT id, attempt, worker
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s AND worker IS NOT NULL AND cancel_reason IS NULL
ORDER BY id
FOR UPDATE;

-- sql/verbs/overlap.py ask_to_stop
UPDATE jobs FORCE INDEX (PRIMARY) SET cancel_reason = %s WHERE id IN %s;

-- sql/verbs/overlap.py find_earlier
SELECT id, worker
FROM jobs FORCE INDEX (jobs_of_schedule)
WHERE schedule_id = %s AND id <> %s AND (worker IS NOT NULL
OR token > 0
OR (due_at < %s OR due_at = %s AND id < %s) AND (start_by IS NULL OR start_by >= %s)
)
ORDER BY CASE WHEN worker IS NOT NULL THEN 0 ELSE 1 END, due_at DESC, id DESC;

-- sql/verbs/plans.py allow_late
SELECT id, start_by, attempt, worker
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s
AND running = 0 AND start_by IS NOT NULL
ORDER BY id
FOR UPDATE;

-- sql/verbs/plans.py allow_late
UPDATE jobs FORCE INDEX (PRIMARY) SET start_by = %s, lapsed = %s WHERE id IN %s;

-- sql/verbs/plans.py drop_planned
SELECT id, schedule_id, occurrence, start_by, due_at FROM jobs WHERE id IN %s ORDER BY id;

-- sql/verbs/plans.py insert_jobs
INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, held) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE id = id;

-- sql/verbs/plans.py insert_jobs
SELECT id FROM finished WHERE id IN %s;

-- sql/verbs/plans.py raise_watermarks
UPDATE schedules FORCE INDEX (PRIMARY) SET planned_through = %s, plan_at = %s, status = %s WHERE id IN %s;

-- sql/verbs/plans.py turn_into_skip
UPDATE dispositions SET job_id = NULL, reason = %s
WHERE schedule_id = %s AND last = %s AND job_id = %s;

-- sql/verbs/prune.py delete_jobs
DELETE finished FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/prune.py delete_jobs
SELECT id
FROM finished FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/prune.py overdue_jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by, worker,
lease_until, started_at, NULL AS finished_at, progress
FROM jobs FORCE INDEX (jobs_bounded) WHERE lapsed = TRUE AND bound_by < %s AND bound_by IS NOT NULL AND running = 0 ORDER BY bound_by LIMIT %s
) AS part0 UNION ALL SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by, worker,
lease_until, started_at, NULL AS finished_at, progress
FROM jobs FORCE INDEX (jobs_bounded) WHERE lapsed = FALSE AND bound_by < %s AND bound_by IS NOT NULL AND running = 0 ORDER BY bound_by LIMIT %s
) AS part1) AS chosen;

-- sql/verbs/prune.py past_jobs
SELECT id FROM (
SELECT * FROM (SELECT id, finished_at FROM finished FORCE INDEX (finished_by_end)
WHERE state = 'succeeded' AND finished_at < %s
ORDER BY finished_at
LIMIT %s) AS succeeded
UNION ALL
SELECT * FROM (SELECT id, finished_at FROM finished FORCE INDEX (finished_by_end)
WHERE state = 'cancelled' AND finished_at < %s
ORDER BY finished_at
LIMIT %s) AS cancelled
UNION ALL
SELECT * FROM (SELECT id, finished_at FROM finished FORCE INDEX (finished_by_end)
WHERE state = 'failed' AND finished_at < %s
ORDER BY finished_at
LIMIT %s) AS failed
) AS past ORDER BY finished_at, id LIMIT %s;

-- sql/verbs/prune.py prune_dead_letters
SELECT id FROM dead_letters FORCE INDEX (dead_letters_by_age) WHERE at < %s ORDER BY at LIMIT %s;

-- sql/verbs/prune.py prune_dispositions
DELETE dispositions FROM dispositions FORCE INDEX (PRIMARY) WHERE schedule_id = %s AND last IN %s;

-- sql/verbs/prune.py prune_dispositions
SELECT schedule_id, last
FROM dispositions FORCE INDEX (dispositions_by_age)
WHERE last < %s
AND (job_id IS NULL
OR NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id))
ORDER BY last
LIMIT %s
FOR UPDATE SKIP LOCKED;

-- sql/verbs/prune.py prune_meters
DELETE meters FROM meters FORCE INDEX (PRIMARY) WHERE queue = %s AND grp IN %s;

-- sql/verbs/prune.py prune_meters
SELECT queue, grp
FROM meters FORCE INDEX (meters_full)
WHERE full_at < %s
LIMIT %s
FOR UPDATE SKIP LOCKED;

-- sql/verbs/queues.py limit_queue
DELETE FROM meters WHERE queue = %s AND grp = '';

-- sql/verbs/queues.py limit_queue
DELETE FROM meters WHERE queue = %s AND grp > '';

-- sql/verbs/queues.py limit_queue
DELETE FROM turns WHERE queue = %s;

-- sql/verbs/queues.py limit_queue
UPDATE queues SET limits = %s WHERE name = %s;

-- sql/verbs/queues.py lock_limits
SELECT limits FROM queues WHERE name = %s FOR UPDATE;

-- sql/verbs/queues.py name_queues
INSERT INTO queues (name, paused) VALUES (%s, %s) ON DUPLICATE KEY UPDATE name = name;

-- sql/verbs/queues.py pause_queue
INSERT INTO queues (name, paused) VALUES (%s, %s)
ON DUPLICATE KEY UPDATE paused = VALUES(paused);

-- sql/verbs/queues.py queue_names
SELECT name FROM queues ORDER BY name;

-- sql/verbs/queues.py store_buckets
INSERT INTO meters (queue, grp, full_at) VALUES (%s, %s, %s) ON DUPLICATE KEY UPDATE full_at = VALUES(full_at);

-- sql/verbs/queues.py unnamed_queues
SELECT name FROM queues WHERE name IN %s;

-- sql/verbs/schedules.py due_schedules
SELECT id, name_key, status, planned_through, plan_at, version, spec
FROM schedules FORCE INDEX (schedules_due)
WHERE status = 'active' AND plan_at IS NOT NULL AND plan_at <= %s
ORDER BY plan_at
LIMIT %s;

-- sql/verbs/schedules.py export_schedules
SELECT id, name_key, status, planned_through, plan_at, version, spec FROM schedules WHERE TRUE ORDER BY id LIMIT %s;

-- sql/verbs/schedules.py export_schedules
SELECT id, name_key, status, planned_through, plan_at, version, spec FROM schedules WHERE id > %s ORDER BY id LIMIT %s;

-- sql/verbs/schedules.py hold_schedules
SELECT id, status
FROM schedules FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
LOCK IN SHARE MODE;

-- sql/verbs/schedules.py insert_schedules
INSERT INTO schedules (id, name_key, search, status, planned_through, plan_at, version, spec) VALUES (%s, %s, %s, %s, %s, %s, %s, %s);

-- sql/verbs/schedules.py insert_schedules
INSERT INTO schedules (id, name_key, search, status, planned_through, plan_at, version, spec) VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE name_key = VALUES(name_key), search = VALUES(search), status = VALUES(status), planned_through = VALUES(planned_through), plan_at = VALUES(plan_at), version = VALUES(version), spec = VALUES(spec);

-- sql/verbs/schedules.py lock_schedules
SELECT id, name_key, status, planned_through, plan_at, version, spec
FROM schedules FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/schedules.py lock_watermarks
SELECT id, version, status, planned_through, plan_at
FROM schedules FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/schedules.py next_plan_at
SELECT plan_at
FROM schedules FORCE INDEX (schedules_due)
WHERE status = 'active' AND plan_at IS NOT NULL
ORDER BY plan_at
LIMIT 1;

-- sql/verbs/schedules.py refuse_taken_key
SELECT id FROM schedules WHERE name_key = %s AND id <> %s;

-- sql/verbs/schedules.py rewrite_schedule
UPDATE schedules
SET name_key = %s, search = %s, status = %s, version = %s, spec = %s
WHERE id = %s;

-- sql/verbs/schedules.py schedule_by_key
SELECT id, name_key, status, planned_through, plan_at, version, spec FROM schedules WHERE name_key = %s;

-- sql/verbs/schedules.py schedules
SELECT id, name_key, status, planned_through, plan_at, version, spec
FROM schedules FORCE INDEX (PRIMARY)
WHERE TRUE
ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/schedules.py schedules
SELECT id, name_key, status, planned_through, plan_at, version, spec
FROM schedules FORCE INDEX (PRIMARY)
WHERE TRUE AND status = %s AND instr(search, %s) > 0
ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/schedules.py schedules
SELECT total FROM (SELECT count(*) AS total
FROM schedules FORCE INDEX (PRIMARY)
WHERE TRUE
) AS counted;

-- sql/verbs/schedules.py schedules
SELECT total FROM (SELECT count(*) AS total
FROM schedules FORCE INDEX (PRIMARY)
WHERE TRUE AND status = %s AND instr(search, %s) > 0
) AS counted;

-- sql/verbs/schedules.py schedules_by_id
SELECT id, name_key, status, planned_through, plan_at, version, spec FROM schedules WHERE id IN %s;

-- sql/verbs/workers.py forget_workers
DELETE FROM workers
WHERE id IN %s
AND NOT EXISTS (SELECT 1 FROM jobs
WHERE worker = workers.id AND worker IS NOT NULL);

-- sql/verbs/workers.py heartbeat
INSERT INTO workers (id, record) VALUES (%s, %s)
ON DUPLICATE KEY UPDATE record = VALUES(record);

-- sql/verbs/workers.py held_leases
SELECT id, token, cancel_reason
FROM jobs FORCE INDEX (jobs_running)
WHERE worker = %s AND worker IS NOT NULL
ORDER BY id;

-- sql/verbs/workers.py rewrite_workers
UPDATE workers SET record = IF(RIGHT(record, 1) = ' ', RTRIM(record), CONCAT(record, ' ')) WHERE id IN %s;

-- sql/verbs/workers.py workers
SELECT record, running
FROM (SELECT id, record,
(SELECT count(*) FROM jobs FORCE INDEX (jobs_running)
WHERE worker = workers.id AND worker IS NOT NULL) AS running
FROM workers) AS counted
ORDER BY id;
