-- What `onbeat.stores.sql` composes for mysql, by file and function below
-- `src/onbeat/stores`. Values are `%s`, lists of values `IN %s`; of several rows one is shown.
-- Write this file anew: WRITE_STATEMENTS=1 .venv/bin/pytest tests/stores/sql/test_statements.py
-- See a plan: EXPLAIN, with '1' for `%s`, ('1') for a list, and 1 after LIMIT and OFFSET.

-- mysql/enqueue.py keep
UPDATE idempotency_keys FORCE INDEX (PRIMARY) SET answer = %s WHERE digest IN %s;

-- sql/verbs/access.py add_key
INSERT INTO api_keys (name, digest, record, used_at) VALUES (%s, %s, %s, %s)
ON DUPLICATE KEY UPDATE name = name;

-- sql/verbs/access.py add_value
INSERT INTO secrets (name, value) VALUES ('cells', %s)
ON DUPLICATE KEY UPDATE name = name;

-- sql/verbs/access.py add_value
INSERT INTO secrets (name, value) VALUES ('tokens', %s)
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

-- sql/verbs/access.py note_map_version
UPDATE secrets SET value = %s WHERE name = %s;

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

-- sql/verbs/access.py stored_value
SELECT value FROM secrets WHERE name = 'cells';

-- sql/verbs/access.py stored_value
SELECT value FROM secrets WHERE name = 'cells' FOR UPDATE;

-- sql/verbs/access.py stored_value
SELECT value FROM secrets WHERE name = 'tokens';

-- sql/verbs/access.py stored_value
SELECT value FROM secrets WHERE name = 'tokens' FOR UPDATE;

-- sql/verbs/alerts.py add_silence
INSERT INTO silences (id, until_at, record) VALUES (%s, %s, %s);

-- sql/verbs/alerts.py alerts
SELECT record, since, seen_at, ended_at, is_announced, times FROM alerts WHERE ended_at IS NOT NULL ORDER BY since DESC, name LIMIT %s;

-- sql/verbs/alerts.py alerts
SELECT record, since, seen_at, ended_at, is_announced, times FROM alerts WHERE ended_at IS NULL ORDER BY since DESC, name LIMIT %s;

-- sql/verbs/alerts.py end_silence
DELETE FROM silences WHERE id = %s;

-- sql/verbs/alerts.py note_announced
UPDATE alerts SET is_announced = TRUE
WHERE name = %s AND is_announced = FALSE AND ended_at IS NULL;

-- sql/verbs/alerts.py note_ended
UPDATE alerts SET ended_at = %s
WHERE name = %s AND ended_at IS NULL AND seen_at <= %s;

-- sql/verbs/alerts.py note_seen
INSERT INTO alerts (name, since, seen_at, ended_at, is_announced, record)
VALUES (%s, %s, %s, NULL, FALSE, %s)
ON DUPLICATE KEY UPDATE name = name;

-- sql/verbs/alerts.py note_seen
UPDATE alerts
SET since = %s, seen_at = %s, ended_at = NULL, is_announced = FALSE, record = %s,
times = times + 1
WHERE name = %s AND ended_at IS NOT NULL;

-- sql/verbs/alerts.py note_seen
UPDATE alerts SET seen_at = %s, record = %s WHERE name = %s AND seen_at < %s;

-- sql/verbs/alerts.py prune_alerts
DELETE FROM alerts WHERE ended_at < %s ORDER BY ended_at LIMIT %s;

-- sql/verbs/alerts.py prune_alerts
DELETE FROM silences WHERE until_at < %s ORDER BY until_at LIMIT %s;

-- sql/verbs/alerts.py silences
SELECT record FROM silences WHERE until_at > %s ORDER BY until_at, id;

-- sql/verbs/bulks.py add_bulk
SELECT id FROM (SELECT id FROM bulks WHERE next_at IS NOT NULL LIMIT %s) AS unfinished;

-- sql/verbs/bulks.py bulks
SELECT record FROM bulks WHERE TRUE ORDER BY id DESC LIMIT %s;

-- sql/verbs/bulks.py bulks
SELECT record FROM bulks WHERE id < %s ORDER BY id DESC LIMIT %s;

-- sql/verbs/bulks.py one_bulk
SELECT record FROM bulks WHERE id = %s;

-- sql/verbs/bulks.py one_bulk
SELECT record FROM bulks WHERE id = %s FOR UPDATE;

-- sql/verbs/bulks.py one_bulk
SELECT record FROM bulks WHERE next_at IS NOT NULL ORDER BY next_at, id LIMIT 1;

-- sql/verbs/bulks.py prune_bulks
DELETE FROM bulks WHERE finished_at < %s ORDER BY finished_at LIMIT %s;

-- sql/verbs/bulks.py put_bulk
INSERT INTO bulks (id, next_at, finished_at, record) VALUES (%s, %s, %s, %s)
ON DUPLICATE KEY UPDATE next_at = VALUES(next_at), finished_at = VALUES(finished_at), record = VALUES(record);

-- sql/verbs/cancel_and_retry.py caused_by
SELECT id
FROM finished FORCE INDEX (finished_by_cause)
WHERE cause_id IN %s AND cancel_reason IS NULL
LIMIT %s;

-- sql/verbs/cancel_and_retry.py change_causes
UPDATE finished FORCE INDEX (PRIMARY) SET reason = %s, cause_id = %s WHERE id IN %s;

-- sql/verbs/cancel_and_retry.py confirm_cancelled
UPDATE finished FORCE INDEX (PRIMARY) SET cancel_reason = %s WHERE id IN %s;

-- sql/verbs/cancel_and_retry.py forget_causes
UPDATE finished FORCE INDEX (PRIMARY) SET cause_id = %s WHERE id IN %s;

-- sql/verbs/cancel_and_retry.py lock_unsuccessful
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress, cause_id
FROM finished FORCE INDEX (PRIMARY)
WHERE id IN %s AND state IN ('failed', 'cancelled')
ORDER BY id
FOR UPDATE;

-- sql/verbs/cancel_and_retry.py move_back
INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, token, started_at, fault, held, blocked_by) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE id = id;

-- sql/verbs/cascades.py has_cascades
SELECT job_id FROM cascades LIMIT 1;

-- sql/verbs/cascades.py lock_ended
SELECT id FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s ORDER BY id FOR UPDATE;

-- sql/verbs/cascades.py lock_ended
SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/cascades.py take_cascades
DELETE FROM cascades WHERE job_id IN %s;

-- sql/verbs/cascades.py take_cascades
SELECT job_id, state FROM cascades LIMIT %s FOR UPDATE SKIP LOCKED;

-- sql/verbs/counts.py count_by_state
SELECT state, total FROM (SELECT state, count(*) AS total FROM finished FORCE INDEX (finished_by_end) GROUP BY state) AS counted;

-- sql/verbs/counts.py group_depths
SELECT grp FROM jobs FORCE INDEX (jobs_due) WHERE line > %s AND line < %s AND line IS NOT NULL LIMIT %s;

