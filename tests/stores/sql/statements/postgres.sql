-- What `onbeat.stores.sql` composes for postgres, by file and function below
-- `src/onbeat/stores`. Values are `$1`, `$2`; of several rows one is shown.
-- Write this file anew: WRITE_STATEMENTS=1 .venv/bin/pytest tests/stores/sql/test_statements.py
-- See a plan: EXPLAIN (GENERIC_PLAN), with SETTINGS of `postgres/connection.py` and the search_path.

-- sql/verbs/access.py add_key
INSERT INTO api_keys (name, digest, record, used_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO NOTHING;

-- sql/verbs/access.py add_value
INSERT INTO secrets (name, value) VALUES ('cells', $1)
ON CONFLICT (name) DO NOTHING;

-- sql/verbs/access.py add_value
INSERT INTO secrets (name, value) VALUES ('tokens', $1)
ON CONFLICT (name) DO NOTHING;

-- sql/verbs/access.py audit
SELECT record FROM audit WHERE TRUE AND actor = $1 AND action = $2 AND object = $3 AND at >= $4 AND at < $5 AND id < $6 ORDER BY id DESC LIMIT $7;

-- sql/verbs/access.py audit
SELECT record FROM audit WHERE TRUE ORDER BY id DESC LIMIT $1;

-- sql/verbs/access.py keys
SELECT record, used_at FROM api_keys ORDER BY name;

-- sql/verbs/access.py note_key_use
UPDATE api_keys SET used_at = $1
WHERE name = $2 AND (used_at IS NULL OR used_at < $3);

-- sql/verbs/access.py note_map_version
UPDATE secrets SET value = $1 WHERE name = $2;

-- sql/verbs/access.py prune_audit
DELETE FROM audit WHERE id = ANY(ARRAY(SELECT id FROM audit WHERE at < $1 ORDER BY at LIMIT $2));

-- sql/verbs/access.py put_audit
INSERT INTO audit (id, at, actor, action, object, record) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (id) DO UPDATE SET object = excluded.object, record = excluded.record;

-- sql/verbs/access.py remove_key
DELETE FROM api_keys WHERE name = $1;

-- sql/verbs/access.py replace_targets
SELECT id, spec
FROM finished WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE;

-- sql/verbs/access.py replace_targets
SELECT id, spec
FROM jobs WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE;

-- sql/verbs/access.py replace_targets
SELECT id, spec
FROM schedules WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE;

-- sql/verbs/access.py replace_targets
UPDATE finished
SET spec = changed.spec
FROM unnest($1::uuid[], $2::text[]) AS changed (id, spec)
WHERE finished.id = changed.id;

-- sql/verbs/access.py replace_targets
UPDATE jobs
SET spec = changed.spec
FROM unnest($1::uuid[], $2::text[]) AS changed (id, spec)
WHERE jobs.id = changed.id;

-- sql/verbs/access.py replace_targets
UPDATE schedules
SET spec = changed.spec
FROM unnest($1::uuid[], $2::text[]) AS changed (id, spec)
WHERE schedules.id = changed.id;

-- sql/verbs/access.py stored_value
SELECT value FROM secrets WHERE name = 'cells';

-- sql/verbs/access.py stored_value
SELECT value FROM secrets WHERE name = 'cells' FOR UPDATE;

-- sql/verbs/access.py stored_value
SELECT value FROM secrets WHERE name = 'tokens';

-- sql/verbs/access.py stored_value
SELECT value FROM secrets WHERE name = 'tokens' FOR UPDATE;

-- sql/verbs/alerts.py add_silence
INSERT INTO silences (id, until_at, record) VALUES ($1, $2, $3);

-- sql/verbs/alerts.py alerts
SELECT record, since, seen_at, ended_at, is_announced, times FROM alerts WHERE ended_at IS NOT NULL ORDER BY since DESC, name LIMIT $1;

-- sql/verbs/alerts.py alerts
SELECT record, since, seen_at, ended_at, is_announced, times FROM alerts WHERE ended_at IS NULL ORDER BY since DESC, name LIMIT $1;

-- sql/verbs/alerts.py end_silence
DELETE FROM silences WHERE id = $1;

-- sql/verbs/alerts.py note_announced
UPDATE alerts SET is_announced = TRUE
WHERE name = $1 AND is_announced = FALSE AND ended_at IS NULL;

-- sql/verbs/alerts.py note_ended
UPDATE alerts SET ended_at = $1
WHERE name = $2 AND ended_at IS NULL AND seen_at <= $3;

-- sql/verbs/alerts.py note_seen
INSERT INTO alerts (name, since, seen_at, ended_at, is_announced, record)
VALUES ($1, $2, $3, NULL, FALSE, $4)
ON CONFLICT (name) DO NOTHING;

-- sql/verbs/alerts.py note_seen
UPDATE alerts
SET since = $1, seen_at = $2, ended_at = NULL, is_announced = FALSE, record = $3,
times = times + 1
WHERE name = $4 AND ended_at IS NOT NULL;

-- sql/verbs/alerts.py note_seen
UPDATE alerts SET seen_at = $1, record = $2 WHERE name = $3 AND seen_at < $4;

-- sql/verbs/alerts.py prune_alerts
DELETE FROM alerts WHERE name = ANY(ARRAY(SELECT name FROM alerts WHERE ended_at < $1 ORDER BY ended_at LIMIT $2));

-- sql/verbs/alerts.py prune_alerts
DELETE FROM silences WHERE id = ANY(ARRAY(SELECT id FROM silences WHERE until_at < $1 ORDER BY until_at LIMIT $2));

-- sql/verbs/alerts.py silences
SELECT record FROM silences WHERE until_at > $1 ORDER BY until_at, id;

-- sql/verbs/bulks.py add_bulk
SELECT id FROM (SELECT id FROM bulks WHERE next_at IS NOT NULL LIMIT $1) AS unfinished;

-- sql/verbs/bulks.py bulks
SELECT record FROM bulks WHERE TRUE ORDER BY id DESC LIMIT $1;

-- sql/verbs/bulks.py bulks
SELECT record FROM bulks WHERE id < $1 ORDER BY id DESC LIMIT $2;

-- sql/verbs/bulks.py one_bulk
SELECT record FROM bulks WHERE id = $1;

-- sql/verbs/bulks.py one_bulk
SELECT record FROM bulks WHERE id = $1 FOR UPDATE;

-- sql/verbs/bulks.py one_bulk
SELECT record FROM bulks WHERE next_at IS NOT NULL ORDER BY next_at, id LIMIT 1;

-- sql/verbs/bulks.py prune_bulks
DELETE FROM bulks WHERE id = ANY(ARRAY(SELECT id FROM bulks WHERE finished_at < $1 ORDER BY finished_at LIMIT $2));

-- sql/verbs/bulks.py put_bulk
INSERT INTO bulks (id, next_at, finished_at, record) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET next_at = excluded.next_at, finished_at = excluded.finished_at, record = excluded.record;

-- sql/verbs/cancel_and_retry.py caused_by
SELECT id
FROM finished
WHERE cause_id = ANY($1::uuid[]) AND cancel_reason IS NULL
LIMIT $2;

-- sql/verbs/cancel_and_retry.py change_causes
UPDATE finished
SET reason = changed.reason, cause_id = changed.cause_id
FROM unnest($1::uuid[], $2::text[], $3::uuid[]) AS changed (id, reason, cause_id)
WHERE finished.id = changed.id;

-- sql/verbs/cancel_and_retry.py confirm_cancelled
UPDATE finished
SET cancel_reason = changed.cancel_reason
FROM unnest($1::uuid[], $2::text[]) AS changed (id, cancel_reason)
WHERE finished.id = changed.id;

-- sql/verbs/cancel_and_retry.py forget_causes
UPDATE finished
SET cause_id = changed.cause_id
FROM unnest($1::uuid[], $2::uuid[]) AS changed (id, cause_id)
WHERE finished.id = changed.id;

-- sql/verbs/cancel_and_retry.py lock_unsuccessful
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
FROM finished
WHERE id = ANY($1::uuid[]) AND state IN ('failed', 'cancelled')
ORDER BY id
FOR UPDATE;

-- sql/verbs/cancel_and_retry.py move_back
INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, created_at, token, started_at, fault, held, blocked_by, awaited)
SELECT id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, created_at, token, started_at, fault, held, blocked_by, awaited FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::uuid[], $9::bigint[], $10::text[], $11::text[], $12::uuid[], $13::text[], $14::bigint[], $15::integer[], $16::bigint[], $17::bigint[], $18::boolean[], $19::integer[], $20::boolean[]) WITH ORDINALITY AS new (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, created_at, token, started_at, fault, held, blocked_by, awaited, place)
ORDER BY place
ON CONFLICT DO NOTHING;

-- sql/verbs/cascades.py has_cascades
SELECT job_id FROM cascades LIMIT 1;

-- sql/verbs/cascades.py lock_ended
SELECT id FROM finished  WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE;

-- sql/verbs/cascades.py lock_ended
SELECT id FROM jobs  WHERE id = ANY($1::uuid[]);

-- sql/verbs/cascades.py take_cascades
DELETE FROM cascades WHERE job_id = ANY($1::uuid[]);

-- sql/verbs/cascades.py take_cascades
SELECT job_id, state FROM cascades LIMIT $1 FOR UPDATE SKIP LOCKED;

-- sql/verbs/counts.py count_by_state
SELECT state, total FROM (SELECT state, count(*) AS total FROM finished  GROUP BY state) AS counted;

-- sql/verbs/counts.py group_depths
SELECT grp FROM jobs  WHERE queue = $1 AND NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND grp >= '' LIMIT $2;

-- sql/verbs/counts.py group_depths
SELECT grp FROM jobs  WHERE queue = $1 AND NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND grp IS NULL LIMIT $2;

-- sql/verbs/counts.py group_depths
SELECT grp FROM jobs  WHERE running AND queue = $1 LIMIT $2;

-- sql/verbs/counts.py group_depths
SELECT grp, turn FROM turns WHERE queue = $1 ORDER BY turn DESC LIMIT $2;

-- sql/verbs/counts.py queues
SELECT name, paused, limits, pause FROM queues  WHERE paused OR limits IS NOT NULL;

