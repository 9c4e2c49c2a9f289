-- What `onbeat.stores.sql` composes for postgres, by file and function below
-- `src/onbeat/stores`. Values are `$1`, `$2`; of several rows one is shown.
-- Write this file anew: WRITE_STATEMENTS=1 .venv/bin/pytest tests/stores/sql/test_statements.py
-- See a plan: EXPLAIN (GENERIC_PLAN), with SETTINGS of `postgres/connection.py` and the search_path.

-- sql/verbs/access.py add_key
INSERT INTO api_keys (name, digest, record, used_at) VALUES ($1, $2, $3, $4)
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

-- sql/verbs/access.py secret
INSERT INTO secrets (name, value) VALUES ('tokens', $1)
ON CONFLICT (name) DO NOTHING;

-- sql/verbs/access.py stored_secret
SELECT value FROM secrets WHERE name = 'tokens';

-- sql/verbs/access.py stored_secret
SELECT value FROM secrets WHERE name = 'tokens' FOR UPDATE;

-- sql/verbs/cancel_and_retry.py lock_unsuccessful
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress
FROM finished
WHERE id = ANY($1::uuid[]) AND state IN ('failed', 'cancelled')
ORDER BY id
FOR UPDATE;

-- sql/verbs/cancel_and_retry.py move_back
INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, created_at, token, started_at, held, blocked_by, awaited)
SELECT id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, created_at, token, started_at, held, blocked_by, awaited FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::uuid[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::integer[], $15::bigint[], $16::boolean[], $17::integer[], $18::boolean[]) WITH ORDINALITY AS new (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, created_at, token, started_at, held, blocked_by, awaited, place)
ORDER BY place
ON CONFLICT DO NOTHING;

-- sql/verbs/counts.py count_ended
SELECT state, total FROM (SELECT state, count(*) AS total FROM finished  GROUP BY state) AS counted;

-- sql/verbs/counts.py count_live
SELECT queue, lane, waiting, due, oldest, running FROM (
SELECT queue AS queue, lane AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= $1 THEN 1 END) AS due, min(due_at) AS oldest, 0 AS running
FROM jobs  WHERE NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND grp IS NULL
GROUP BY queue, priority, lane
UNION ALL
SELECT queue AS queue, lane AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= $2 THEN 1 END) AS due, min(due_at) AS oldest, 0 AS running
FROM jobs  WHERE NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND grp >= ''
GROUP BY queue, priority, lane
UNION ALL
SELECT queue AS queue, lane AS lane, count(*) AS waiting,
count(CASE WHEN due_at <= $3 AND blocked_by = 0 THEN 1 END) AS due, min(CASE WHEN blocked_by = 0 THEN due_at END) AS oldest, 0 AS running
FROM jobs  WHERE NOT running AND (blocked_by <> 0 OR held OR lapsed)
GROUP BY queue, lane
UNION ALL
SELECT queue, NULL, 0, 0, NULL, count(*)
FROM jobs  WHERE running
GROUP BY queue
) AS counted;

-- sql/verbs/counts.py queues
SELECT name, paused, limits FROM queues  WHERE paused OR limits IS NOT NULL;

-- sql/verbs/counts.py stats
SELECT record FROM workers;

-- sql/verbs/counts.py stats
SELECT status, total FROM (SELECT status, count(*) AS total FROM schedules GROUP BY status) AS counted;

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

-- sql/verbs/dependents.py add_waits
INSERT INTO waits (awaits, job_id, any_end)
SELECT awaits, job_id, any_end FROM unnest($1::uuid[], $2::uuid[], $3::boolean[]) WITH ORDINALITY AS new (awaits, job_id, any_end, place)
ORDER BY place;

-- sql/verbs/dependents.py cascade
INSERT INTO cascades (job_id, state)
SELECT job_id, state FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS new (job_id, state, place)
ORDER BY place
ON CONFLICT (job_id) DO UPDATE SET state = excluded.state;

-- sql/verbs/dependents.py delete_waits
DELETE FROM waits WHERE job_id = ANY($1::uuid[]);

-- sql/verbs/dependents.py free
DELETE FROM waits
USING unnest($1::uuid[], $2::uuid[]) AS gone (awaits, job_id)
WHERE waits.awaits = gone.awaits AND waits.job_id = gone.job_id;

-- sql/verbs/dependents.py has_cascades
SELECT job_id FROM cascades LIMIT 1;

-- sql/verbs/dependents.py lock_ended
SELECT id FROM finished  WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE;

-- sql/verbs/dependents.py lock_ended
SELECT id FROM jobs  WHERE id = ANY($1::uuid[]);

-- sql/verbs/dependents.py lock_jobs
SELECT id, worker, blocked_by, awaited
FROM jobs
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py lock_waiting
SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec, created_at
FROM jobs
WHERE id = ANY($1::uuid[]) AND NOT running
AND (token = 0 OR start_by IS NOT NULL)
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py lock_waiting
SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec, created_at
FROM jobs
WHERE id = ANY($1::uuid[]) AND NOT running
ORDER BY id
FOR UPDATE;

