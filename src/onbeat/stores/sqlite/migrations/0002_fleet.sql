-- `grp` is the group of the job, which `spec` has too; `cursor` is JSON text. `lease_until` is set
-- for timed leases alone.
ALTER TABLE onbeat_jobs ADD COLUMN grp TEXT;
ALTER TABLE onbeat_jobs ADD COLUMN lease_until INTEGER;
ALTER TABLE onbeat_jobs ADD COLUMN cursor TEXT;
-- Jobs in groups stand apart from the others, which a claim may take when many groups have enough.
ALTER TABLE onbeat_jobs ADD COLUMN grouped INTEGER GENERATED ALWAYS AS (grp IS NOT NULL) VIRTUAL;

-- Claim: the first due jobs of one queue, priority and lane, in order; and which of these exist.
DROP INDEX onbeat_jobs_due;
CREATE INDEX onbeat_jobs_due ON onbeat_jobs (queue, priority, lane, grouped, due_at, id) WHERE ready;
-- Claim from a queue that limits groups: how much of a group runs; the groups that wait, and the
-- first due jobs of each.
CREATE INDEX onbeat_jobs_grouped ON onbeat_jobs (queue, state, ready, grp, priority, lane, due_at, id)
  WHERE grp IS NOT NULL;
-- Beat: what a worker runs. Rescue: the timed leases that have run out. Claim from a queue with
-- limits: how much of it runs.
DROP INDEX onbeat_jobs_running;
CREATE INDEX onbeat_jobs_running ON onbeat_jobs (worker, queue, lease_until) WHERE state = 'running';
-- Lapsed: waiting jobs by the latest instant at which they may start; one that started has none.
DROP INDEX onbeat_jobs_bounded;
UPDATE onbeat_jobs SET start_by = NULL WHERE state = 'waiting' AND token > 0;
CREATE INDEX onbeat_jobs_bounded ON onbeat_jobs (lapsed, start_by)
  WHERE start_by IS NOT NULL AND state = 'waiting';

-- Jobs with their records. Most have none of what is looked at in one go.
DROP VIEW onbeat_live_jobs;
CREATE VIEW onbeat_live_jobs AS
  SELECT *,
    '{"id":' || json_quote(id)
    || ',"state":"' || state
    || '","token":' || token
    || ',"due_at":"'
         || strftime('%Y-%m-%dT%H:%M:%S', due_at / 1000000 - (due_at % 1000000 < 0), 'unixepoch')
         || printf('.%06dZ', (due_at % 1000000 + 1000000) % 1000000) || '"'
    || iif(blocked_by = 0, '', ',"blocked_by":' || blocked_by)
    || iif(start_by IS NULL, '', ',"start_by":"'
         || strftime('%Y-%m-%dT%H:%M:%S', start_by / 1000000 - (start_by % 1000000 < 0), 'unixepoch')
         || printf('.%06dZ', (start_by % 1000000 + 1000000) % 1000000) || '"')
    || iif(
         attempt = 0 AND lost = 0 AND released = 0
         AND coalesce(started_at, lease_until, worker, reason, cancel_reason, error, result,
                      progress, cursor) IS NULL,
         '',
         iif(attempt = 0, '', ',"attempt":' || attempt)
         || iif(lost = 0, '', ',"lost":' || lost)
         || iif(released = 0, '', ',"released":' || released)
         || iif(started_at IS NULL, '', ',"started_at":"'
              || strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000 - (started_at % 1000000 < 0), 'unixepoch')
              || printf('.%06dZ', (started_at % 1000000 + 1000000) % 1000000) || '"')
         || iif(lease_until IS NULL, '', ',"lease_until":"'
              || strftime('%Y-%m-%dT%H:%M:%S', lease_until / 1000000 - (lease_until % 1000000 < 0), 'unixepoch')
              || printf('.%06dZ', (lease_until % 1000000 + 1000000) % 1000000) || '"')
         || iif(worker IS NULL, '', ',"worker":' || json_quote(worker))
         || iif(reason IS NULL, '', ',"reason":' || json_quote(reason))
         || iif(cancel_reason IS NULL, '', ',"cancel_reason":' || json_quote(cancel_reason))
         || iif(error IS NULL, '', ',"error":' || json_quote(error))
         || iif(result IS NULL, '', ',"result_json":' || result)
         || iif(progress IS NULL, '', ',"progress":' || progress)
         || iif(cursor IS NULL, '', ',"cursor_json":' || cursor))
    || ',' || substr(spec, 2) AS record
  FROM onbeat_jobs;

-- Queues that were named, limited or paused at some time. `limits` is JSON text.
ALTER TABLE onbeat_queues ADD COLUMN limits TEXT;
-- Claim: the few queues that are paused or limited, of all that have a name.
CREATE INDEX onbeat_queues_paused ON onbeat_queues (name) WHERE paused;
CREATE INDEX onbeat_queues_limited ON onbeat_queues (name) WHERE limits IS NOT NULL;

-- Buckets of rates, of queues (`grp` is '') and of their groups: when each will be full again.
CREATE TABLE onbeat_meters (
  queue   TEXT    NOT NULL,
  grp     TEXT    NOT NULL,
  full_at INTEGER NOT NULL,
  PRIMARY KEY (queue, grp)
) STRICT, WITHOUT ROWID;

-- Messages that could not be used.
CREATE TABLE onbeat_dead_letters (
  seq    INTEGER PRIMARY KEY,
  id     TEXT    NOT NULL UNIQUE,
  at     INTEGER NOT NULL,
  source TEXT    NOT NULL,
  record TEXT    NOT NULL
) STRICT;

-- Listings of one source.
CREATE INDEX onbeat_dead_letters_by_source ON onbeat_dead_letters (source, id);
-- Pruning by age.
CREATE INDEX onbeat_dead_letters_by_age ON onbeat_dead_letters (at);

-- Claim from a queue whose groups take turns: when each gave out its last job, counted over the queue.
-- `grp` is '' for jobs without a group.
CREATE TABLE onbeat_turns (
  queue    TEXT    NOT NULL,
  priority INTEGER NOT NULL,
  grp      TEXT    NOT NULL,
  turn     INTEGER NOT NULL,
  PRIMARY KEY (queue, priority, grp)
) STRICT, WITHOUT ROWID;
-- The newest turn, and those that are to be forgotten.
CREATE INDEX onbeat_turns_in_order ON onbeat_turns (queue, turn);