-- sql/verbs/counts.py group_depths
SELECT grp FROM jobs FORCE INDEX (jobs_running) WHERE worker IS NOT NULL AND queue = %s LIMIT %s;

-- sql/verbs/counts.py group_depths
SELECT grp, turn FROM turns WHERE queue = %s ORDER BY turn DESC LIMIT %s;

-- sql/verbs/counts.py queues
SELECT name, paused, limits, pause FROM queues FORCE INDEX (queues_apart) WHERE apart = 1;

-- sql/verbs/counts.py select_counts
SELECT queue, lane, waiting, due, oldest, running, blocked FROM (
SELECT SUBSTR(line, 4, LEFT(line, 3)) AS queue, SUBSTR(line, 10 + LEFT(line, 3)) AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= %s THEN 1 END) AS due, min(due_at) AS oldest, 0 AS running,
0 AS blocked
FROM jobs FORCE INDEX (jobs_due) WHERE line IS NOT NULL
GROUP BY line
UNION ALL
SELECT queue AS queue, lane AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= %s AND blocked_by = 0 THEN 1 END) AS due, min(CASE WHEN blocked_by = 0 THEN due_at END) AS oldest, 0 AS running,
count(CASE WHEN blocked_by > 0 THEN 1 END) AS blocked
FROM jobs FORCE INDEX (jobs_due) WHERE line IS NULL AND running = 0
GROUP BY queue, lane
UNION ALL
SELECT queue, NULL AS lane, 0 AS waiting, 0 AS due, NULL AS oldest, count(*) AS running,
0 AS blocked
FROM jobs FORCE INDEX (jobs_running) WHERE worker IS NOT NULL
GROUP BY queue
) AS counted;

-- sql/verbs/counts.py select_counts
SELECT queue, lane, waiting, due, oldest, running, blocked FROM (
SELECT queue, NULL AS lane, 0 AS waiting, 0 AS due, NULL AS oldest, count(*) AS running,
0 AS blocked
FROM jobs FORCE INDEX (jobs_running) WHERE worker IS NOT NULL
GROUP BY queue
) AS counted;

-- sql/verbs/counts.py stats
SELECT record FROM workers;

-- sql/verbs/counts.py stats
SELECT status, total FROM (SELECT status, count(*) AS total FROM schedules GROUP BY status) AS counted;

-- sql/verbs/counts.py watched
SELECT name, paused, late_after FROM queues FORCE INDEX (queues_watched) WHERE late_after IS NOT NULL;

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

-- sql/verbs/dependents.py add_cascades
INSERT INTO cascades (job_id, state) VALUES (%s, %s) ON DUPLICATE KEY UPDATE state = VALUES(state);

-- sql/verbs/dependents.py awaited_among
SELECT awaits
FROM (SELECT DISTINCT awaits FROM waits FORCE INDEX (PRIMARY)
WHERE awaits IN %s) AS awaited;

-- sql/verbs/dependents.py delete_waits
DELETE waits FROM waits FORCE INDEX (waits_of_job) WHERE job_id IN %s;

-- sql/verbs/dependents.py free
DELETE waits FROM waits FORCE INDEX (PRIMARY) WHERE awaits = %s AND job_id IN %s;

-- sql/verbs/dependents.py insert_flow_waits
INSERT INTO flow_waits (flow, job_id, wanted) VALUES (%s, %s, %s);

-- sql/verbs/dependents.py insert_waits
INSERT INTO waits (awaits, job_id, wanted) VALUES (%s, %s, %s);

-- sql/verbs/dependents.py lock_jobs
SELECT id, worker, blocked_by
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py lock_waiting
SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s AND running = 0
AND (token = 0 OR start_by IS NOT NULL)
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py lock_waiting
SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s AND running = 0
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py move_cancelled
INSERT INTO finished (id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec, state, finished_at, reason, cause_id) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- sql/verbs/dependents.py put_after_holders
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py put_after_holders
UPDATE jobs FORCE INDEX (PRIMARY) SET spec = %s WHERE id IN %s;

-- sql/verbs/dependents.py rewrite_waits
UPDATE jobs FORCE INDEX (PRIMARY) SET blocked_by = %s WHERE id IN %s;

-- sql/verbs/dependents.py states_of_ended
SELECT id, state FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/dependents.py stored_flow_waits
SELECT job_id
FROM flow_waits FORCE INDEX (PRIMARY)
WHERE flow IN %s;

-- sql/verbs/dependents.py stored_waits
SELECT job_id, awaits FROM waits FORCE INDEX (waits_of_job) WHERE job_id IN %s;

-- sql/verbs/dependents.py waits_for
SELECT job_id, awaits, wanted
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

-- sql/verbs/dispositions.py latest_dispositions
SELECT schedule_id, first, last, job_id, reason
FROM dispositions FORCE INDEX (PRIMARY)
WHERE schedule_id = %s AND last < %s AND last < %s
ORDER BY last DESC
LIMIT %s;

-- sql/verbs/dispositions.py replace_skips
DELETE FROM dispositions
WHERE schedule_id = %s AND job_id IS NULL AND first <= %s AND last >= %s;

-- sql/verbs/edit_schedules.py delete_schedule
DELETE FROM schedules WHERE id = %s;

-- sql/verbs/edit_schedules.py follow
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
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

-- sql/verbs/edit_schedules.py planned_after_next
SELECT id
FROM jobs FORCE INDEX (jobs_of_schedule)
WHERE schedule_id = %s AND occurrence > %s AND running = 0 AND token = 0
ORDER BY due_at, id;

-- sql/verbs/enqueue.py keep_places
UPDATE jobs FORCE INDEX (PRIMARY) SET cursor_text = %s, progress = %s WHERE id IN %s;

-- sql/verbs/enqueue.py lock_senders
SELECT id, token, cursor_text, progress
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s AND worker IS NOT NULL
ORDER BY id
FOR UPDATE;

-- sql/verbs/event_copies.py export_event_keys
SELECT schedule_id, by_key, job_id, opened_at, gathered FROM event_keys FORCE INDEX (event_keys_of_job) WHERE TRUE ORDER BY job_id LIMIT %s;

-- sql/verbs/event_copies.py export_event_keys
SELECT schedule_id, by_key, job_id, opened_at, gathered FROM event_keys FORCE INDEX (event_keys_of_job) WHERE job_id > %s ORDER BY job_id LIMIT %s;

-- sql/verbs/event_copies.py export_events
SELECT seq, record, received_at, routed_at, verdicts FROM events WHERE TRUE ORDER BY seq LIMIT %s;

-- sql/verbs/event_copies.py export_events
SELECT seq, record, received_at, routed_at, verdicts FROM events WHERE seq > %s ORDER BY seq LIMIT %s;