-- sql/verbs/counts.py select_counts
SELECT queue, lane, waiting, due, oldest, running, blocked FROM (
SELECT queue AS queue, lane AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= $1 THEN 1 END) AS due, min(due_at) AS oldest, 0 AS running,
0 AS blocked
FROM jobs  WHERE NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND grp IS NULL
GROUP BY queue, priority, lane
UNION ALL
SELECT queue AS queue, lane AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= $2 THEN 1 END) AS due, min(due_at) AS oldest, 0 AS running,
0 AS blocked
FROM jobs  WHERE NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND grp >= ''
GROUP BY queue, priority, lane
UNION ALL
SELECT queue AS queue, lane AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= $3 AND blocked_by = 0 THEN 1 END) AS due, min(CASE WHEN blocked_by = 0 THEN due_at END) AS oldest, 0 AS running,
count(CASE WHEN blocked_by > 0 THEN 1 END) AS blocked
FROM jobs  WHERE NOT running AND (blocked_by <> 0 OR held OR lapsed)
GROUP BY queue, lane
UNION ALL
SELECT queue, NULL AS lane, 0 AS waiting, 0 AS due, NULL AS oldest, count(*) AS running,
0 AS blocked
FROM jobs  WHERE running
GROUP BY queue
) AS counted;

-- sql/verbs/counts.py select_counts
SELECT queue, lane, waiting, due, oldest, running, blocked FROM (
SELECT queue, NULL AS lane, 0 AS waiting, 0 AS due, NULL AS oldest, count(*) AS running,
0 AS blocked
FROM jobs  WHERE running
GROUP BY queue
) AS counted;

-- sql/verbs/counts.py stats
SELECT record FROM workers;

-- sql/verbs/counts.py stats
SELECT status, total FROM (SELECT status, count(*) AS total FROM schedules GROUP BY status) AS counted;

-- sql/verbs/counts.py watched
SELECT name, paused, late_after FROM queues  WHERE late_after IS NOT NULL;

-- sql/verbs/dead_letters.py add_dead_letters
INSERT INTO dead_letters (id, at, source, record, body)
SELECT id, at, source, record, body FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bytea[]) WITH ORDINALITY AS new (id, at, source, record, body, place)
ORDER BY place
ON CONFLICT (id) DO NOTHING;

-- sql/verbs/dead_letters.py dead_letters
SELECT id, at, source, record, body
FROM dead_letters
WHERE TRUE
ORDER BY id DESC
LIMIT $1;

-- sql/verbs/dead_letters.py dead_letters
SELECT id, at, source, record, body
FROM dead_letters
WHERE TRUE AND id < $1 AND source = $2
ORDER BY id DESC
LIMIT $3;

-- sql/verbs/dead_letters.py dead_letters_by_id
SELECT id, at, source, record, body FROM dead_letters WHERE id = ANY($1::uuid[]);

-- sql/verbs/dead_letters.py delete_dead_letters
DELETE FROM dead_letters WHERE id = ANY($1::uuid[]);

-- sql/verbs/dependents.py add_cascades
INSERT INTO cascades (job_id, state)
SELECT job_id, state FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS new (job_id, state, place)
ORDER BY place
ON CONFLICT (job_id) DO UPDATE SET state = excluded.state;

-- sql/verbs/dependents.py awaited_among
SELECT awaits
FROM (SELECT DISTINCT awaits FROM waits
WHERE awaits = ANY($1::uuid[])) AS awaited;

-- sql/verbs/dependents.py delete_waits
DELETE FROM waits WHERE job_id = ANY($1::uuid[]);

-- sql/verbs/dependents.py free
DELETE FROM waits
USING unnest($1::uuid[], $2::uuid[]) AS gone (awaits, job_id)
WHERE waits.awaits = gone.awaits AND waits.job_id = gone.job_id;

-- sql/verbs/dependents.py insert_flow_waits
INSERT INTO flow_waits (flow, job_id, wanted)
SELECT flow, job_id, wanted FROM unnest($1::uuid[], $2::uuid[], $3::smallint[]) WITH ORDINALITY AS new (flow, job_id, wanted, place)
ORDER BY place;

-- sql/verbs/dependents.py insert_waits
INSERT INTO waits (awaits, job_id, wanted)
SELECT awaits, job_id, wanted FROM unnest($1::uuid[], $2::uuid[], $3::smallint[]) WITH ORDINALITY AS new (awaits, job_id, wanted, place)
ORDER BY place;

-- sql/verbs/dependents.py lock_jobs
SELECT id, worker, blocked_by, awaited
FROM jobs
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py lock_waiting
SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec, created_at
FROM jobs
WHERE id = ANY($1::uuid[]) AND NOT running
AND (token = 0 OR start_by IS NOT NULL)
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py lock_waiting
SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec, created_at
FROM jobs
WHERE id = ANY($1::uuid[]) AND NOT running
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py move_cancelled
INSERT INTO finished (id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec, created_at, state, finished_at, reason, cause_id)
SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec, created_at, state, finished_at, reason, cause_id FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::smallint[], $5::text[], $6::bigint[], $7::text[], $8::uuid[], $9::bigint[], $10::text[], $11::integer[], $12::smallint[], $13::smallint[], $14::bigint[], $15::text[], $16::text[], $17::text[], $18::bigint[], $19::text[], $20::uuid[], $21::text[], $22::bigint[], $23::text[], $24::bigint[], $25::text[], $26::uuid[]) WITH ORDINALITY AS new (id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, fault, progress, flow, spec, created_at, state, finished_at, reason, cause_id, place)
ORDER BY place;

-- sql/verbs/dependents.py put_after_holders
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py put_after_holders
UPDATE jobs
SET spec = changed.spec
FROM unnest($1::uuid[], $2::text[]) AS changed (id, spec)
WHERE jobs.id = changed.id;

-- sql/verbs/dependents.py rewrite_waits
UPDATE jobs
SET blocked_by = changed.blocked_by, awaited = changed.awaited
FROM unnest($1::uuid[], $2::integer[], $3::boolean[]) AS changed (id, blocked_by, awaited)
WHERE jobs.id = changed.id;

-- sql/verbs/dependents.py states_of_ended
SELECT id, state FROM finished  WHERE id = ANY($1::uuid[]);

-- sql/verbs/dependents.py stored_flow_waits
SELECT job_id
FROM flow_waits
WHERE flow = ANY($1::uuid[]);

-- sql/verbs/dependents.py stored_waits
SELECT job_id, awaits FROM waits  WHERE job_id = ANY($1::uuid[]);

-- sql/verbs/dependents.py waits_for
SELECT job_id, awaits, wanted
FROM waits
WHERE awaits = ANY($1::uuid[])
LIMIT $2;

-- sql/verbs/dispositions.py add_dispositions
SELECT found.*
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS params (schedule_id, first, last)
CROSS JOIN LATERAL (SELECT schedule_id, first, last FROM dispositions WHERE schedule_id = params.schedule_id AND
first <= params.last
AND first >= coalesce((SELECT first FROM dispositions
WHERE schedule_id = params.schedule_id AND first <= params.first
ORDER BY first DESC LIMIT 1), params.first)
OFFSET 0) AS found;

-- sql/verbs/dispositions.py dispositions
SELECT schedule_id, first, last, job_id, reason
FROM dispositions
WHERE schedule_id = $1 AND
first >= coalesce((SELECT max(first)
FROM (SELECT first, last FROM dispositions
WHERE schedule_id = $2 AND first <= $3
ORDER BY first DESC LIMIT 2000) AS before
WHERE last >= $4), $5)
AND first <= $6
ORDER BY first;

-- sql/verbs/dispositions.py export_dispositions
SELECT schedule_id, first, last, job_id, reason FROM dispositions  WHERE TRUE ORDER BY schedule_id, first LIMIT $1;

-- sql/verbs/dispositions.py export_dispositions
SELECT schedule_id, first, last, job_id, reason FROM dispositions  WHERE schedule_id = $1 AND first > $2 AND first > $3 ORDER BY first LIMIT $4;

-- sql/verbs/dispositions.py export_dispositions
SELECT schedule_id, first, last, job_id, reason FROM dispositions  WHERE schedule_id > $1 ORDER BY schedule_id, first LIMIT $2;

-- sql/verbs/dispositions.py forget_dispositions_after
DELETE FROM dispositions WHERE schedule_id = $1 AND first > $2 AND (job_id IS NULL OR job_id = ANY($3::uuid[]));

-- sql/verbs/dispositions.py forget_dispositions_after
DELETE FROM dispositions WHERE schedule_id = $1 AND first > $2 AND TRUE;

-- sql/verbs/dispositions.py forget_dispositions_after
UPDATE dispositions SET last = $1 WHERE schedule_id = $2 AND first <= $3 AND last > $4;

-- sql/verbs/dispositions.py free_instant
DELETE FROM dispositions
USING unnest($1::uuid[], $2::bigint[]) AS gone (schedule_id, first)
WHERE dispositions.schedule_id = gone.schedule_id AND dispositions.first = gone.first;

-- sql/verbs/dispositions.py free_instant
SELECT first, last, job_id, reason FROM dispositions WHERE schedule_id = $1 AND first <= $2 ORDER BY first DESC LIMIT 1;

-- sql/verbs/dispositions.py insert_dispositions
INSERT INTO dispositions (schedule_id, first, last, job_id, reason)
SELECT schedule_id, first, last, job_id, reason FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::text[]) WITH ORDINALITY AS new (schedule_id, first, last, job_id, reason, place)
ORDER BY place
ON CONFLICT (schedule_id, first) DO NOTHING;

-- sql/verbs/dispositions.py latest_dispositions
SELECT schedule_id, first, last, job_id, reason
FROM dispositions
WHERE schedule_id = $1 AND first < $2 AND last < $3
ORDER BY first DESC
LIMIT $4;

-- sql/verbs/dispositions.py replace_skips
DELETE FROM dispositions
WHERE schedule_id = $1 AND job_id IS NULL AND first <= $2 AND last >= $3;

-- sql/verbs/edit_schedules.py delete_schedule
DELETE FROM schedules WHERE id = $1;

-- sql/verbs/edit_schedules.py follow
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs
WHERE schedule_id = $1 AND NOT running
ORDER BY id
FOR UPDATE;

-- sql/verbs/edit_schedules.py follow
UPDATE jobs
SET queue = changed.queue, priority = changed.priority, lane = changed.lane, overlap = changed.overlap, spec = changed.spec
FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::text[], $6::text[]) AS changed (id, queue, priority, lane, overlap, spec)
WHERE jobs.id = changed.id;

-- sql/verbs/edit_schedules.py forget_after
SELECT id
FROM jobs
WHERE schedule_id = $1 AND occurrence > $2 AND NOT running
AND (token = 0 OR start_by IS NOT NULL);

-- sql/verbs/edit_schedules.py forget_after
UPDATE schedules SET planned_through = $1 WHERE id = $2 AND planned_through > $3;

-- sql/verbs/edit_schedules.py hold_jobs
UPDATE jobs  SET held = $1
WHERE schedule_id = ANY($2::uuid[]) AND held <> $3;