-- sql/verbs/dependents.py move_cancelled
INSERT INTO finished (id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec, created_at, state, finished_at, reason)
SELECT id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec, created_at, state, finished_at, reason FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::smallint[], $5::text[], $6::bigint[], $7::text[], $8::uuid[], $9::bigint[], $10::text[], $11::integer[], $12::smallint[], $13::smallint[], $14::bigint[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::bigint[], $21::text[], $22::bigint[], $23::text[]) WITH ORDINALITY AS new (id, attempt, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap, token, lost, released, started_at, cancel_reason, result, error, progress, spec, created_at, state, finished_at, reason, place)
ORDER BY place;

-- sql/verbs/dependents.py rewrite_waits
UPDATE jobs
SET blocked_by = changed.blocked_by, awaited = changed.awaited
FROM unnest($1::uuid[], $2::integer[], $3::boolean[]) AS changed (id, blocked_by, awaited)
WHERE jobs.id = changed.id;

-- sql/verbs/dependents.py states_of_ended
SELECT id, state FROM finished  WHERE id = ANY($1::uuid[]);

-- sql/verbs/dependents.py stored_waits
SELECT job_id, awaits FROM waits  WHERE job_id = ANY($1::uuid[]);

-- sql/verbs/dependents.py take_cascades
DELETE FROM cascades WHERE job_id = ANY($1::uuid[]);

-- sql/verbs/dependents.py take_cascades
SELECT job_id, state FROM cascades LIMIT $1 FOR UPDATE SKIP LOCKED;

-- sql/verbs/dependents.py waits_for
SELECT job_id, awaits, any_end
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
first >= coalesce((SELECT first FROM dispositions
WHERE schedule_id = $2 AND first <= $3 AND last >= $4
ORDER BY first DESC LIMIT 1), $5)
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

-- sql/verbs/dispositions.py replace_skips
DELETE FROM dispositions
WHERE schedule_id = $1 AND job_id IS NULL AND first <= $2 AND last >= $3;

-- sql/verbs/edit_schedules.py delete_schedule
DELETE FROM schedules WHERE id = $1;

-- sql/verbs/edit_schedules.py follow
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress
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
DELETE FROM transitions WHERE job_id = ANY($1::uuid[]);

-- sql/verbs/history.py transitions_of
SELECT job_id, at, went, cause, attempt, worker FROM transitions WHERE job_id = ANY($1::uuid[]) ORDER BY job_id, seq;

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

-- sql/verbs/imports.py awaited_among
SELECT awaits
FROM (SELECT DISTINCT awaits FROM waits
WHERE awaits = ANY($1::uuid[])) AS awaited;

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
INSERT INTO finished (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, spec, created_at, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, progress, state, finished_at, last_worker, last_attempt)
SELECT id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, spec, created_at, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, progress, state, finished_at, last_worker, last_attempt FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::uuid[], $9::bigint[], $10::text[], $11::text[], $12::bigint[], $13::integer[], $14::integer[], $15::smallint[], $16::smallint[], $17::bigint[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[], $23::text[], $24::bigint[], $25::text[], $26::text[]) WITH ORDINALITY AS new (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, spec, created_at, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, progress, state, finished_at, last_worker, last_attempt, place)
ORDER BY place;

-- sql/verbs/imports.py insert_live
INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, created_at, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, progress, cursor, suspicion, held)
SELECT id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, created_at, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, progress, cursor, suspicion, held FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::uuid[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::integer[], $15::integer[], $16::smallint[], $17::smallint[], $18::bigint[], $19::text[], $20::text[], $21::text[], $22::text[], $23::text[], $24::text[], $25::text[], $26::boolean[]) WITH ORDINALITY AS new (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, created_at, token, attempt, lost, released, started_at, reason, cancel_reason, result, error, progress, cursor, suspicion, held, place)
ORDER BY place
ON CONFLICT DO NOTHING;

-- sql/verbs/imports.py lock_exports
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress
FROM finished
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/imports.py lock_exports
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress
FROM jobs
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/jobs.py delete_ended
DELETE FROM finished WHERE id = ANY($1::uuid[]);

-- sql/verbs/jobs.py delete_live
DELETE FROM jobs WHERE id = ANY($1::uuid[]);

-- sql/verbs/jobs.py export_jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress
FROM jobs  WHERE TRUE ORDER BY id LIMIT $1
) AS part0 UNION ALL SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress
FROM finished  WHERE TRUE ORDER BY id LIMIT $2
) AS part1) AS chosen;