-- sql/verbs/event_copies.py import_event_keys
INSERT INTO event_keys (schedule_id, by_key, job_id, opened_at, gathered) VALUES (%s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE opened_at = VALUES(opened_at), gathered = VALUES(gathered);

-- sql/verbs/event_copies.py import_events
INSERT INTO events (id, source, type, received_at, kept_from, tag, record, routed_at, verdicts) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE id = id;

-- sql/verbs/event_copies.py import_events
UPDATE events FORCE INDEX (PRIMARY) SET routed_at = %s, verdicts = %s WHERE seq IN %s;

-- sql/verbs/event_copies.py lock_decisions
SELECT seq, routed_at
FROM events FORCE INDEX (PRIMARY)
WHERE seq IN %s
ORDER BY seq
FOR UPDATE;

-- sql/verbs/event_copies.py stored_seqs
(SELECT id, source, seq, tag FROM events WHERE id = %s AND source = %s);

-- sql/verbs/event_waits.py awaited_seqs
SELECT event_seq FROM event_waits FORCE INDEX (event_waits_of_event) WHERE event_seq IN %s;

-- sql/verbs/event_waits.py event_at
SELECT seq, record, received_at, routed_at, verdicts FROM events WHERE seq = %s;

-- sql/verbs/event_waits.py export_event_waits
SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq FROM event_waits WHERE (job_id > %s OR (job_id = %s AND step > %s)) AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id) ORDER BY job_id, step LIMIT %s;

-- sql/verbs/event_waits.py export_event_waits
SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq FROM event_waits WHERE TRUE AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id) ORDER BY job_id, step LIMIT %s;

-- sql/verbs/event_waits.py export_event_waits
SELECT seq, source, id FROM events WHERE seq IN %s;

-- sql/verbs/event_waits.py first_since
SELECT seq, record, received_at, routed_at, verdicts FROM events WHERE seq > %s AND type = %s ORDER BY seq LIMIT 20;

-- sql/verbs/event_waits.py free
UPDATE event_waits FORCE INDEX (PRIMARY) SET is_open = %s, event_seq = %s, since = %s WHERE job_id = %s AND step IN %s;

-- sql/verbs/event_waits.py lock_live
SELECT id
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/event_waits.py open_waits
(SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq
FROM event_waits FORCE INDEX (event_waits_open) WHERE is_open = TRUE AND type = %s AND by_key = %s AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id)
ORDER BY job_id, step
LIMIT 100
);

-- sql/verbs/event_waits.py open_waits
SELECT is_open FROM event_waits FORCE INDEX (event_waits_open) WHERE is_open = TRUE LIMIT 1;

-- sql/verbs/event_waits.py prune_waits
DELETE event_waits FROM event_waits FORCE INDEX (PRIMARY) WHERE job_id = %s AND step IN %s;

-- sql/verbs/event_waits.py prune_waits
SELECT job_id, step FROM event_waits WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id) LIMIT %s FOR UPDATE SKIP LOCKED;

-- sql/verbs/event_waits.py put_waits
INSERT INTO event_waits (job_id, step, type, by_key, since, until_at, is_open, event_seq) VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE type = VALUES(type), by_key = VALUES(by_key), since = VALUES(since), until_at = VALUES(until_at), is_open = VALUES(is_open), event_seq = VALUES(event_seq);

-- sql/verbs/event_waits.py seqs_of
(SELECT source, id, seq FROM events WHERE id = %s AND source = %s);

-- sql/verbs/event_waits.py types_in
(SELECT type FROM event_waits FORCE INDEX (event_waits_open) WHERE is_open = TRUE AND type = %s LIMIT 1);

-- sql/verbs/event_waits.py waits_by_key
(SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq FROM event_waits WHERE job_id = %s AND step = %s);

-- sql/verbs/event_waits.py wake
SELECT id, reason
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s AND running = 0 AND due_at > %s;

-- sql/verbs/event_waits.py wake
UPDATE jobs FORCE INDEX (PRIMARY) SET due_at = %s WHERE id IN %s;

-- sql/verbs/events.py carried_by
SELECT seq, job_id, schedule_id, is_read
FROM event_jobs
WHERE seq IN %s
ORDER BY seq, job_id;

-- sql/verbs/events.py events
SELECT seq, record, received_at, routed_at, verdicts
FROM events FORCE INDEX (PRIMARY)
WHERE TRUE
ORDER BY seq DESC
LIMIT %s;

-- sql/verbs/events.py events
SELECT seq, record, received_at, routed_at, verdicts
FROM events FORCE INDEX (events_of_type)
WHERE TRUE AND seq < %s AND type = %s AND substr(source, 1, %s) = %s
ORDER BY seq DESC
LIMIT %s;

-- sql/verbs/events.py events_by_id
SELECT seq, record, received_at, routed_at, verdicts
FROM events
WHERE id = %s AND TRUE
ORDER BY seq
LIMIT 10;

-- sql/verbs/events.py events_by_id
SELECT seq, record, received_at, routed_at, verdicts
FROM events
WHERE id = %s AND source = %s
ORDER BY seq
LIMIT 10;

-- sql/verbs/events.py events_of_job
SELECT seq, record, received_at, routed_at, verdicts
FROM events
WHERE seq IN (SELECT seq FROM event_jobs FORCE INDEX (event_jobs_of_job)
WHERE job_id = %s AND is_read = TRUE)
ORDER BY seq;

-- sql/verbs/events.py publish
INSERT INTO events (id, source, type, received_at, kept_from, tag, record) VALUES (%s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE id = id;

-- sql/verbs/events.py replay_event
SELECT seq FROM events WHERE seq = %s;

-- sql/verbs/events.py replay_event
UPDATE events SET routed_at = NULL WHERE seq = %s;

-- sql/verbs/events.py stored_tags
(SELECT id, source, tag FROM events WHERE id = %s AND source = %s);

-- sql/verbs/events.py wanted_types
SELECT type FROM own_event_types;

-- sql/verbs/faults.py dead_letter_heads
SELECT id, at, source, reason
FROM (SELECT id, at, source, reason AS reason
FROM dead_letters FORCE INDEX (PRIMARY)
WHERE TRUE
ORDER BY id DESC
LIMIT %s) AS heads;

-- sql/verbs/faults.py dead_letter_heads
SELECT id, at, source, reason
FROM (SELECT id, at, source, reason AS reason
FROM dead_letters FORCE INDEX (PRIMARY)
WHERE id < %s
ORDER BY id DESC
LIMIT %s) AS heads;

-- sql/verbs/faults.py fault
SELECT fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, silenced_until, note, operator_note FROM faults WHERE fault = %s;

-- sql/verbs/faults.py fault_jobs
SELECT failed, waiting FROM (SELECT
(SELECT count(*) FROM (SELECT 1 FROM finished FORCE INDEX (finished_of_fault)
WHERE fault = %s AND bad_state = 'failed' LIMIT %s) AS counted_finished)
AS failed,
(SELECT count(*) FROM (SELECT 1 FROM jobs FORCE INDEX (jobs_of_fault)
WHERE fault = %s AND running = 0 LIMIT %s) AS counted_jobs)
AS waiting) AS counted;

-- sql/verbs/faults.py faults
SELECT fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, silenced_until, note, operator_note FROM faults ORDER BY fault;

-- sql/verbs/faults.py lock_faults
SELECT fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, silenced_until, note, operator_note
FROM faults
WHERE fault IN %s
ORDER BY fault
FOR UPDATE;

-- sql/verbs/faults.py note_faults
UPDATE faults FORCE INDEX (PRIMARY) SET queue = %s, first_at = %s, last_at = %s, attempts = %s, hours = %s, sample_job = %s WHERE fault IN %s;

-- sql/verbs/faults.py prune_faults
DELETE FROM faults WHERE last_at < %s;

-- sql/verbs/faults.py silence_fault
UPDATE faults FORCE INDEX (PRIMARY) SET silenced_until = %s, note = %s WHERE fault IN %s;

-- sql/verbs/faults.py with_room
INSERT INTO faults (fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE fault = fault;

-- sql/verbs/faults.py with_room
SELECT total FROM (SELECT count(*) AS total FROM faults) AS kept;

-- sql/verbs/faults.py write_fault_note
UPDATE faults FORCE INDEX (PRIMARY) SET operator_note = %s WHERE fault IN %s;

-- sql/verbs/flows.py close_flows
DELETE flow_waits FROM flow_waits FORCE INDEX (PRIMARY) WHERE flow = %s AND job_id IN %s;

-- sql/verbs/flows.py close_flows
SELECT flow, job_id, wanted
FROM flow_waits FORCE INDEX (PRIMARY)
WHERE flow IN %s
LIMIT %s
FOR UPDATE SKIP LOCKED;

-- sql/verbs/flows.py ended_flows
SELECT flow
FROM (SELECT DISTINCT flow FROM flow_waits) AS awaited
WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.flow = awaited.flow)
AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = awaited.flow)
LIMIT %s;