-- sql/verbs/edit_schedules.py lock_jobs_of
SELECT id
FROM jobs
WHERE schedule_id = $1
ORDER BY id
FOR UPDATE;

-- sql/verbs/edit_schedules.py planned_after_next
SELECT id
FROM jobs
WHERE schedule_id = $1 AND occurrence > $2 AND NOT running AND token = 0
ORDER BY due_at, id;

-- sql/verbs/enqueue.py lock_senders
SELECT id, token, cursor, progress
FROM jobs
WHERE id = ANY($1::uuid[]) AND running
ORDER BY id
FOR UPDATE;

-- sql/verbs/event_copies.py export_event_keys
SELECT schedule_id, by_key, job_id, opened_at, gathered FROM event_keys  WHERE TRUE ORDER BY job_id LIMIT $1;

-- sql/verbs/event_copies.py export_event_keys
SELECT schedule_id, by_key, job_id, opened_at, gathered FROM event_keys  WHERE job_id > $1 ORDER BY job_id LIMIT $2;

-- sql/verbs/event_copies.py export_events
SELECT seq, record, received_at, routed_at, verdicts FROM events WHERE TRUE ORDER BY seq LIMIT $1;

-- sql/verbs/event_copies.py export_events
SELECT seq, record, received_at, routed_at, verdicts FROM events WHERE seq > $1 ORDER BY seq LIMIT $2;

-- sql/verbs/event_copies.py import_event_keys
INSERT INTO event_keys (schedule_id, by_key, job_id, opened_at, gathered)
SELECT schedule_id, by_key, job_id, opened_at, gathered FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::bigint[], $5::integer[]) WITH ORDINALITY AS new (schedule_id, by_key, job_id, opened_at, gathered, place)
ORDER BY place
ON CONFLICT (schedule_id, by_key, job_id) DO UPDATE SET opened_at = excluded.opened_at, gathered = excluded.gathered;

-- sql/verbs/event_copies.py import_events
INSERT INTO events (id, source, type, received_at, kept_from, tag, record, routed_at, verdicts)
SELECT id, source, type, received_at, kept_from, tag, record, routed_at, verdicts FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[], $9::text[]) WITH ORDINALITY AS new (id, source, type, received_at, kept_from, tag, record, routed_at, verdicts, place)
ORDER BY place
ON CONFLICT (id, source) DO NOTHING;

-- sql/verbs/event_copies.py import_events
UPDATE events
SET routed_at = changed.routed_at, verdicts = changed.verdicts
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS changed (seq, routed_at, verdicts)
WHERE events.seq = changed.seq;

-- sql/verbs/event_copies.py lock_decisions
SELECT seq, routed_at
FROM events
WHERE seq = ANY($1::bigint[])
ORDER BY seq
FOR UPDATE;

-- sql/verbs/event_copies.py stored_seqs
SELECT found.*
FROM unnest($1::text[], $2::text[]) AS params (id, source)
CROSS JOIN LATERAL (SELECT id, source, seq, tag FROM events WHERE id = params.id AND source = params.source OFFSET 0) AS found;

-- sql/verbs/event_waits.py awaited_seqs
SELECT event_seq FROM event_waits  WHERE event_seq = ANY($1::bigint[]);

-- sql/verbs/event_waits.py event_at
SELECT seq, record, received_at, routed_at, verdicts FROM events WHERE seq = $1;

-- sql/verbs/event_waits.py export_event_waits
SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq FROM event_waits WHERE (job_id > $1 OR (job_id = $2 AND step > $3)) AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id) ORDER BY job_id, step LIMIT $4;

-- sql/verbs/event_waits.py export_event_waits
SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq FROM event_waits WHERE TRUE AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id) ORDER BY job_id, step LIMIT $1;

-- sql/verbs/event_waits.py export_event_waits
SELECT seq, source, id FROM events WHERE seq = ANY($1::bigint[]);

-- sql/verbs/event_waits.py first_since
SELECT seq, record, received_at, routed_at, verdicts FROM events WHERE seq > $1 AND type = $2 ORDER BY seq LIMIT 20;

-- sql/verbs/event_waits.py free
UPDATE event_waits
SET is_open = changed.is_open, event_seq = changed.event_seq, since = changed.since
FROM unnest($1::uuid[], $2::text[], $3::boolean[], $4::bigint[], $5::bigint[]) AS changed (job_id, step, is_open, event_seq, since)
WHERE event_waits.job_id = changed.job_id AND event_waits.step = changed.step;

-- sql/verbs/event_waits.py lock_live
SELECT id
FROM jobs
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/event_waits.py open_waits
SELECT found.*
FROM unnest($1::text[], $2::text[]) AS params (type, by_key)
CROSS JOIN LATERAL (SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq
FROM event_waits  WHERE is_open = TRUE AND type = params.type AND by_key = params.by_key AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id)
ORDER BY job_id, step
LIMIT 100
OFFSET 0) AS found;

-- sql/verbs/event_waits.py open_waits
SELECT is_open FROM event_waits  WHERE is_open = TRUE LIMIT 1;

-- sql/verbs/event_waits.py prune_waits
DELETE FROM event_waits
USING unnest($1::uuid[], $2::text[]) AS gone (job_id, step)
WHERE event_waits.job_id = gone.job_id AND event_waits.step = gone.step;

-- sql/verbs/event_waits.py prune_waits
SELECT job_id, step FROM event_waits WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id) LIMIT $1 FOR UPDATE SKIP LOCKED;

-- sql/verbs/event_waits.py put_waits
INSERT INTO event_waits (job_id, step, type, by_key, since, until_at, is_open, event_seq)
SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::boolean[], $8::bigint[]) WITH ORDINALITY AS new (job_id, step, type, by_key, since, until_at, is_open, event_seq, place)
ORDER BY place
ON CONFLICT (job_id, step) DO UPDATE SET type = excluded.type, by_key = excluded.by_key, since = excluded.since, until_at = excluded.until_at, is_open = excluded.is_open, event_seq = excluded.event_seq;

-- sql/verbs/event_waits.py seqs_of
SELECT found.*
FROM unnest($1::text[], $2::text[]) AS params (id, source)
CROSS JOIN LATERAL (SELECT source, id, seq FROM events WHERE id = params.id AND source = params.source OFFSET 0) AS found;

-- sql/verbs/event_waits.py types_in
SELECT found.*
FROM unnest($1::text[]) AS params (type)
CROSS JOIN LATERAL (SELECT type FROM event_waits  WHERE is_open = TRUE AND type = params.type LIMIT 1 OFFSET 0) AS found;

-- sql/verbs/event_waits.py waits_by_key
SELECT found.*
FROM unnest($1::uuid[], $2::text[]) AS params (job_id, step)
CROSS JOIN LATERAL (SELECT job_id, step, type, by_key, since, until_at, is_open, event_seq FROM event_waits WHERE job_id = params.job_id AND step = params.step OFFSET 0) AS found;

-- sql/verbs/event_waits.py wake
SELECT id, reason
FROM jobs
WHERE id = ANY($1::uuid[]) AND NOT running AND due_at > $2;

-- sql/verbs/event_waits.py wake
UPDATE jobs
SET due_at = changed.due_at
FROM unnest($1::uuid[], $2::bigint[]) AS changed (id, due_at)
WHERE jobs.id = changed.id;

-- sql/verbs/events.py carried_by
SELECT seq, job_id, schedule_id, is_read
FROM event_jobs
WHERE seq = ANY($1::bigint[])
ORDER BY seq, job_id;

-- sql/verbs/events.py events
SELECT seq, record, received_at, routed_at, verdicts
FROM events
WHERE TRUE
ORDER BY seq DESC
LIMIT $1;

-- sql/verbs/events.py events
SELECT seq, record, received_at, routed_at, verdicts
FROM events
WHERE TRUE AND seq < $1 AND type = $2 AND substr(source, 1, $3) = $4
ORDER BY seq DESC
LIMIT $5;

-- sql/verbs/events.py events_by_id
SELECT seq, record, received_at, routed_at, verdicts
FROM events
WHERE id = $1 AND TRUE
ORDER BY seq
LIMIT 10;

-- sql/verbs/events.py events_by_id
SELECT seq, record, received_at, routed_at, verdicts
FROM events
WHERE id = $1 AND source = $2
ORDER BY seq
LIMIT 10;

-- sql/verbs/events.py events_of_job
SELECT seq, record, received_at, routed_at, verdicts
FROM events
WHERE seq IN (SELECT seq FROM event_jobs
WHERE job_id = $1 AND is_read = TRUE)
ORDER BY seq;

-- sql/verbs/events.py publish
INSERT INTO events (id, source, type, received_at, kept_from, tag, record)
SELECT id, source, type, received_at, kept_from, tag, record FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[]) WITH ORDINALITY AS new (id, source, type, received_at, kept_from, tag, record, place)
ORDER BY place
ON CONFLICT (id, source) DO NOTHING;

-- sql/verbs/events.py replay_event
SELECT seq FROM events WHERE seq = $1;

-- sql/verbs/events.py replay_event
UPDATE events SET routed_at = NULL WHERE seq = $1;

-- sql/verbs/events.py stored_tags
SELECT found.*
FROM unnest($1::text[], $2::text[]) AS params (id, source)
CROSS JOIN LATERAL (SELECT id, source, tag FROM events WHERE id = params.id AND source = params.source OFFSET 0) AS found;

-- sql/verbs/events.py wanted_types
SELECT type FROM own_event_types;

-- sql/verbs/faults.py dead_letter_heads
SELECT id, at, source, reason
FROM (SELECT id, at, source, record::json ->> 0 AS reason
FROM dead_letters
WHERE TRUE
ORDER BY id DESC
LIMIT $1) AS heads;

-- sql/verbs/faults.py dead_letter_heads
SELECT id, at, source, reason
FROM (SELECT id, at, source, record::json ->> 0 AS reason
FROM dead_letters
WHERE id < $1
ORDER BY id DESC
LIMIT $2) AS heads;

-- sql/verbs/faults.py fault
SELECT fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, silenced_until, note, operator_note FROM faults WHERE fault = $1;

-- sql/verbs/faults.py fault_jobs
SELECT failed, waiting FROM (SELECT
(SELECT count(*) FROM (SELECT 1 FROM finished
WHERE fault = $1 AND state = 'failed' LIMIT $2) AS counted_finished)
AS failed,
(SELECT count(*) FROM (SELECT 1 FROM jobs
WHERE fault = $3 AND NOT running LIMIT $4) AS counted_jobs)
AS waiting) AS counted;

-- sql/verbs/faults.py faults
SELECT fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, silenced_until, note, operator_note FROM faults ORDER BY fault;