-- sql/verbs/jobs.py export_jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress
FROM jobs  WHERE id > $1 ORDER BY id LIMIT $2
) AS part0 UNION ALL SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress
FROM finished  WHERE id > $3 ORDER BY id LIMIT $4
) AS part1) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress
FROM finished  WHERE state = 'cancelled' ORDER BY id DESC LIMIT $1
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress
FROM finished  WHERE state = 'failed' ORDER BY id DESC LIMIT $1
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress
FROM finished  WHERE state = 'succeeded' ORDER BY id DESC LIMIT $1
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress
FROM jobs  WHERE NOT running ORDER BY id DESC LIMIT $1
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress
FROM jobs  WHERE TRUE ORDER BY id DESC LIMIT $1
) AS part0 UNION ALL SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress
FROM finished  WHERE TRUE ORDER BY id DESC LIMIT $2
) AS part1) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress
FROM jobs  WHERE id < $1 AND queue = $2 AND lane = $3 AND schedule_id = $4 AND TRUE ORDER BY id DESC LIMIT $5
) AS part0 UNION ALL SELECT * FROM (
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress
FROM finished  WHERE id < $6 AND queue = $7 AND lane = $8 AND schedule_id = $9 AND TRUE ORDER BY id DESC LIMIT $10
) AS part1) AS chosen;

-- sql/verbs/jobs.py jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress
FROM jobs  WHERE running ORDER BY id DESC LIMIT $1
) AS part0) AS chosen;

-- sql/verbs/jobs.py jobs_by_id
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress
FROM jobs  WHERE id = ANY($1::uuid[])
UNION ALL
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress
FROM finished  WHERE id = ANY($2::uuid[]);

-- sql/verbs/jobs.py occurrence_jobs
SELECT
finished.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, coalesce(attempt, token) AS attempt,
coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
cancel_reason, result, error, NULL::text AS cursor, NULL::text AS suspicion, lane,
coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
NULL::bigint AS lease_until, started_at, finished_at, progress
FROM finished
WHERE schedule_id = $1
ORDER BY due_at DESC, id DESC
LIMIT $2 OFFSET $3;

-- sql/verbs/jobs.py occurrence_jobs
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress
FROM jobs
WHERE schedule_id = $1
ORDER BY due_at DESC, id DESC
LIMIT $2 OFFSET $3;

-- sql/verbs/jobs.py occurrence_jobs
SELECT total FROM (SELECT count(*) AS total FROM finished WHERE schedule_id = $1) AS counted;

-- sql/verbs/jobs.py occurrence_jobs
SELECT total FROM (SELECT count(*) AS total FROM jobs WHERE schedule_id = $1) AS counted;

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
INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, created_at, held)
SELECT id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, created_at, held FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::uuid[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::boolean[]) WITH ORDINALITY AS new (id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, grp, spec, created_at, held, place)
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
DELETE FROM finished_rest WHERE id = ANY($1::uuid[]);

-- sql/verbs/prune.py delete_jobs
SELECT id
FROM finished_rest
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- sql/verbs/prune.py overdue_jobs
SELECT * FROM (SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress
FROM jobs  WHERE lapsed = TRUE AND start_by < $1 AND start_by IS NOT NULL AND NOT running ORDER BY start_by LIMIT $2
) AS part0 UNION ALL SELECT * FROM (
SELECT
jobs.id, queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, token, attempt, lost, released, reason, cancel_reason, result, error,
cursor, suspicion, lane, created_at, spec
, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
worker, lease_until, started_at, NULL::bigint AS finished_at, progress
FROM jobs  WHERE lapsed = FALSE AND start_by < $3 AND start_by IS NOT NULL AND NOT running ORDER BY start_by LIMIT $4
) AS part1) AS chosen;

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
INSERT INTO queues (name, paused) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused;

-- sql/verbs/queues.py queue_names
SELECT name FROM queues ORDER BY name;

-- sql/verbs/queues.py store_buckets
INSERT INTO meters (queue, grp, full_at)
SELECT queue, grp, full_at FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS new (queue, grp, full_at, place)
ORDER BY place
ON CONFLICT (queue, grp) DO UPDATE SET full_at = excluded.full_at;

-- sql/verbs/queues.py unnamed_queues
SELECT name FROM queues WHERE name = ANY($1::text[]);

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

-- sql/verbs/schedules.py hold_schedules
SELECT id, status
FROM schedules
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR SHARE;

-- sql/verbs/schedules.py insert_schedules
INSERT INTO schedules (id, key, search, status, planned_through, plan_at, version, spec)
SELECT id, key, search, status, planned_through, plan_at, version, spec FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::integer[], $8::text[]) WITH ORDINALITY AS new (id, key, search, status, planned_through, plan_at, version, spec, place)
ORDER BY place;

-- sql/verbs/schedules.py insert_schedules
INSERT INTO schedules (id, key, search, status, planned_through, plan_at, version, spec)
SELECT id, key, search, status, planned_through, plan_at, version, spec FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::integer[], $8::text[]) WITH ORDINALITY AS new (id, key, search, status, planned_through, plan_at, version, spec, place)
ORDER BY place
ON CONFLICT (id) DO UPDATE SET key = excluded.key, search = excluded.search, status = excluded.status, planned_through = excluded.planned_through, plan_at = excluded.plan_at, version = excluded.version, spec = excluded.spec;

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
SET key = $1, search = $2, status = $3, version = $4, spec = $5
WHERE id = $6;

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

-- sql/verbs/workers.py forget_workers
DELETE FROM workers
WHERE id = ANY($1::text[])
AND NOT EXISTS (SELECT 1 FROM jobs
WHERE worker = workers.id AND running);

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