-- sql/verbs/flows.py ends_of_flows
SELECT flow, state
FROM (SELECT flow,
CASE WHEN EXISTS (SELECT 1 FROM finished WHERE (finished.flow = one.flow AND state = 'failed'))
OR EXISTS (SELECT 1 FROM finished WHERE (finished.id = one.flow AND state = 'failed')) THEN 'failed'
WHEN EXISTS (SELECT 1 FROM finished WHERE (finished.flow = one.flow AND state = 'cancelled' AND cause_id IS NULL))
OR EXISTS (SELECT 1 FROM finished WHERE (finished.id = one.flow AND state = 'cancelled' AND cause_id IS NULL)) THEN 'cancelled'
ELSE 'succeeded' END AS state
FROM (SELECT DISTINCT flow FROM flow_waits
WHERE flow IN %s) AS one) AS judged;

-- sql/verbs/flows.py flow_below
SELECT flow FROM (
SELECT * FROM (SELECT flow FROM jobs
FORCE INDEX (jobs_of_flow)
WHERE flow IS NOT NULL AND flow < %s ORDER BY flow DESC LIMIT 1) AS of_jobs
UNION ALL
SELECT * FROM (SELECT flow FROM finished
FORCE INDEX (finished_of_flow)
WHERE flow IS NOT NULL AND flow < %s ORDER BY flow DESC LIMIT 1) AS of_finished
) AS found ORDER BY flow DESC LIMIT 1;

-- sql/verbs/flows.py flow_below
SELECT flow FROM (
SELECT * FROM (SELECT flow FROM jobs
FORCE INDEX (jobs_of_flow)
WHERE flow IS NOT NULL ORDER BY flow DESC LIMIT 1) AS of_jobs
UNION ALL
SELECT * FROM (SELECT flow FROM finished
FORCE INDEX (finished_of_flow)
WHERE flow IS NOT NULL ORDER BY flow DESC LIMIT 1) AS of_finished
) AS found ORDER BY flow DESC LIMIT 1;

-- sql/verbs/flows.py flow_counts
SELECT flow, state, total FROM (
SELECT flow AS flow, CASE WHEN worker IS NOT NULL THEN 'running' ELSE 'waiting' END AS state, count(*) AS total
FROM jobs FORCE INDEX (jobs_of_flow)
WHERE flow IN %s
GROUP BY flow, CASE WHEN worker IS NOT NULL THEN 'running' ELSE 'waiting' END
UNION ALL
SELECT id AS flow, CASE WHEN worker IS NOT NULL THEN 'running' ELSE 'waiting' END AS state, count(*) AS total
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s
GROUP BY id, CASE WHEN worker IS NOT NULL THEN 'running' ELSE 'waiting' END
UNION ALL
SELECT flow AS flow, state AS state, count(*) AS total
FROM finished FORCE INDEX (finished_of_flow)
WHERE flow IN %s
GROUP BY flow, state
UNION ALL
SELECT id AS flow, state AS state, count(*) AS total
FROM finished FORCE INDEX (PRIMARY)
WHERE id IN %s
GROUP BY id, state
) AS counted;

-- sql/verbs/flows.py forget_waits
DELETE flow_waits FROM flow_waits FORCE INDEX (PRIMARY) WHERE flow = %s AND job_id IN %s;

-- sql/verbs/flows.py live_flows
SELECT flow
FROM (SELECT flow FROM jobs FORCE INDEX (jobs_of_flow)
WHERE flow IN %s
UNION
SELECT id FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s) AS found;

-- sql/verbs/flows.py look_at
SELECT place, state, total FROM (
SELECT 0 AS place, state, count(*) AS total
FROM (SELECT CASE WHEN worker IS NOT NULL THEN 'running' ELSE 'waiting' END AS state
FROM jobs FORCE INDEX (jobs_of_flow)
WHERE flow = %s LIMIT %s) AS of_jobs
GROUP BY state
UNION ALL
SELECT 1 AS place, state, count(*) AS total
FROM (SELECT state AS state
FROM finished FORCE INDEX (finished_of_flow)
WHERE flow = %s LIMIT %s) AS of_finished
GROUP BY state
) AS counted;

-- sql/verbs/held_keys.py delete_new
SELECT id FROM jobs WHERE id IN %s AND token = 0;

-- sql/verbs/held_keys.py export_held_keys
SELECT unique_key, job_id, held_until FROM held_keys WHERE TRUE ORDER BY unique_key LIMIT %s;

-- sql/verbs/held_keys.py export_held_keys
SELECT unique_key, job_id, held_until FROM held_keys WHERE unique_key > %s ORDER BY unique_key LIMIT %s;

-- sql/verbs/held_keys.py find_held_key
SELECT unique_key, job_id, held_until FROM held_keys WHERE unique_key = %s AND held_until > %s;

-- sql/verbs/held_keys.py hold_keys
INSERT INTO held_keys (unique_key, job_id, held_until) VALUES (%s, %s, %s) ON DUPLICATE KEY UPDATE job_id = VALUES(job_id), held_until = VALUES(held_until);

-- sql/verbs/held_keys.py holders
SELECT unique_key, job_id
FROM held_keys FORCE INDEX (PRIMARY)
WHERE unique_key IN %s AND held_until > %s;

-- sql/verbs/held_keys.py import_held_keys
SELECT unique_key, held_until FROM held_keys WHERE unique_key IN %s;