-- sql/verbs/faults.py lock_faults
SELECT fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, silenced_until, note, operator_note
FROM faults
WHERE fault = ANY($1::bigint[])
ORDER BY fault
FOR UPDATE;

-- sql/verbs/faults.py note_faults
UPDATE faults
SET queue = changed.queue, first_at = changed.first_at, last_at = changed.last_at, attempts = changed.attempts, hours = changed.hours, sample_job = changed.sample_job
FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::uuid[]) AS changed (fault, queue, first_at, last_at, attempts, hours, sample_job)
WHERE faults.fault = changed.fault;

-- sql/verbs/faults.py prune_faults
DELETE FROM faults WHERE last_at < $1;

-- sql/verbs/faults.py silence_fault
UPDATE faults
SET silenced_until = changed.silenced_until, note = changed.note
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS changed (fault, silenced_until, note)
WHERE faults.fault = changed.fault;

-- sql/verbs/faults.py with_room
INSERT INTO faults (fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job)
SELECT fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::uuid[]) WITH ORDINALITY AS new (fault, task, title, frame, process, queue, first_at, last_at, attempts, hours, sample_job, place)
ORDER BY place
ON CONFLICT (fault) DO NOTHING;

-- sql/verbs/faults.py with_room
SELECT total FROM (SELECT count(*) AS total FROM faults) AS kept;

-- sql/verbs/faults.py write_fault_note
UPDATE faults
SET operator_note = changed.operator_note
FROM unnest($1::bigint[], $2::text[]) AS changed (fault, operator_note)
WHERE faults.fault = changed.fault;

-- sql/verbs/flows.py close_flows
DELETE FROM flow_waits
USING unnest($1::uuid[], $2::uuid[]) AS gone (flow, job_id)
WHERE flow_waits.flow = gone.flow AND flow_waits.job_id = gone.job_id;

-- sql/verbs/flows.py close_flows
SELECT flow, job_id, wanted
FROM flow_waits
WHERE flow = ANY($1::uuid[])
LIMIT $2
FOR UPDATE SKIP LOCKED;

-- sql/verbs/flows.py ended_flows
SELECT flow
FROM (SELECT DISTINCT flow FROM flow_waits) AS awaited
WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.flow = awaited.flow)
AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = awaited.flow)
LIMIT $1;

-- sql/verbs/flows.py ends_of_flows
SELECT flow, state
FROM (SELECT flow,
CASE WHEN EXISTS (SELECT 1 FROM finished WHERE (finished.flow = one.flow AND state = 'failed'))
OR EXISTS (SELECT 1 FROM finished WHERE (finished.id = one.flow AND state = 'failed')) THEN 'failed'
WHEN EXISTS (SELECT 1 FROM finished WHERE (finished.flow = one.flow AND state = 'cancelled' AND cause_id IS NULL))
OR EXISTS (SELECT 1 FROM finished WHERE (finished.id = one.flow AND state = 'cancelled' AND cause_id IS NULL)) THEN 'cancelled'
ELSE 'succeeded' END AS state
FROM (SELECT DISTINCT flow FROM flow_waits
WHERE flow = ANY($1::uuid[])) AS one) AS judged;

-- sql/verbs/flows.py flow_below
SELECT flow FROM (
SELECT * FROM (SELECT flow FROM jobs
WHERE flow IS NOT NULL AND flow < $1 ORDER BY flow DESC LIMIT 1) AS of_jobs
UNION ALL
SELECT * FROM (SELECT flow FROM finished
WHERE flow IS NOT NULL AND flow < $2 ORDER BY flow DESC LIMIT 1) AS of_finished
) AS found ORDER BY flow DESC LIMIT 1;

-- sql/verbs/flows.py flow_below
SELECT flow FROM (
SELECT * FROM (SELECT flow FROM jobs
WHERE flow IS NOT NULL ORDER BY flow DESC LIMIT 1) AS of_jobs
UNION ALL
SELECT * FROM (SELECT flow FROM finished
WHERE flow IS NOT NULL ORDER BY flow DESC LIMIT 1) AS of_finished
) AS found ORDER BY flow DESC LIMIT 1;

-- sql/verbs/flows.py flow_counts
SELECT flow, state, total FROM (
SELECT flow AS flow, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, count(*) AS total
FROM jobs
WHERE flow = ANY($1::uuid[])
GROUP BY flow, CASE WHEN running THEN 'running' ELSE 'waiting' END
UNION ALL
SELECT id AS flow, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, count(*) AS total
FROM jobs
WHERE id = ANY($2::uuid[])
GROUP BY id, CASE WHEN running THEN 'running' ELSE 'waiting' END
UNION ALL
SELECT flow AS flow, state AS state, count(*) AS total
FROM finished
WHERE flow = ANY($3::uuid[])
GROUP BY flow, state
UNION ALL
SELECT id AS flow, state AS state, count(*) AS total
FROM finished
WHERE id = ANY($4::uuid[])
GROUP BY id, state
) AS counted;

-- sql/verbs/flows.py forget_waits
DELETE FROM flow_waits
USING unnest($1::uuid[], $2::uuid[]) AS gone (flow, job_id)
WHERE flow_waits.flow = gone.flow AND flow_waits.job_id = gone.job_id;

-- sql/verbs/flows.py live_flows
SELECT flow
FROM (SELECT flow FROM jobs
WHERE flow = ANY($1::uuid[])
UNION
SELECT id FROM jobs
WHERE id = ANY($2::uuid[])) AS found;

-- sql/verbs/flows.py look_at
SELECT place, state, total FROM (
SELECT 0 AS place, state, count(*) AS total
FROM (SELECT CASE WHEN running THEN 'running' ELSE 'waiting' END AS state
FROM jobs
WHERE flow = $1 LIMIT $2) AS of_jobs
GROUP BY state
UNION ALL
SELECT 1 AS place, state, count(*) AS total
FROM (SELECT state AS state
FROM finished
WHERE flow = $3 LIMIT $4) AS of_finished
GROUP BY state
) AS counted;

-- sql/verbs/held_keys.py delete_new
SELECT id FROM jobs WHERE id = ANY($1::uuid[]) AND token = 0;

-- sql/verbs/held_keys.py export_held_keys
SELECT unique_key, job_id, held_until FROM held_keys WHERE TRUE ORDER BY unique_key LIMIT $1;

-- sql/verbs/held_keys.py export_held_keys
SELECT unique_key, job_id, held_until FROM held_keys WHERE unique_key > $1 ORDER BY unique_key LIMIT $2;

-- sql/verbs/held_keys.py find_held_key
SELECT unique_key, job_id, held_until FROM held_keys WHERE unique_key = $1 AND held_until > $2;

-- sql/verbs/held_keys.py hold_keys
INSERT INTO held_keys (unique_key, job_id, held_until)
SELECT unique_key, job_id, held_until FROM unnest($1::text[], $2::uuid[], $3::bigint[]) WITH ORDINALITY AS new (unique_key, job_id, held_until, place)
ORDER BY place
ON CONFLICT (unique_key) DO UPDATE SET job_id = excluded.job_id, held_until = excluded.held_until;

-- sql/verbs/held_keys.py holders
SELECT unique_key, job_id
FROM held_keys
WHERE unique_key = ANY($1::text[]) AND held_until > $2;

-- sql/verbs/held_keys.py import_held_keys
SELECT unique_key, held_until FROM held_keys WHERE unique_key = ANY($1::text[]);

-- sql/verbs/held_keys.py prune_held_keys
DELETE FROM held_keys
USING unnest($1::text[]) AS gone (unique_key)
WHERE held_keys.unique_key = gone.unique_key;

-- sql/verbs/held_keys.py prune_held_keys
SELECT unique_key
FROM held_keys
WHERE held_until <= $1
ORDER BY held_until
LIMIT $2
FOR UPDATE SKIP LOCKED;

-- sql/verbs/history.py add_attempts
INSERT INTO attempts (job_id, token, record)
SELECT job_id, token, record FROM unnest($1::uuid[], $2::integer[], $3::text[]) WITH ORDINALITY AS new (job_id, token, record, place)
ORDER BY place
ON CONFLICT (job_id, token) DO NOTHING;

-- sql/verbs/history.py add_transitions
INSERT INTO transitions (job_id, at, went, cause, attempt, worker)
SELECT job_id, at, went, cause, attempt, worker FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::integer[], $6::text[]) WITH ORDINALITY AS new (job_id, at, went, cause, attempt, worker, place)
ORDER BY place;

-- sql/verbs/history.py attempts_of
SELECT job_id, token, record, worker, state, attempt, started_at, finished_at, error
FROM (SELECT
job_id, token, record, NULL AS worker, NULL AS state, 0 AS attempt,
NULL::bigint AS started_at, NULL::bigint AS finished_at, NULL AS error
FROM attempts
WHERE job_id = ANY($1::uuid[])
UNION ALL
SELECT
id, token, last_attempt, last_worker, state, coalesce(attempt, token), started_at,
finished_at, error
FROM finished
WHERE id = ANY($2::uuid[]) AND (last_attempt IS NOT NULL OR last_worker IS NOT NULL)) AS all_attempts
ORDER BY job_id, token;

-- sql/verbs/history.py delete_histories
DELETE FROM attempts WHERE job_id = ANY($1::uuid[]);

-- sql/verbs/history.py delete_histories
DELETE FROM job_logs WHERE job_id = ANY($1::uuid[]);

-- sql/verbs/history.py delete_histories
DELETE FROM transitions WHERE job_id = ANY($1::uuid[]);

-- sql/verbs/history.py transitions_of
SELECT job_id, at, went, cause, attempt, worker FROM transitions WHERE job_id = ANY($1::uuid[]) ORDER BY job_id, seq;

-- sql/verbs/idempotency.py export_requests
SELECT digest, fingerprint, made_at, kept_from, first_job, last_job, answer
FROM (SELECT digest AS digest, fingerprint AS fingerprint, made_at, kept_from, first_job, last_job, answer AS answer
FROM idempotency_keys
WHERE digest > $1
ORDER BY idempotency_keys.digest
LIMIT $2) AS above
ORDER BY digest;

-- sql/verbs/idempotency.py forget_requests
DELETE FROM idempotency_keys
USING unnest($1::bytea[]) AS gone (digest)
WHERE idempotency_keys.digest = gone.digest;

-- sql/verbs/idempotency.py forget_requests
SELECT digest, is_live
FROM (SELECT digest AS digest,
EXISTS (SELECT 1 FROM jobs
WHERE id BETWEEN first_job AND last_job) AS is_live
FROM idempotency_keys
WHERE kept_from < $1
ORDER BY kept_from
LIMIT $2
FOR UPDATE SKIP LOCKED) AS past;

-- sql/verbs/idempotency.py forget_requests
UPDATE idempotency_keys
SET kept_from = changed.kept_from
FROM unnest($1::bytea[], $2::bigint[]) AS changed (digest, kept_from)
WHERE idempotency_keys.digest = changed.digest;

-- sql/verbs/idempotency.py import_requests
INSERT INTO idempotency_keys (digest, fingerprint, made_at, kept_from, first_job, last_job, answer)
SELECT digest, fingerprint, made_at, kept_from, first_job, last_job, answer FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], $5::uuid[], $6::uuid[], $7::bytea[]) WITH ORDINALITY AS new (digest, fingerprint, made_at, kept_from, first_job, last_job, answer, place)
ORDER BY place
ON CONFLICT (digest) DO NOTHING;

-- sql/verbs/idempotency.py insert_requests
INSERT INTO idempotency_keys (digest, fingerprint, made_at, kept_from, first_job, last_job, answer)
SELECT digest, fingerprint, made_at, kept_from, first_job, last_job, answer FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], $5::uuid[], $6::uuid[], $7::bytea[]) WITH ORDINALITY AS new (digest, fingerprint, made_at, kept_from, first_job, last_job, answer, place)
ORDER BY place
ON CONFLICT (digest) DO NOTHING;

-- sql/verbs/idempotency.py keyed_answers
SELECT digest, fingerprint, made_at, answer
FROM (SELECT digest AS digest,
fingerprint AS fingerprint,
made_at,
answer AS answer
FROM idempotency_keys
WHERE digest = ANY($1::bytea[])) AS known;

-- sql/verbs/imports.py forget_planned
DELETE FROM dispositions
WHERE schedule_id = ANY($1::uuid[])
AND NOT EXISTS (SELECT 1 FROM jobs
WHERE jobs.id = job_id AND token > 0)
AND NOT EXISTS (SELECT 1 FROM finished
WHERE finished.id = job_id AND token > 0);

-- sql/verbs/imports.py forget_planned
SELECT id
FROM jobs
WHERE schedule_id = ANY($1::uuid[]) AND occurrence IS NOT NULL AND NOT running AND token = 0
AND NOT EXISTS (SELECT 1 FROM waits WHERE awaits = jobs.id)
ORDER BY id
FOR UPDATE;

-- sql/verbs/imports.py free_keys
SELECT key FROM schedules WHERE key = ANY($1::text[]);

-- sql/verbs/imports.py free_keys
UPDATE schedules
SET key = changed.key
FROM unnest($1::uuid[], $2::text[]) AS changed (id, key)
WHERE schedules.id = changed.id;

-- sql/verbs/imports.py insert_ended
INSERT INTO finished (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, spec, created_at, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, fault, progress, state, finished_at, cause_id, last_worker, last_attempt)
SELECT id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, spec, created_at, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, fault, progress, state, finished_at, cause_id, last_worker, last_attempt FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::uuid[], $9::bigint[], $10::text[], $11::uuid[], $12::text[], $13::bigint[], $14::integer[], $15::integer[], $16::smallint[], $17::smallint[], $18::bigint[], $19::text[], $20::text[], $21::text[], $22::text[], $23::bigint[], $24::text[], $25::text[], $26::bigint[], $27::uuid[], $28::text[], $29::text[]) WITH ORDINALITY AS new (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, spec, created_at, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, fault, progress, state, finished_at, cause_id, last_worker, last_attempt, place)
ORDER BY place;

-- sql/verbs/imports.py insert_live
INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, created_at, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, fault, progress, cursor, suspicion, held)
SELECT id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, created_at, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, fault, progress, cursor, suspicion, held FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::uuid[], $9::bigint[], $10::text[], $11::text[], $12::uuid[], $13::text[], $14::bigint[], $15::integer[], $16::integer[], $17::smallint[], $18::smallint[], $19::bigint[], $20::text[], $21::text[], $22::text[], $23::text[], $24::bigint[], $25::text[], $26::text[], $27::text[], $28::boolean[]) WITH ORDINALITY AS new (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, created_at, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, fault, progress, cursor, suspicion, held, place)
ORDER BY place
ON CONFLICT DO NOTHING;

-- sql/verbs/imports.py lock_exports
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
FROM finished
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/imports.py lock_exports
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/job_logs.py add_log_lines
INSERT INTO job_logs (job_id, number, attempt, at, level, logger, text, fields)
SELECT job_id, number, attempt, at, level, logger, text, fields FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[]) WITH ORDINALITY AS new (job_id, number, attempt, at, level, logger, text, fields, place)
ORDER BY place
ON CONFLICT (job_id, number) DO NOTHING;

-- sql/verbs/job_logs.py add_log_lines
SELECT id
FROM (SELECT id FROM jobs WHERE id = ANY($1::uuid[])
UNION ALL
SELECT id FROM finished WHERE id = ANY($2::uuid[])) AS known;

-- sql/verbs/job_logs.py select_lines
SELECT job_id, number, attempt, at, level, logger, text, fields FROM job_logs  WHERE TRUE ORDER BY job_id, number LIMIT $1;

-- sql/verbs/job_logs.py select_lines
SELECT job_id, number, attempt, at, level, logger, text, fields FROM job_logs  WHERE job_id = $1 AND number > $2 AND attempt = $3 ORDER BY number LIMIT $4;

-- sql/verbs/job_logs.py select_lines
SELECT job_id, number, attempt, at, level, logger, text, fields FROM job_logs  WHERE job_id = $1 AND number > $2 ORDER BY number LIMIT $3;

-- sql/verbs/job_logs.py select_lines
SELECT job_id, number, attempt, at, level, logger, text, fields FROM job_logs  WHERE job_id > $1 ORDER BY job_id, number LIMIT $2;

-- sql/verbs/job_search.py count_of
SELECT total FROM (SELECT count(*) AS total FROM finished  WHERE TRUE AND (flow = $1) AND (state = 'failed') AND (queue = $2) AND (substr(lane, 1, 2) = $3)) AS counted;

-- sql/verbs/job_search.py count_of
SELECT total FROM (SELECT count(*) AS total FROM jobs  WHERE TRUE AND (NOT running) AND (lane = $1)) AS counted;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM finished  WHERE TRUE AND (flow = $1) AND (state = 'failed') AND (queue = $2) AND (substr(lane, 1, 2) = $3) ORDER BY id DESC LIMIT $4) AS part0) AS chosen ORDER BY id DESC LIMIT $5 OFFSET $6;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM finished  WHERE TRUE AND (flow = $1) AND (state = 'failed') ORDER BY id DESC LIMIT $2) AS part0) AS chosen ORDER BY id DESC LIMIT $3 OFFSET $4;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM finished  WHERE TRUE AND (state = 'failed') AND (id < $1) AND (finished_at < $2) ORDER BY id DESC LIMIT $3) AS part0) AS chosen ORDER BY id DESC LIMIT $4 OFFSET $5;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM finished  WHERE TRUE AND (state = 'failed') AND (id < $1) ORDER BY id DESC LIMIT $2) AS part0) AS chosen ORDER BY id DESC LIMIT $3 OFFSET $4;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs  WHERE TRUE AND (NOT running) AND (id < $1) ORDER BY id DESC LIMIT $2) AS part0) AS chosen ORDER BY id DESC LIMIT $3 OFFSET $4;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs  WHERE TRUE AND (NOT running) AND (lane = $1) ORDER BY id DESC LIMIT $2) AS part0) AS chosen ORDER BY id DESC LIMIT $3 OFFSET $4;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs  WHERE TRUE AND (NOT running) ORDER BY id DESC LIMIT $1) AS part0) AS chosen ORDER BY id DESC LIMIT $2 OFFSET $3;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs  WHERE TRUE AND (due_at >= $1) AND (due_at < $2) AND (strpos(lower(error), $3) > 0) AND (strpos(spec, $4) > 0) AND (strpos(spec, $5) > 0) ORDER BY id DESC LIMIT $6) AS part0 UNION ALL SELECT * FROM (SELECT id FROM finished  WHERE TRUE AND (finished_at >= $7) AND (finished_at < $8) AND (strpos(lower(error), $9) > 0) AND (strpos(spec, $10) > 0) AND (strpos(spec, $11) > 0) ORDER BY id DESC LIMIT $12) AS part1) AS chosen ORDER BY id DESC LIMIT $13 OFFSET $14;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs  WHERE TRUE AND (id >= $1) AND (due_at >= $2) AND (due_at < $3) AND (strpos(lower(error), $4) > 0) AND (strpos(spec, $5) > 0) AND (strpos(spec, $6) > 0) ORDER BY id DESC LIMIT $7) AS part0 UNION ALL SELECT * FROM (SELECT id FROM finished  WHERE TRUE AND (id >= $8) AND (finished_at >= $9) AND (finished_at < $10) AND (strpos(lower(error), $11) > 0) AND (strpos(spec, $12) > 0) AND (strpos(spec, $13) > 0) ORDER BY id DESC LIMIT $14) AS part1) AS chosen ORDER BY id DESC LIMIT $15 OFFSET $16;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs  WHERE TRUE AND (schedule_id = $1) AND (id < $2) AND (queue = $3) AND (lane = $4) ORDER BY id DESC LIMIT $5) AS part0 UNION ALL SELECT * FROM (SELECT id FROM finished  WHERE TRUE AND (schedule_id = $6) AND (id < $7) AND (queue = $8) AND (lane = $9) ORDER BY id DESC LIMIT $10) AS part1) AS chosen ORDER BY id DESC LIMIT $11 OFFSET $12;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs  WHERE TRUE AND (schedule_id = $1) AND (id < $2) ORDER BY id DESC LIMIT $3) AS part0 UNION ALL SELECT * FROM (SELECT id FROM finished  WHERE TRUE AND (schedule_id = $4) AND (id < $5) ORDER BY id DESC LIMIT $6) AS part1) AS chosen ORDER BY id DESC LIMIT $7 OFFSET $8;

-- sql/verbs/job_search.py newest_ids
SELECT id FROM (SELECT * FROM (SELECT id FROM jobs  WHERE TRUE ORDER BY id DESC LIMIT $1) AS part0 UNION ALL SELECT * FROM (SELECT id FROM finished  WHERE TRUE ORDER BY id DESC LIMIT $2) AS part1) AS chosen ORDER BY id DESC LIMIT $3 OFFSET $4;

-- sql/verbs/jobs.py delete_ended
DELETE FROM finished WHERE id = ANY($1::uuid[]);

-- sql/verbs/jobs.py delete_live
DELETE FROM jobs WHERE id = ANY($1::uuid[]);