-- sql/verbs/held_keys.py prune_held_keys
DELETE held_keys FROM held_keys FORCE INDEX (PRIMARY) WHERE unique_key IN %s;

-- sql/verbs/held_keys.py prune_held_keys
SELECT unique_key
FROM held_keys FORCE INDEX (held_keys_past)
WHERE held_until <= %s
ORDER BY held_until
LIMIT %s
FOR UPDATE SKIP LOCKED;

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
DELETE job_logs FROM job_logs FORCE INDEX (PRIMARY) WHERE job_id IN %s;

-- sql/verbs/history.py delete_histories
DELETE transitions FROM transitions FORCE INDEX (transitions_of_job) WHERE job_id IN %s;

-- sql/verbs/history.py transitions_of
SELECT job_id, at, went, cause, attempt, worker FROM transitions WHERE job_id IN %s ORDER BY job_id, seq;

-- sql/verbs/idempotency.py export_requests
SELECT digest, fingerprint, made_at, kept_from, first_job, last_job, answer
FROM (SELECT digest AS digest, fingerprint AS fingerprint, made_at, kept_from, first_job, last_job, answer AS answer
FROM idempotency_keys FORCE INDEX (PRIMARY)
WHERE digest > %s
ORDER BY idempotency_keys.digest
LIMIT %s) AS above
ORDER BY digest;

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

-- sql/verbs/idempotency.py import_requests
INSERT INTO idempotency_keys (digest, fingerprint, made_at, kept_from, first_job, last_job, answer) VALUES (%s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE digest = digest;

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
INSERT INTO finished (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, spec, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, fault, progress, state, finished_at, cause_id, last_attempt) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- sql/verbs/imports.py insert_live
INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, fault, progress, cursor_text, suspicion, held) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE id = id;

-- sql/verbs/imports.py lock_exports
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress, cause_id
FROM finished FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/imports.py lock_exports
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/job_logs.py add_log_lines
INSERT INTO job_logs (job_id, number, attempt, at, level, logger, text, fields) VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE job_id = job_id;

-- sql/verbs/job_logs.py add_log_lines
SELECT id
FROM (SELECT id FROM jobs WHERE id IN %s
UNION ALL
SELECT id FROM finished WHERE id IN %s) AS known;

-- sql/verbs/job_logs.py select_lines
SELECT job_id, number, attempt, at, level, logger, text, fields FROM job_logs FORCE INDEX (PRIMARY) WHERE TRUE ORDER BY job_id, number LIMIT %s;

-- sql/verbs/job_logs.py select_lines
SELECT job_id, number, attempt, at, level, logger, text, fields FROM job_logs FORCE INDEX (PRIMARY) WHERE job_id = %s AND number > %s AND attempt = %s ORDER BY number LIMIT %s;

-- sql/verbs/job_logs.py select_lines
SELECT job_id, number, attempt, at, level, logger, text, fields FROM job_logs FORCE INDEX (PRIMARY) WHERE job_id = %s AND number > %s ORDER BY number LIMIT %s;

-- sql/verbs/job_logs.py select_lines
SELECT job_id, number, attempt, at, level, logger, text, fields FROM job_logs FORCE INDEX (PRIMARY) WHERE job_id > %s ORDER BY job_id, number LIMIT %s;

-- sql/verbs/job_search.py count_of
SELECT total FROM (SELECT count(*) AS total FROM finished FORCE INDEX (finished_of_flow) WHERE TRUE AND (flow = %s) AND (bad_state = 'failed') AND (queue = %s) AND (substr(lane, 1, 2) = %s)) AS counted;

-- sql/verbs/job_search.py count_of
SELECT total FROM (SELECT count(*) AS total FROM jobs FORCE INDEX (PRIMARY) WHERE TRUE AND (running = 0) AND (lane = %s)) AS counted;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM finished FORCE INDEX (finished_badly) WHERE TRUE AND (bad_state = 'failed') AND (id < %s) AND (finished_at < %s) ORDER BY id DESC LIMIT %s) AS part0) AS chosen ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM finished FORCE INDEX (finished_badly) WHERE TRUE AND (bad_state = 'failed') AND (id < %s) ORDER BY id DESC LIMIT %s) AS part0) AS chosen ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM finished FORCE INDEX (finished_of_flow) WHERE TRUE AND (flow = %s) AND (bad_state = 'failed') AND (queue = %s) AND (substr(lane, 1, 2) = %s) ORDER BY id DESC LIMIT %s) AS part0) AS chosen ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM finished FORCE INDEX (finished_of_flow) WHERE TRUE AND (flow = %s) AND (bad_state = 'failed') ORDER BY id DESC LIMIT %s) AS part0) AS chosen ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE TRUE AND (due_at >= %s) AND (due_at < %s) AND (instr(lower(error), lower(%s)) > 0) AND (instr(spec, %s) > 0) AND (instr(spec, %s) > 0) ORDER BY id DESC LIMIT %s) AS part0 UNION ALL SELECT * FROM (SELECT id FROM finished FORCE INDEX (PRIMARY) WHERE TRUE AND (finished_at >= %s) AND (finished_at < %s) AND (instr(lower(error), lower(%s)) > 0) AND (instr(spec, %s) > 0) AND (instr(spec, %s) > 0) ORDER BY id DESC LIMIT %s) AS part1) AS chosen ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE TRUE AND (id >= %s) AND (due_at >= %s) AND (due_at < %s) AND (instr(lower(error), lower(%s)) > 0) AND (instr(spec, %s) > 0) AND (instr(spec, %s) > 0) ORDER BY id DESC LIMIT %s) AS part0 UNION ALL SELECT * FROM (SELECT id FROM finished FORCE INDEX (PRIMARY) WHERE TRUE AND (id >= %s) AND (finished_at >= %s) AND (finished_at < %s) AND (instr(lower(error), lower(%s)) > 0) AND (instr(spec, %s) > 0) AND (instr(spec, %s) > 0) ORDER BY id DESC LIMIT %s) AS part1) AS chosen ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE TRUE AND (running = 0) AND (id < %s) ORDER BY id DESC LIMIT %s) AS part0) AS chosen ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE TRUE AND (running = 0) AND (lane = %s) ORDER BY id DESC LIMIT %s) AS part0) AS chosen ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE TRUE AND (running = 0) ORDER BY id DESC LIMIT %s) AS part0) AS chosen ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE TRUE ORDER BY id DESC LIMIT %s) AS part0 UNION ALL SELECT * FROM (SELECT id FROM finished FORCE INDEX (PRIMARY) WHERE TRUE ORDER BY id DESC LIMIT %s) AS part1) AS chosen ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs FORCE INDEX (jobs_of_schedule) WHERE TRUE AND (schedule_id = %s) AND (id < %s) AND (queue = %s) AND (lane = %s) ORDER BY id DESC LIMIT %s) AS part0 UNION ALL SELECT * FROM (SELECT id FROM finished FORCE INDEX (finished_of_schedule) WHERE TRUE AND (schedule_id = %s) AND (id < %s) AND (queue = %s) AND (lane = %s) ORDER BY id DESC LIMIT %s) AS part1) AS chosen ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs FORCE INDEX (jobs_of_schedule) WHERE TRUE AND (schedule_id = %s) AND (id < %s) ORDER BY id DESC LIMIT %s) AS part0 UNION ALL SELECT * FROM (SELECT id FROM finished FORCE INDEX (finished_of_schedule) WHERE TRUE AND (schedule_id = %s) AND (id < %s) ORDER BY id DESC LIMIT %s) AS part1) AS chosen ORDER BY id DESC LIMIT %s OFFSET %s;