-- sql/verbs/jobs.py export_jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs  WHERE TRUE ORDER BY id LIMIT $1
) AS part0 UNION ALL SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
FROM finished  WHERE TRUE ORDER BY id LIMIT $2
) AS part1) AS chosen;

-- sql/verbs/jobs.py export_jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs  WHERE id > $1 ORDER BY id LIMIT $2
) AS part0 UNION ALL SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
FROM finished  WHERE id > $3 ORDER BY id LIMIT $4
) AS part1) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
FROM finished  WHERE id < $1 AND fault = $2 AND state = 'failed' ORDER BY id DESC LIMIT $3
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
FROM finished  WHERE state = 'cancelled' ORDER BY id DESC LIMIT $1
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
FROM finished  WHERE state = 'failed' ORDER BY id DESC LIMIT $1
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
FROM finished  WHERE state = 'succeeded' ORDER BY id DESC LIMIT $1
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs  WHERE NOT running ORDER BY id DESC LIMIT $1
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs  WHERE TRUE ORDER BY id DESC LIMIT $1
) AS part0 UNION ALL SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
FROM finished  WHERE TRUE ORDER BY id DESC LIMIT $2
) AS part1) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs  WHERE fault = $1 AND TRUE ORDER BY id DESC LIMIT $2
) AS part0 UNION ALL SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
FROM finished  WHERE fault = $3 AND TRUE AND state = 'failed' ORDER BY id DESC LIMIT $4
) AS part1 UNION ALL SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
FROM finished  WHERE fault = $5 AND TRUE AND state = 'cancelled' ORDER BY id DESC LIMIT $6
) AS part2) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs  WHERE flow = $1 AND NOT running ORDER BY id DESC LIMIT $2
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs  WHERE id < $1 AND fault = $2 AND NOT running ORDER BY id DESC LIMIT $3
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs  WHERE running ORDER BY id DESC LIMIT $1
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs_by_id
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs  WHERE id = ANY($1::uuid[])
UNION ALL
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
FROM finished  WHERE id = ANY($2::uuid[]);

-- sql/verbs/jobs.py occurrence_jobs
SELECT id
FROM (
SELECT id, due_at, occurrence AS run_time FROM (
SELECT id, due_at, occurrence FROM finished
WHERE schedule_id = $1 AND occurrence IS NOT NULL
ORDER BY occurrence DESC, due_at DESC, id DESC
LIMIT $2
) AS planned
UNION ALL
SELECT id, due_at, due_at AS run_time FROM (
SELECT id, due_at, occurrence FROM finished
WHERE schedule_id = $3 AND occurrence IS NULL
ORDER BY occurrence DESC, due_at DESC, id DESC
LIMIT $4
) AS others
) AS chosen
ORDER BY run_time DESC, due_at DESC, id DESC
LIMIT $5 OFFSET $6;

-- sql/verbs/jobs.py occurrence_jobs
SELECT id
FROM (
SELECT id, due_at, occurrence AS run_time FROM (
SELECT id, due_at, occurrence FROM jobs
WHERE schedule_id = $1 AND occurrence IS NOT NULL
ORDER BY occurrence DESC, due_at DESC, id DESC
LIMIT $2
) AS planned
UNION ALL
SELECT id, due_at, due_at AS run_time FROM (
SELECT id, due_at, occurrence FROM jobs
WHERE schedule_id = $3 AND occurrence IS NULL
ORDER BY occurrence DESC, due_at DESC, id DESC
LIMIT $4
) AS others
) AS chosen
ORDER BY run_time DESC, due_at DESC, id DESC
LIMIT $5 OFFSET $6;

-- sql/verbs/lateness.py list_heads
SELECT queue, priority, lane, due_at, id
FROM jobs
WHERE NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND grp >= '' AND (queue, priority, lane, due_at) > ($1, $2, $3, 9223372036854775807)
ORDER BY queue, priority, lane, due_at, id
LIMIT 1;

-- sql/verbs/lateness.py list_heads
SELECT queue, priority, lane, due_at, id
FROM jobs
WHERE NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND grp >= '' AND queue = $1
ORDER BY queue, priority, lane, due_at, id
LIMIT 1;

-- sql/verbs/lateness.py list_heads
SELECT queue, priority, lane, due_at, id
FROM jobs
WHERE NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND grp IS NULL AND (queue, priority, lane, due_at) > ($1, $2, $3, 9223372036854775807)
ORDER BY queue, priority, lane, due_at, id
LIMIT 1;

-- sql/verbs/lateness.py list_heads
SELECT queue, priority, lane, due_at, id
FROM jobs
WHERE NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND grp IS NULL AND queue = $1
ORDER BY queue, priority, lane, due_at, id
LIMIT 1;

-- sql/verbs/lateness.py note_in_time
UPDATE queues SET late_since = NULL WHERE name = $1 AND late_since IS NOT NULL;

-- sql/verbs/lateness.py note_late
UPDATE queues SET late_since = $1
WHERE name = $2 AND late_since IS NULL AND late_after IS NOT NULL;

-- sql/verbs/lateness.py watched_queues
SELECT name, paused, late_after, late_since FROM queues  WHERE late_after IS NOT NULL ORDER BY name;

-- sql/verbs/live.py add_stream_batch
INSERT INTO stream_batches (at, source, seq, missed, body) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (at, source, seq) DO NOTHING;

-- sql/verbs/live.py prune_stream
DELETE FROM stream_batches
USING unnest($1::bigint[], $2::text[], $3::bigint[]) AS gone (at, source, seq)
WHERE stream_batches.at = gone.at AND stream_batches.source = gone.source AND stream_batches.seq = gone.seq;

-- sql/verbs/live.py prune_stream
DELETE FROM stream_watchers WHERE until < $1;

-- sql/verbs/live.py prune_stream
SELECT at, source, seq
FROM stream_batches
WHERE at < $1
ORDER BY at, source, seq
LIMIT $2
FOR UPDATE SKIP LOCKED;

-- sql/verbs/live.py stream_batches
SELECT at, source, seq, missed, body
FROM stream_batches
WHERE at >= $1 AND source <> $2
ORDER BY at, source, seq
LIMIT $3;

-- sql/verbs/live.py stream_watchers
SELECT process FROM stream_watchers WHERE until > $1 ORDER BY process;

-- sql/verbs/live.py watch_stream
INSERT INTO stream_watchers (process, until) VALUES ($1, $2)
ON CONFLICT (process) DO UPDATE SET until = excluded.until;

-- sql/verbs/overlap.py ask_to_stop
SELECT id, attempt, worker
FROM jobs
WHERE id = ANY($1::uuid[]) AND running AND cancel_reason IS NULL
ORDER BY id
FOR UPDATE;

-- sql/verbs/overlap.py ask_to_stop
UPDATE jobs
SET cancel_reason = changed.cancel_reason
FROM unnest($1::uuid[], $2::text[]) AS changed (id, cancel_reason)
WHERE jobs.id = changed.id;

-- sql/verbs/overlap.py find_earlier
SELECT id, worker
FROM jobs
WHERE schedule_id = $1 AND id <> $2 AND (running
OR token > 0
OR (due_at < $3 OR due_at = $4 AND id < $5) AND (start_by IS NULL OR start_by >= $6)
)
ORDER BY CASE WHEN running THEN 0 ELSE 1 END, due_at DESC, id DESC;

-- sql/verbs/own_events.py wanted_of
SELECT type
FROM own_event_types
WHERE type = ANY($1::text[]);

-- sql/verbs/payloads.py drop_payloads
UPDATE finished
SET spec = changed.spec
FROM unnest($1::uuid[], $2::text[]) AS changed (id, spec)
WHERE finished.id = changed.id;

-- sql/verbs/plans.py allow_late
SELECT id, start_by, attempt, worker
FROM jobs
WHERE id = ANY($1::uuid[])
AND NOT running AND start_by IS NOT NULL
ORDER BY id
FOR UPDATE;

-- sql/verbs/plans.py allow_late
UPDATE jobs
SET start_by = changed.start_by, lapsed = changed.lapsed
FROM unnest($1::uuid[], $2::bigint[], $3::boolean[]) AS changed (id, start_by, lapsed)
WHERE jobs.id = changed.id;

-- sql/verbs/plans.py drop_planned
SELECT id, schedule_id, occurrence, start_by, due_at FROM jobs WHERE id = ANY($1::uuid[]) ORDER BY id;

-- sql/verbs/plans.py insert_jobs
INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, created_at, held)
SELECT id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, created_at, held FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::uuid[], $9::bigint[], $10::text[], $11::text[], $12::uuid[], $13::text[], $14::bigint[], $15::boolean[]) WITH ORDINALITY AS new (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, flow, spec, created_at, held, place)
ORDER BY place
ON CONFLICT DO NOTHING;

-- sql/verbs/plans.py insert_jobs
SELECT id FROM finished WHERE id = ANY($1::uuid[]);

-- sql/verbs/plans.py raise_watermarks
UPDATE schedules
SET planned_through = changed.planned_through, plan_at = changed.plan_at, status = changed.status
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[]) AS changed (id, planned_through, plan_at, status)
WHERE schedules.id = changed.id;

-- sql/verbs/plans.py turn_into_skip
UPDATE dispositions SET job_id = NULL, reason = $1
WHERE schedule_id = $2 AND first = $3 AND job_id = $4;

-- sql/verbs/prune.py delete_jobs
DELETE FROM finished WHERE id = ANY($1::uuid[]);

-- sql/verbs/prune.py delete_jobs
DELETE FROM finished_rest WHERE id = ANY($1::uuid[]);

-- sql/verbs/prune.py delete_jobs
SELECT id
FROM finished
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/prune.py delete_jobs
SELECT id
FROM finished_rest
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/prune.py overdue_jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs  WHERE lapsed = TRUE AND start_by < $1 AND start_by IS NOT NULL AND NOT running ORDER BY start_by LIMIT $2
) AS part0 UNION ALL SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs  WHERE lapsed = FALSE AND start_by < $3 AND start_by IS NOT NULL AND NOT running ORDER BY start_by LIMIT $4
) AS part1) AS chosen;

-- sql/verbs/prune.py past_jobs
SELECT id FROM (
SELECT * FROM (SELECT id, finished_at FROM finished
WHERE state = 'succeeded' AND finished_at < $1
ORDER BY finished_at
LIMIT $2) AS succeeded
UNION ALL
SELECT * FROM (SELECT id, finished_at FROM finished
WHERE state = 'cancelled' AND finished_at < $3
ORDER BY finished_at
LIMIT $4) AS cancelled
UNION ALL
SELECT * FROM (SELECT id, finished_at FROM finished
WHERE state = 'failed' AND finished_at < $5
ORDER BY finished_at
LIMIT $6) AS failed
) AS past ORDER BY finished_at, id LIMIT $7;