-- sql/verbs/jobs.py delete_ended
DELETE finished FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/jobs.py delete_live
DELETE jobs FROM jobs FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/jobs.py export_jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (PRIMARY) WHERE TRUE ORDER BY id LIMIT %s
) AS part0 UNION ALL SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress, cause_id
FROM finished FORCE INDEX (PRIMARY) WHERE TRUE ORDER BY id LIMIT %s
) AS part1) AS chosen;

-- sql/verbs/jobs.py export_jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (PRIMARY) WHERE id > %s ORDER BY id LIMIT %s
) AS part0 UNION ALL SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress, cause_id
FROM finished FORCE INDEX (PRIMARY) WHERE id > %s ORDER BY id LIMIT %s
) AS part1) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress, cause_id
FROM finished FORCE INDEX (PRIMARY) WHERE state = 'succeeded' ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress, cause_id
FROM finished FORCE INDEX (finished_badly) WHERE bad_state = 'cancelled' ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress, cause_id
FROM finished FORCE INDEX (finished_badly) WHERE bad_state = 'failed' ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress, cause_id
FROM finished FORCE INDEX (finished_of_fault) WHERE id < %s AND fault = %s AND bad_state = 'failed' ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (PRIMARY) WHERE TRUE ORDER BY id DESC LIMIT %s
) AS part0 UNION ALL SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress, cause_id
FROM finished FORCE INDEX (PRIMARY) WHERE TRUE ORDER BY id DESC LIMIT %s
) AS part1) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (PRIMARY) WHERE running = 0 ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (jobs_of_fault) WHERE fault = %s AND TRUE ORDER BY id DESC LIMIT %s
) AS part0 UNION ALL SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress, cause_id
FROM finished FORCE INDEX (finished_of_fault) WHERE fault = %s AND TRUE AND bad_state = 'failed' ORDER BY id DESC LIMIT %s
) AS part1 UNION ALL SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress, cause_id
FROM finished FORCE INDEX (finished_of_fault) WHERE fault = %s AND TRUE AND bad_state = 'cancelled' ORDER BY id DESC LIMIT %s
) AS part2) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (jobs_of_fault) WHERE id < %s AND fault = %s AND running = 0 ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (jobs_of_flow) WHERE flow = %s AND running = 0 ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (jobs_running) WHERE running = 1 AND worker IS NOT NULL ORDER BY id DESC LIMIT %s
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs_by_id
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (PRIMARY) WHERE id IN %s
UNION ALL
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
NULL AS lease_until, started_at, finished_at, progress, cause_id
FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/jobs.py occurrence_jobs
SELECT id
FROM (
SELECT id, due_at, occurrence AS run_time FROM (
SELECT id, due_at, occurrence FROM finished FORCE INDEX (finished_by_occurrence)
WHERE schedule_id = %s AND occurrence IS NOT NULL
ORDER BY occurrence DESC, due_at DESC, id DESC
LIMIT %s
) AS planned
UNION ALL
SELECT id, due_at, due_at AS run_time FROM (
SELECT id, due_at, occurrence FROM finished FORCE INDEX (finished_by_occurrence)
WHERE schedule_id = %s AND occurrence IS NULL
ORDER BY due_at DESC, id DESC
LIMIT %s
) AS others
) AS chosen
ORDER BY run_time DESC, due_at DESC, id DESC
LIMIT %s OFFSET %s;

-- sql/verbs/jobs.py occurrence_jobs
SELECT id
FROM (
SELECT id, due_at, occurrence AS run_time FROM (
SELECT id, due_at, occurrence FROM jobs FORCE INDEX (jobs_by_occurrence)
WHERE schedule_id = %s AND occurrence IS NOT NULL
ORDER BY occurrence DESC, due_at DESC, id DESC
LIMIT %s
) AS planned
UNION ALL
SELECT id, due_at, due_at AS run_time FROM (
SELECT id, due_at, occurrence FROM jobs FORCE INDEX (jobs_by_occurrence)
WHERE schedule_id = %s AND occurrence IS NULL
ORDER BY due_at DESC, id DESC
LIMIT %s
) AS others
) AS chosen
ORDER BY run_time DESC, due_at DESC, id DESC
LIMIT %s OFFSET %s;

-- sql/verbs/lateness.py list_heads
SELECT line, queue, due_at, id
FROM jobs FORCE INDEX (jobs_due)
WHERE line IS NOT NULL AND line > %s
ORDER BY line, due_at, id
LIMIT 1;

-- sql/verbs/lateness.py list_heads
SELECT line, queue, due_at, id
FROM jobs FORCE INDEX (jobs_due)
WHERE line IS NOT NULL AND line > %s AND line < %s
ORDER BY line, due_at, id
LIMIT 1;

-- sql/verbs/lateness.py note_in_time
UPDATE queues SET late_since = NULL WHERE name = %s AND late_since IS NOT NULL;

-- sql/verbs/lateness.py note_late
UPDATE queues SET late_since = %s
WHERE name = %s AND late_since IS NULL AND late_after IS NOT NULL;

-- sql/verbs/lateness.py watched_queues
SELECT name, paused, late_after, late_since FROM queues FORCE INDEX (queues_watched) WHERE late_after IS NOT NULL ORDER BY name;