-- sql/verbs/prune.py past_jobs
SELECT id FROM (
SELECT * FROM (SELECT id, finished_at FROM finished_rest
WHERE state = 'succeeded' AND finished_at < $1
ORDER BY finished_at
LIMIT $2) AS succeeded
UNION ALL
SELECT * FROM (SELECT id, finished_at FROM finished_rest
WHERE state = 'cancelled' AND finished_at < $3
ORDER BY finished_at
LIMIT $4) AS cancelled
UNION ALL
SELECT * FROM (SELECT id, finished_at FROM finished_rest
WHERE state = 'failed' AND finished_at < $5
ORDER BY finished_at
LIMIT $6) AS failed
) AS past ORDER BY finished_at, id LIMIT $7;

-- sql/verbs/prune.py prune_dead_letters
SELECT id FROM dead_letters  WHERE at < $1 ORDER BY at LIMIT $2;

-- sql/verbs/prune.py prune_dispositions
DELETE FROM dispositions
USING unnest($1::uuid[], $2::bigint[]) AS gone (schedule_id, first)
WHERE dispositions.schedule_id = gone.schedule_id AND dispositions.first = gone.first;

-- sql/verbs/prune.py prune_dispositions
SELECT schedule_id, first
FROM dispositions
WHERE last < $1
AND (job_id IS NULL
OR NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id))
ORDER BY last
LIMIT $2
FOR UPDATE SKIP LOCKED;

-- sql/verbs/prune.py prune_meters
DELETE FROM meters
USING unnest($1::text[], $2::text[]) AS gone (queue, grp)
WHERE meters.queue = gone.queue AND meters.grp = gone.grp;

-- sql/verbs/prune.py prune_meters
SELECT queue, grp
FROM meters
WHERE full_at < $1
LIMIT $2
FOR UPDATE SKIP LOCKED;

-- sql/verbs/prune_events.py delete_events
DELETE FROM event_jobs WHERE seq = ANY($1::bigint[]);

-- sql/verbs/prune_events.py delete_events
DELETE FROM events WHERE seq = ANY($1::bigint[]);

-- sql/verbs/prune_events.py delete_keys
DELETE FROM event_keys WHERE job_id = ANY($1::uuid[]);

-- sql/verbs/prune_events.py prune_events
SELECT seq
FROM events
WHERE kept_from < $1 AND routed_at IS NOT NULL
ORDER BY kept_from
LIMIT $2
FOR UPDATE SKIP LOCKED;

-- sql/verbs/prune_events.py prune_events
UPDATE events
SET kept_from = changed.kept_from
FROM unnest($1::bigint[], $2::bigint[]) AS changed (seq, kept_from)
WHERE events.seq = changed.seq;

-- sql/verbs/prune_events.py stored_jobs
SELECT id FROM finished  WHERE id = ANY($1::uuid[]);

-- sql/verbs/prune_events.py stored_jobs
SELECT id FROM jobs  WHERE id = ANY($1::uuid[]);

-- sql/verbs/pulses.py count_dead_letters
SELECT total
FROM (SELECT count(*) AS total
FROM (SELECT id FROM dead_letters LIMIT 10001) AS found) AS counted;

-- sql/verbs/pulses.py count_depths
SELECT record FROM workers;

-- sql/verbs/pulses.py fold_history
DELETE FROM gauges WHERE resolution = $1 AND at >= $2 AND at < $3;

-- sql/verbs/pulses.py fold_history
DELETE FROM pulses WHERE resolution = $1 AND at >= $2 AND at < $3;

-- sql/verbs/pulses.py newest_sample
SELECT body FROM gauges WHERE resolution = $1 ORDER BY at DESC LIMIT 1;

-- sql/verbs/pulses.py oldest_history
SELECT at FROM gauges WHERE resolution = $1 ORDER BY at LIMIT 1;

-- sql/verbs/pulses.py oldest_history
SELECT at FROM pulses WHERE resolution = $1 ORDER BY at LIMIT 1;

-- sql/verbs/pulses.py pulses
SELECT at, source, totals
FROM pulses
WHERE resolution = $1 AND at >= $2 AND at < $3
ORDER BY at DESC, source DESC
LIMIT $4;

-- sql/verbs/pulses.py pulses
SELECT at, source, totals, series
FROM pulses
WHERE resolution = $1 AND at >= $2 AND at < $3
ORDER BY at DESC, source DESC
LIMIT $4;

-- sql/verbs/pulses.py put_pulses
INSERT INTO pulses (resolution, at, source, totals, series)
SELECT resolution, at, source, totals, series FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS new (resolution, at, source, totals, series, place)
ORDER BY place
ON CONFLICT (resolution, at, source) DO NOTHING;

-- sql/verbs/pulses.py put_samples
INSERT INTO gauges (resolution, at, body)
SELECT resolution, at, body FROM unnest($1::integer[], $2::bigint[], $3::text[]) WITH ORDINALITY AS new (resolution, at, body, place)
ORDER BY place
ON CONFLICT (resolution, at) DO NOTHING;

-- sql/verbs/pulses.py samples
SELECT body
FROM (SELECT at, body FROM gauges
WHERE resolution = $1 AND at >= $2 AND at < $3 ORDER BY at DESC LIMIT $4) AS chosen
ORDER BY at DESC;

-- sql/verbs/pulses.py samples
SELECT body
FROM (SELECT at, substr(body, 1, 400) AS body FROM gauges
WHERE resolution = $1 AND at >= $2 AND at < $3 ORDER BY at DESC LIMIT $4) AS chosen
ORDER BY at DESC;

-- sql/verbs/queues.py limit_queue
DELETE FROM meters WHERE queue = $1 AND grp = '';

-- sql/verbs/queues.py limit_queue
DELETE FROM meters WHERE queue = $1 AND grp > '';

-- sql/verbs/queues.py limit_queue
DELETE FROM turns WHERE queue = $1;

-- sql/verbs/queues.py limit_queue
UPDATE queues SET
limits = $1::text,
limited_at = CASE WHEN $2::text IS NOT NULL THEN coalesce(limited_at, now()) END,
is_counted = is_counted AND $3::text IS NOT NULL
WHERE name = $4;

-- sql/verbs/queues.py lock_limits
SELECT limits FROM queues WHERE name = $1 FOR UPDATE;

-- sql/verbs/queues.py name_queues
INSERT INTO queues (name, paused)
SELECT name, paused FROM unnest($1::text[], $2::boolean[]) WITH ORDINALITY AS new (name, paused, place)
ORDER BY place
ON CONFLICT (name) DO NOTHING;

-- sql/verbs/queues.py pause_queue
INSERT INTO queues (name, paused, pause) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, pause = excluded.pause;

-- sql/verbs/queues.py queue_names
SELECT name FROM queues ORDER BY name;

-- sql/verbs/queues.py store_buckets
INSERT INTO meters (queue, grp, full_at)
SELECT queue, grp, full_at FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS new (queue, grp, full_at, place)
ORDER BY place
ON CONFLICT (queue, grp) DO UPDATE SET full_at = excluded.full_at;

-- sql/verbs/queues.py unnamed_queues
SELECT name FROM queues WHERE name = ANY($1::text[]);

-- sql/verbs/queues.py watch_queue
UPDATE queues SET late_after = $1 WHERE name = $2;

-- sql/verbs/queues.py watch_queue
UPDATE queues SET late_after = NULL, late_since = NULL WHERE name = $1;

-- sql/verbs/reschedule.py give_due_times
UPDATE jobs
SET due_at = changed.due_at, start_by = changed.start_by, lapsed = changed.lapsed
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::boolean[]) AS changed (id, due_at, start_by, lapsed)
WHERE jobs.id = changed.id;

-- sql/verbs/reschedule.py reschedule
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow, token, attempt, lost, released, reason, cancel_reason, result, error,
fault, cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
NULL::uuid AS cause_id
FROM jobs
WHERE id = ANY($1::uuid[]) AND NOT running
FOR UPDATE;

-- sql/verbs/routes.py add_carried
INSERT INTO event_jobs (seq, job_id, schedule_id, is_read)
SELECT seq, job_id, schedule_id, is_read FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::boolean[]) WITH ORDINALITY AS new (seq, job_id, schedule_id, is_read, place)
ORDER BY place
ON CONFLICT (seq, job_id) DO NOTHING;

-- sql/verbs/routes.py event_schedules
SELECT id, version FROM schedules  WHERE on_event = TRUE;

-- sql/verbs/routes.py have_versions
SELECT id, version
FROM schedules
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR SHARE;

-- sql/verbs/routes.py job_places
SELECT id, due_at, waits
FROM (SELECT id, due_at, (NOT running AND (token = 0 OR start_by IS NOT NULL)) AS waits
FROM jobs
WHERE id = ANY($1::uuid[])) AS found;

-- sql/verbs/routes.py keyed_rows
SELECT found.*
FROM unnest($1::uuid[], $2::text[]) AS params (schedule_id, by_key)
CROSS JOIN LATERAL (SELECT schedule_id, by_key, job_id, opened_at, gathered
FROM event_keys
WHERE schedule_id = params.schedule_id AND by_key = params.by_key
OFFSET 0) AS found;

-- sql/verbs/routes.py leave_unread
UPDATE event_jobs  SET is_read = FALSE
WHERE job_id = ANY($1::uuid[]) AND is_read = TRUE;

-- sql/verbs/routes.py lock_unrouted
SELECT seq
FROM events
WHERE seq = ANY($1::bigint[]) AND routed_at IS NULL
ORDER BY seq
FOR UPDATE;

-- sql/verbs/routes.py lock_unstarted
SELECT id
FROM jobs
WHERE id = ANY($1::uuid[]) AND NOT running AND (token = 0 OR start_by IS NOT NULL)
ORDER BY id
FOR UPDATE;

-- sql/verbs/routes.py postpone
UPDATE jobs
SET due_at = changed.due_at
FROM unnest($1::uuid[], $2::bigint[]) AS changed (id, due_at)
WHERE jobs.id = changed.id;

-- sql/verbs/routes.py put_keyed
DELETE FROM event_keys
USING unnest($1::uuid[], $2::text[], $3::uuid[]) AS gone (schedule_id, by_key, job_id)
WHERE event_keys.schedule_id = gone.schedule_id AND event_keys.by_key = gone.by_key AND event_keys.job_id = gone.job_id;

-- sql/verbs/routes.py put_keyed
INSERT INTO event_keys (schedule_id, by_key, job_id, opened_at, gathered)
SELECT schedule_id, by_key, job_id, opened_at, gathered FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::bigint[], $5::integer[]) WITH ORDINALITY AS new (schedule_id, by_key, job_id, opened_at, gathered, place)
ORDER BY place
ON CONFLICT (schedule_id, by_key, job_id) DO UPDATE SET opened_at = excluded.opened_at, gathered = excluded.gathered;