-- sql/verbs/live.py add_stream_batch
INSERT INTO stream_batches (at, source, seq, missed, body) VALUES (%s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE at = at;

-- sql/verbs/live.py prune_stream
DELETE FROM stream_watchers WHERE until < %s;

-- sql/verbs/live.py prune_stream
DELETE stream_batches FROM stream_batches FORCE INDEX (PRIMARY) WHERE at = %s AND source = %s AND seq IN %s;

-- sql/verbs/live.py prune_stream
SELECT at, source, seq
FROM stream_batches
WHERE at < %s
ORDER BY at, source, seq
LIMIT %s
FOR UPDATE SKIP LOCKED;

-- sql/verbs/live.py stream_batches
SELECT at, source, seq, missed, body
FROM stream_batches
WHERE at >= %s AND source <> %s
ORDER BY at, source, seq
LIMIT %s;

-- sql/verbs/live.py stream_watchers
SELECT process FROM stream_watchers WHERE until > %s ORDER BY process;

-- sql/verbs/live.py watch_stream
INSERT INTO stream_watchers (process, until) VALUES (%s, %s)
ON DUPLICATE KEY UPDATE until = VALUES(until);

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

-- sql/verbs/own_events.py wanted_of
SELECT type
FROM own_event_types FORCE INDEX (PRIMARY)
WHERE type IN %s;

-- sql/verbs/payloads.py drop_payloads
UPDATE finished FORCE INDEX (PRIMARY) SET spec = %s WHERE id IN %s;

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
INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, held) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE id = id;

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
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (jobs_bounded) WHERE lapsed = TRUE AND bound_by < %s AND bound_by IS NOT NULL AND running = 0 ORDER BY bound_by LIMIT %s
) AS part0 UNION ALL SELECT * FROM (
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
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

-- sql/verbs/prune_events.py delete_events
DELETE event_jobs FROM event_jobs FORCE INDEX (PRIMARY) WHERE seq IN %s;

-- sql/verbs/prune_events.py delete_events
DELETE events FROM events FORCE INDEX (PRIMARY) WHERE seq IN %s;

-- sql/verbs/prune_events.py delete_keys
DELETE event_keys FROM event_keys FORCE INDEX (event_keys_of_job) WHERE job_id IN %s;

-- sql/verbs/prune_events.py prune_events
SELECT seq
FROM events FORCE INDEX (events_by_age)
WHERE kept_from < %s AND routed_at IS NOT NULL
ORDER BY kept_from
LIMIT %s
FOR UPDATE SKIP LOCKED;

-- sql/verbs/prune_events.py prune_events
UPDATE events FORCE INDEX (PRIMARY) SET kept_from = %s WHERE seq IN %s;

-- sql/verbs/prune_events.py stored_jobs
SELECT id FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/prune_events.py stored_jobs
SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE id IN %s;

-- sql/verbs/pulses.py count_dead_letters
SELECT total
FROM (SELECT count(*) AS total
FROM (SELECT id FROM dead_letters LIMIT 10001) AS found) AS counted;

-- sql/verbs/pulses.py count_depths
SELECT record FROM workers;

-- sql/verbs/pulses.py fold_history
DELETE FROM gauges WHERE resolution = %s AND at >= %s AND at < %s;

-- sql/verbs/pulses.py fold_history
DELETE FROM pulses WHERE resolution = %s AND at >= %s AND at < %s;

-- sql/verbs/pulses.py newest_sample
SELECT body FROM gauges WHERE resolution = %s ORDER BY at DESC LIMIT 1;

-- sql/verbs/pulses.py oldest_history
SELECT at FROM gauges WHERE resolution = %s ORDER BY at LIMIT 1;

-- sql/verbs/pulses.py oldest_history
SELECT at FROM pulses WHERE resolution = %s ORDER BY at LIMIT 1;

-- sql/verbs/pulses.py pulses
SELECT at, source, totals
FROM pulses
WHERE resolution = %s AND at >= %s AND at < %s
ORDER BY at DESC, source DESC
LIMIT %s;

-- sql/verbs/pulses.py pulses
SELECT at, source, totals, series
FROM pulses
WHERE resolution = %s AND at >= %s AND at < %s
ORDER BY at DESC, source DESC
LIMIT %s;

-- sql/verbs/pulses.py put_pulses
INSERT INTO pulses (resolution, at, source, totals, series) VALUES (%s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE resolution = resolution;

-- sql/verbs/pulses.py put_samples
INSERT INTO gauges (resolution, at, body) VALUES (%s, %s, %s) ON DUPLICATE KEY UPDATE resolution = resolution;

-- sql/verbs/pulses.py samples
SELECT body
FROM (SELECT at, body FROM gauges
WHERE resolution = %s AND at >= %s AND at < %s ORDER BY at DESC LIMIT %s) AS chosen
ORDER BY at DESC;

-- sql/verbs/pulses.py samples
SELECT body
FROM (SELECT at, substr(body, 1, 400) AS body FROM gauges
WHERE resolution = %s AND at >= %s AND at < %s ORDER BY at DESC LIMIT %s) AS chosen
ORDER BY at DESC;

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
INSERT INTO queues (name, paused, pause) VALUES (%s, %s, %s)
ON DUPLICATE KEY UPDATE paused = VALUES(paused), pause = VALUES(pause);

-- sql/verbs/queues.py queue_names
SELECT name FROM queues ORDER BY name;

-- sql/verbs/queues.py store_buckets
INSERT INTO meters (queue, grp, full_at) VALUES (%s, %s, %s) ON DUPLICATE KEY UPDATE full_at = VALUES(full_at);

-- sql/verbs/queues.py unnamed_queues
SELECT name FROM queues WHERE name IN %s;

-- sql/verbs/queues.py watch_queue
UPDATE queues SET late_after = %s WHERE name = %s;

-- sql/verbs/queues.py watch_queue
UPDATE queues SET late_after = NULL, late_since = NULL WHERE name = %s;

-- sql/verbs/reschedule.py give_due_times
UPDATE jobs FORCE INDEX (PRIMARY) SET due_at = %s, start_by = %s, lapsed = %s WHERE id IN %s;

-- sql/verbs/reschedule.py reschedule
SELECT
id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s AND running = 0
FOR UPDATE;

-- sql/verbs/routes.py add_carried
INSERT INTO event_jobs (seq, job_id, schedule_id, is_read) VALUES (%s, %s, %s, %s) ON DUPLICATE KEY UPDATE seq = seq;

-- sql/verbs/routes.py event_schedules
SELECT id, version FROM schedules FORCE INDEX (schedules_on_event) WHERE on_event = TRUE;

-- sql/verbs/routes.py have_versions
SELECT id, version
FROM schedules FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
LOCK IN SHARE MODE;

-- sql/verbs/routes.py job_places
SELECT id, due_at, waits
FROM (SELECT id, due_at, (running = 0 AND (token = 0 OR start_by IS NOT NULL)) AS waits
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s) AS found;

-- sql/verbs/routes.py keyed_rows
(SELECT schedule_id, by_key, job_id, opened_at, gathered
FROM event_keys
WHERE schedule_id = %s AND by_key = %s
);

-- sql/verbs/routes.py leave_unread
UPDATE event_jobs FORCE INDEX (event_jobs_of_job) SET is_read = FALSE
WHERE job_id IN %s AND is_read = TRUE;

-- sql/verbs/routes.py lock_unrouted
SELECT seq
FROM events FORCE INDEX (PRIMARY)
WHERE seq IN %s AND routed_at IS NULL
ORDER BY seq
FOR UPDATE;

-- sql/verbs/routes.py lock_unstarted
SELECT id
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s AND running = 0 AND (token = 0 OR start_by IS NOT NULL)
ORDER BY id
FOR UPDATE;

-- sql/verbs/routes.py postpone
UPDATE jobs FORCE INDEX (PRIMARY) SET due_at = %s WHERE id IN %s;

-- sql/verbs/routes.py put_keyed
DELETE event_keys FROM event_keys FORCE INDEX (PRIMARY) WHERE schedule_id = %s AND by_key = %s AND job_id IN %s;

-- sql/verbs/routes.py put_keyed
INSERT INTO event_keys (schedule_id, by_key, job_id, opened_at, gathered) VALUES (%s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE opened_at = VALUES(opened_at), gathered = VALUES(gathered);

-- sql/verbs/routes.py route
UPDATE events FORCE INDEX (PRIMARY) SET routed_at = %s, verdicts = %s WHERE seq IN %s;

-- sql/verbs/routes.py unrouted_events
SELECT seq, record, received_at, routed_at, verdicts
FROM events FORCE INDEX (events_unrouted)
WHERE routed_at IS NULL
ORDER BY seq
LIMIT %s;

-- sql/verbs/schedules.py delete_own_types
DELETE own_event_types FROM own_event_types FORCE INDEX (own_event_types_of_schedule) WHERE schedule_id IN %s;

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

-- sql/verbs/schedules.py hold_statuses
SELECT id, status
FROM schedules FORCE INDEX (PRIMARY)
WHERE id IN %s
ORDER BY id
LOCK IN SHARE MODE;

-- sql/verbs/schedules.py insert_own_types
INSERT INTO own_event_types (type, schedule_id) VALUES (%s, %s);

-- sql/verbs/schedules.py insert_schedules
INSERT INTO schedules (id, name_key, search, status, planned_through, plan_at, version, on_event, owner, spec) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- sql/verbs/schedules.py insert_schedules
INSERT INTO schedules (id, name_key, search, status, planned_through, plan_at, version, on_event, owner, spec) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE name_key = VALUES(name_key), search = VALUES(search), status = VALUES(status), planned_through = VALUES(planned_through), plan_at = VALUES(plan_at), version = VALUES(version), on_event = VALUES(on_event), owner = VALUES(owner), spec = VALUES(spec);

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
SET name_key = %s, search = %s, status = %s, version = %s, on_event = %s,
owner = %s, spec = %s
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

-- sql/verbs/schedules.py schedules_of_owner
SELECT id, name_key, status, planned_through, plan_at, version, spec FROM schedules FORCE INDEX (schedules_of_owner) WHERE owner = %s ORDER BY id;

-- sql/verbs/sweeps.py sweep
SELECT id, finished_at, queue
FROM finished FORCE INDEX (finished_by_end)
WHERE state = %s AND finished_at >= %s AND (finished_at > %s OR id > %s) AND finished_at < %s
ORDER BY finished_at, id
LIMIT %s;

-- sql/verbs/timeline.py forgotten_between
(SELECT schedule_id, first
FROM (
SELECT schedule_id, first, job_id
FROM dispositions FORCE INDEX (PRIMARY)
WHERE schedule_id = %s AND last >= %s AND first <= %s AND
last <= coalesce((SELECT last FROM dispositions
WHERE schedule_id = %s AND last >= %s
ORDER BY last LIMIT 1), %s)
ORDER BY last DESC
LIMIT 2000
) AS looked
WHERE job_id IS NOT NULL AND first >= %s
AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = looked.job_id)
AND NOT EXISTS (SELECT 1 FROM finished WHERE finished.id = looked.job_id)
);

-- sql/verbs/timeline.py run_counts
(SELECT schedule_id, at, state, total, first_at
FROM (
SELECT schedule_id, at, state, count(*) AS total, min(due_at) AS first_at
FROM (SELECT schedule_id, due_at, due_at - MOD(due_at - %s, 60000000) AS at, CASE WHEN worker IS NOT NULL THEN 'running' ELSE 'waiting' END AS state
FROM jobs FORCE INDEX (jobs_of_schedule)
WHERE schedule_id = %s
AND due_at >= %s AND due_at < %s
ORDER BY due_at DESC
LIMIT 1000
) AS runs
GROUP BY schedule_id, at, state
) AS counted
);

-- sql/verbs/timeline.py run_counts
(SELECT schedule_id, at, state, total, first_at
FROM (
SELECT schedule_id, at, state, count(*) AS total, min(due_at) AS first_at
FROM (SELECT schedule_id, due_at, due_at - MOD(due_at - %s, 60000000) AS at, state
FROM finished FORCE INDEX (finished_of_schedule)
WHERE schedule_id = %s
AND due_at >= %s AND due_at < %s
ORDER BY due_at DESC
LIMIT 1000
) AS runs
GROUP BY schedule_id, at, state
) AS counted
);

-- sql/verbs/timeline.py runs_between
(SELECT id, schedule_id, state, due_at, occurrence, started_at, finished_at, attempt, reason FROM (SELECT id, schedule_id, CASE WHEN worker IS NOT NULL THEN 'running' ELSE 'waiting' END AS state, due_at, occurrence, started_at, NULL AS finished_at, coalesce(attempt, token) AS attempt, reason
FROM jobs FORCE INDEX (jobs_of_schedule)
WHERE schedule_id = %s
AND due_at >= %s AND due_at < %s
ORDER BY due_at DESC
LIMIT 200
) AS runs);

-- sql/verbs/timeline.py runs_between
(SELECT id, schedule_id, state, due_at, occurrence, started_at, finished_at, attempt, reason FROM (SELECT id, schedule_id, state, due_at, occurrence, started_at, finished_at, coalesce(attempt, token) AS attempt, reason
FROM finished FORCE INDEX (finished_of_schedule)
WHERE schedule_id = %s
AND due_at >= %s AND due_at < %s
ORDER BY due_at DESC
LIMIT 200
) AS runs);

-- sql/verbs/timeline.py skips_between
(SELECT schedule_id, first, last, reason
FROM (
SELECT schedule_id, first, last, reason, job_id
FROM dispositions FORCE INDEX (PRIMARY)
WHERE schedule_id = %s AND last >= %s AND first <= %s AND
last <= coalesce((SELECT last FROM dispositions
WHERE schedule_id = %s AND last >= %s
ORDER BY last LIMIT 1), %s)
ORDER BY last DESC
LIMIT 2000
) AS looked
WHERE job_id IS NULL AND last >= %s
);

-- sql/verbs/withdrawals.py changed_among
SELECT job_id
FROM (SELECT DISTINCT job_id FROM transitions FORCE INDEX (transitions_of_job)
WHERE job_id IN %s) AS changed;

-- sql/verbs/withdrawals.py lock_untouched
SELECT id, token
FROM jobs FORCE INDEX (PRIMARY)
WHERE id IN %s AND running = 0
ORDER BY id
FOR UPDATE;

-- sql/verbs/workers.py forget_workers
DELETE FROM workers
WHERE id IN %s
AND NOT EXISTS (SELECT 1 FROM jobs
WHERE worker = workers.id AND worker IS NOT NULL);

-- sql/verbs/workers.py forget_workers
SELECT record
FROM workers
WHERE id IN %s
ORDER BY id
FOR UPDATE;

-- sql/verbs/workers.py hand_over
SELECT token FROM jobs WHERE id = %s AND token = %s AND worker IS NOT NULL AND worker = %s;

-- sql/verbs/workers.py hand_over
UPDATE jobs
SET worker = %s, lease_until = %s
WHERE id = %s AND token = %s AND worker IS NOT NULL AND worker <> %s;

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