-- sql/verbs/routes.py route
UPDATE events
SET routed_at = changed.routed_at, verdicts = changed.verdicts
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS changed (seq, routed_at, verdicts)
WHERE events.seq = changed.seq;

-- sql/verbs/routes.py unrouted_events
SELECT seq, record, received_at, routed_at, verdicts
FROM events
WHERE routed_at IS NULL
ORDER BY seq
LIMIT $1;

-- sql/verbs/schedules.py delete_own_types
DELETE FROM own_event_types WHERE schedule_id = ANY($1::uuid[]);

-- sql/verbs/schedules.py due_schedules
SELECT id, key, status, planned_through, plan_at, version, spec
FROM schedules
WHERE status = 'active' AND plan_at IS NOT NULL AND plan_at <= $1
ORDER BY plan_at
LIMIT $2;

-- sql/verbs/schedules.py export_schedules
SELECT id, key, status, planned_through, plan_at, version, spec FROM schedules WHERE TRUE ORDER BY id LIMIT $1;

-- sql/verbs/schedules.py export_schedules
SELECT id, key, status, planned_through, plan_at, version, spec FROM schedules WHERE id > $1 ORDER BY id LIMIT $2;

-- sql/verbs/schedules.py hold_statuses
SELECT id, status
FROM schedules
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR SHARE;

-- sql/verbs/schedules.py insert_own_types
INSERT INTO own_event_types (type, schedule_id)
SELECT type, schedule_id FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS new (type, schedule_id, place)
ORDER BY place;

-- sql/verbs/schedules.py insert_schedules
INSERT INTO schedules (id, key, search, status, planned_through, plan_at, version, on_event, owner, spec)
SELECT id, key, search, status, planned_through, plan_at, version, on_event, owner, spec FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::integer[], $8::boolean[], $9::text[], $10::text[]) WITH ORDINALITY AS new (id, key, search, status, planned_through, plan_at, version, on_event, owner, spec, place)
ORDER BY place;

-- sql/verbs/schedules.py insert_schedules
INSERT INTO schedules (id, key, search, status, planned_through, plan_at, version, on_event, owner, spec)
SELECT id, key, search, status, planned_through, plan_at, version, on_event, owner, spec FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::integer[], $8::boolean[], $9::text[], $10::text[]) WITH ORDINALITY AS new (id, key, search, status, planned_through, plan_at, version, on_event, owner, spec, place)
ORDER BY place
ON CONFLICT (id) DO UPDATE SET key = excluded.key, search = excluded.search, status = excluded.status, planned_through = excluded.planned_through, plan_at = excluded.plan_at, version = excluded.version, on_event = excluded.on_event, owner = excluded.owner, spec = excluded.spec;

-- sql/verbs/schedules.py lock_schedules
SELECT id, key, status, planned_through, plan_at, version, spec
FROM schedules
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/schedules.py lock_watermarks
SELECT id, version, status, planned_through, plan_at
FROM schedules
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/schedules.py next_plan_at
SELECT plan_at
FROM schedules
WHERE status = 'active' AND plan_at IS NOT NULL
ORDER BY plan_at
LIMIT 1;

-- sql/verbs/schedules.py refuse_taken_key
SELECT id FROM schedules WHERE key = $1 AND id <> $2;

-- sql/verbs/schedules.py rewrite_schedule
UPDATE schedules
SET key = $1, search = $2, status = $3, version = $4, on_event = $5,
owner = $6, spec = $7
WHERE id = $8;

-- sql/verbs/schedules.py schedule_by_key
SELECT id, key, status, planned_through, plan_at, version, spec FROM schedules WHERE key = $1;

-- sql/verbs/schedules.py schedules
SELECT id, key, status, planned_through, plan_at, version, spec
FROM schedules
WHERE TRUE
ORDER BY id DESC LIMIT $1 OFFSET $2;

-- sql/verbs/schedules.py schedules
SELECT id, key, status, planned_through, plan_at, version, spec
FROM schedules
WHERE TRUE AND status = $1 AND strpos(search, $2) > 0
ORDER BY id DESC LIMIT $3 OFFSET $4;

-- sql/verbs/schedules.py schedules
SELECT total FROM (SELECT count(*) AS total
FROM schedules
WHERE TRUE
) AS counted;

-- sql/verbs/schedules.py schedules
SELECT total FROM (SELECT count(*) AS total
FROM schedules
WHERE TRUE AND status = $1 AND strpos(search, $2) > 0
) AS counted;

-- sql/verbs/schedules.py schedules_by_id
SELECT id, key, status, planned_through, plan_at, version, spec FROM schedules WHERE id = ANY($1::uuid[]);

-- sql/verbs/schedules.py schedules_of_owner
SELECT id, key, status, planned_through, plan_at, version, spec FROM schedules  WHERE owner = $1 ORDER BY id;

-- sql/verbs/sweeps.py sweep
SELECT id, finished_at, queue
FROM finished
WHERE state = $1 AND finished_at >= $2 AND (finished_at > $3 OR id > $4) AND finished_at < $5
ORDER BY finished_at, id
LIMIT $6;

-- sql/verbs/timeline.py forgotten_between
SELECT found.*
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS params (schedule_id, first, last)
CROSS JOIN LATERAL (SELECT schedule_id, first
FROM (
SELECT schedule_id, first, job_id
FROM dispositions
WHERE schedule_id = params.schedule_id AND
first <= params.last
AND first >= coalesce((SELECT first FROM dispositions
WHERE schedule_id = params.schedule_id AND first <= params.first
ORDER BY first DESC LIMIT 1), params.first)
AND TRUE
ORDER BY first DESC
LIMIT 2000
) AS looked
WHERE job_id IS NOT NULL AND first >= params.first
AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = looked.job_id)
AND NOT EXISTS (SELECT 1 FROM finished WHERE finished.id = looked.job_id)
OFFSET 0) AS found;

-- sql/verbs/timeline.py run_counts
SELECT found.*
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS params (schedule_id, first, last)
CROSS JOIN LATERAL (SELECT schedule_id, at, state, total, first_at
FROM (
SELECT schedule_id, at, state, count(*) AS total, min(due_at) AS first_at
FROM (SELECT schedule_id, due_at, due_at - (due_at - params.first) % 60000000 AS at, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state
FROM jobs
WHERE schedule_id = params.schedule_id
AND due_at >= params.first AND due_at < params.last
ORDER BY due_at DESC
LIMIT 1000
) AS runs
GROUP BY schedule_id, at, state
) AS counted
OFFSET 0) AS found;

-- sql/verbs/timeline.py run_counts
SELECT found.*
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS params (schedule_id, first, last)
CROSS JOIN LATERAL (SELECT schedule_id, at, state, total, first_at
FROM (
SELECT schedule_id, at, state, count(*) AS total, min(due_at) AS first_at
FROM (SELECT schedule_id, due_at, due_at - (due_at - params.first) % 60000000 AS at, state
FROM finished
WHERE schedule_id = params.schedule_id
AND due_at >= params.first AND due_at < params.last
ORDER BY due_at DESC
LIMIT 1000
) AS runs
GROUP BY schedule_id, at, state
) AS counted
OFFSET 0) AS found;

-- sql/verbs/timeline.py runs_between
SELECT found.*
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS params (schedule_id, first, last)
CROSS JOIN LATERAL (SELECT id, schedule_id, state, due_at, occurrence, started_at, finished_at, attempt, reason FROM (SELECT id, schedule_id, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, due_at, occurrence, started_at, NULL AS finished_at, coalesce(attempt, token) AS attempt, reason
FROM jobs
WHERE schedule_id = params.schedule_id
AND due_at >= params.first AND due_at < params.last
ORDER BY due_at DESC
LIMIT 200
) AS runs OFFSET 0) AS found;

-- sql/verbs/timeline.py runs_between
SELECT found.*
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS params (schedule_id, first, last)
CROSS JOIN LATERAL (SELECT id, schedule_id, state, due_at, occurrence, started_at, finished_at, attempt, reason FROM (SELECT id, schedule_id, state, due_at, occurrence, started_at, finished_at, coalesce(attempt, token) AS attempt, reason
FROM finished
WHERE schedule_id = params.schedule_id
AND due_at >= params.first AND due_at < params.last
ORDER BY due_at DESC
LIMIT 200
) AS runs OFFSET 0) AS found;

-- sql/verbs/timeline.py skips_between
SELECT found.*
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS params (schedule_id, first, last)
CROSS JOIN LATERAL (SELECT schedule_id, first, last, reason
FROM (
SELECT schedule_id, first, last, reason, job_id
FROM dispositions
WHERE schedule_id = params.schedule_id AND
first <= params.last
AND first >= coalesce((SELECT first FROM dispositions
WHERE schedule_id = params.schedule_id AND first <= params.first
ORDER BY first DESC LIMIT 1), params.first)
AND TRUE
ORDER BY first DESC
LIMIT 2000
) AS looked
WHERE job_id IS NULL AND last >= params.first
OFFSET 0) AS found;

-- sql/verbs/withdrawals.py changed_among
SELECT job_id
FROM (SELECT DISTINCT job_id FROM transitions
WHERE job_id = ANY($1::uuid[])) AS changed;

-- sql/verbs/withdrawals.py lock_untouched
SELECT id, token
FROM jobs
WHERE id = ANY($1::uuid[]) AND NOT running
ORDER BY id
FOR UPDATE;

-- sql/verbs/workers.py forget_workers
DELETE FROM workers
WHERE id = ANY($1::text[])
AND NOT EXISTS (SELECT 1 FROM jobs
WHERE worker = workers.id AND running);

-- sql/verbs/workers.py forget_workers
SELECT record
FROM workers
WHERE id = ANY($1::text[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/workers.py hand_over
SELECT token FROM jobs WHERE id = $1 AND token = $2 AND running AND worker = $3;

-- sql/verbs/workers.py hand_over
UPDATE jobs
SET worker = $1, lease_until = $2, timed = TRUE
WHERE id = $3 AND token = $4 AND running AND worker <> $5;

-- sql/verbs/workers.py held_leases
SELECT id, token, cancel_reason
FROM jobs
WHERE worker = $1 AND running
ORDER BY id;

-- sql/verbs/workers.py rewrite_workers
UPDATE workers SET record = record WHERE id = ANY($1::text[]);

-- sql/verbs/workers.py workers
SELECT record, running
FROM (SELECT id, record,
(SELECT count(*) FROM jobs
WHERE worker = workers.id AND running) AS running
FROM workers) AS counted
ORDER BY id;
