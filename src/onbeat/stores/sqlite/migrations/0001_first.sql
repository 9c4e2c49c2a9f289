-- Instants are microseconds since the epoch, UTC. `spec` is the part of a record that no query needs,
-- as JSON text; `record` is a whole record as JSON text, put together when it is read, so that a
-- listing comes out of SQLite in one piece. For jobs it is in a view, since a generated column would
-- be put together at every write too.

-- Jobs that have not ended. `held`: the schedule is paused. `lapsed`: `start_by` was found past.
CREATE TABLE onbeat_jobs (
  seq           INTEGER PRIMARY KEY,
  id            TEXT    NOT NULL UNIQUE,
  state         TEXT    NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running')),
  queue         TEXT    NOT NULL,
  priority      INTEGER NOT NULL,
  lane          TEXT    NOT NULL,
  due_at        INTEGER NOT NULL,
  start_by      INTEGER,
  unique_key    TEXT,
  schedule_id   TEXT,
  occurrence    INTEGER,
  overlap       TEXT    NOT NULL,
  blocked_by    INTEGER NOT NULL DEFAULT 0,
  held          INTEGER NOT NULL DEFAULT 0,
  lapsed        INTEGER NOT NULL DEFAULT 0,
  token         INTEGER NOT NULL DEFAULT 0,
  worker        TEXT,
  attempt       INTEGER NOT NULL DEFAULT 0,
  lost          INTEGER NOT NULL DEFAULT 0,
  released      INTEGER NOT NULL DEFAULT 0,
  started_at    INTEGER,
  finished_at   INTEGER,
  reason        TEXT,
  cancel_reason TEXT,
  result        TEXT,
  error         TEXT,
  progress      TEXT,
  last_attempt  TEXT,
  spec          TEXT    NOT NULL,
  -- May be claimed once it is due.
  ready         INTEGER GENERATED ALWAYS AS (
    state = 'waiting' AND blocked_by = 0 AND held = 0 AND lapsed = 0
  ) VIRTUAL,
  CHECK ((state = 'running') = (worker IS NOT NULL)),
  CHECK (state = 'waiting' OR token > 0),
  CHECK (blocked_by >= 0),
  CHECK (finished_at IS NULL)
) STRICT;

-- Claim: the first due jobs of one queue, priority and lane, in order; and which of these exist.
CREATE INDEX onbeat_jobs_due ON onbeat_jobs (queue, priority, lane, due_at, id) WHERE ready;
-- Enqueue: the live job that holds a unique key.
CREATE UNIQUE INDEX onbeat_jobs_unique ON onbeat_jobs (unique_key) WHERE unique_key IS NOT NULL;
-- Beat and rescue: what a worker runs.
CREATE INDEX onbeat_jobs_running ON onbeat_jobs (worker, queue) WHERE state = 'running';
-- Lapsed: waiting jobs that never started, by the latest instant at which they may.
CREATE INDEX onbeat_jobs_bounded ON onbeat_jobs (lapsed, start_by)
  WHERE start_by IS NOT NULL AND state = 'waiting' AND token = 0;
-- Overlap, edits and listings of one schedule.
CREATE INDEX onbeat_jobs_of_schedule ON onbeat_jobs (schedule_id, due_at, id) WHERE schedule_id IS NOT NULL;
-- Counting of queues: what waits and may not be claimed.
CREATE INDEX onbeat_jobs_stuck ON onbeat_jobs (queue, lane, blocked_by, due_at) WHERE state = 'waiting' AND NOT ready;

-- Jobs that have ended. `last_attempt` is the attempt that ended the job, so that the common job, done
-- at its first try, costs no row in `onbeat_attempts`.
CREATE TABLE onbeat_finished (
  seq           INTEGER PRIMARY KEY,
  id            TEXT    NOT NULL UNIQUE,
  state         TEXT    NOT NULL CHECK (state IN ('succeeded', 'failed', 'cancelled')),
  queue         TEXT    NOT NULL,
  priority      INTEGER NOT NULL,
  lane          TEXT    NOT NULL,
  due_at        INTEGER NOT NULL,
  start_by      INTEGER,
  unique_key    TEXT,
  schedule_id   TEXT,
  occurrence    INTEGER,
  overlap       TEXT    NOT NULL,
  blocked_by    INTEGER NOT NULL DEFAULT 0,
  held          INTEGER NOT NULL DEFAULT 0,
  lapsed        INTEGER NOT NULL DEFAULT 0,
  token         INTEGER NOT NULL DEFAULT 0,
  worker        TEXT,
  attempt       INTEGER NOT NULL DEFAULT 0,
  lost          INTEGER NOT NULL DEFAULT 0,
  released      INTEGER NOT NULL DEFAULT 0,
  started_at    INTEGER,
  finished_at   INTEGER,
  reason        TEXT,
  cancel_reason TEXT,
  result        TEXT,
  error         TEXT,
  progress      TEXT,
  last_attempt  TEXT,
  spec          TEXT    NOT NULL,
  CHECK (worker IS NULL),
  CHECK (finished_at IS NOT NULL)
) STRICT;

-- Pruning by age and counting by state.
CREATE INDEX onbeat_finished_by_end ON onbeat_finished (state, finished_at);
-- Listings of one schedule.
CREATE INDEX onbeat_finished_of_schedule ON onbeat_finished (schedule_id, due_at, id)
  WHERE schedule_id IS NOT NULL;
-- Listings of what failed or was cancelled; the many that succeeded are found by id alone.
CREATE INDEX onbeat_finished_badly ON onbeat_finished (state, id) WHERE state <> 'succeeded';

-- Jobs with their records.
CREATE VIEW onbeat_live_jobs AS
  SELECT *,
    '{"id":' || json_quote(id)
    || ',"state":"' || state
    || '","token":' || token
    || ',"due_at":"'
         || strftime('%Y-%m-%dT%H:%M:%S', due_at / 1000000 - (due_at % 1000000 < 0), 'unixepoch')
         || printf('.%06dZ', (due_at % 1000000 + 1000000) % 1000000) || '"'
    || iif(blocked_by = 0, '', ',"blocked_by":' || blocked_by)
    || iif(attempt = 0, '', ',"attempt":' || attempt)
    || iif(lost = 0, '', ',"lost":' || lost)
    || iif(released = 0, '', ',"released":' || released)
    || iif(start_by IS NULL, '', ',"start_by":"'
         || strftime('%Y-%m-%dT%H:%M:%S', start_by / 1000000 - (start_by % 1000000 < 0), 'unixepoch')
         || printf('.%06dZ', (start_by % 1000000 + 1000000) % 1000000) || '"')
    || iif(started_at IS NULL, '', ',"started_at":"'
         || strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000 - (started_at % 1000000 < 0), 'unixepoch')
         || printf('.%06dZ', (started_at % 1000000 + 1000000) % 1000000) || '"')
    || iif(finished_at IS NULL, '', ',"finished_at":"'
         || strftime('%Y-%m-%dT%H:%M:%S', finished_at / 1000000 - (finished_at % 1000000 < 0), 'unixepoch')
         || printf('.%06dZ', (finished_at % 1000000 + 1000000) % 1000000) || '"')
    || iif(worker IS NULL, '', ',"worker":' || json_quote(worker))
    || iif(reason IS NULL, '', ',"reason":' || json_quote(reason))
    || iif(cancel_reason IS NULL, '', ',"cancel_reason":' || json_quote(cancel_reason))
    || iif(error IS NULL, '', ',"error":' || json_quote(error))
    || iif(result IS NULL, '', ',"result_json":' || result)
    || iif(progress IS NULL, '', ',"progress":' || progress)
    || ',' || substr(spec, 2) AS record
  FROM onbeat_jobs;

CREATE VIEW onbeat_ended_jobs AS
  SELECT *,
    '{"id":' || json_quote(id)
    || ',"state":"' || state
    || '","token":' || token
    || ',"due_at":"'
         || strftime('%Y-%m-%dT%H:%M:%S', due_at / 1000000 - (due_at % 1000000 < 0), 'unixepoch')
         || printf('.%06dZ', (due_at % 1000000 + 1000000) % 1000000) || '"'
    || iif(blocked_by = 0, '', ',"blocked_by":' || blocked_by)
    || iif(attempt = 0, '', ',"attempt":' || attempt)
    || iif(lost = 0, '', ',"lost":' || lost)
    || iif(released = 0, '', ',"released":' || released)
    || iif(start_by IS NULL, '', ',"start_by":"'
         || strftime('%Y-%m-%dT%H:%M:%S', start_by / 1000000 - (start_by % 1000000 < 0), 'unixepoch')
         || printf('.%06dZ', (start_by % 1000000 + 1000000) % 1000000) || '"')
    || iif(started_at IS NULL, '', ',"started_at":"'
         || strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000 - (started_at % 1000000 < 0), 'unixepoch')
         || printf('.%06dZ', (started_at % 1000000 + 1000000) % 1000000) || '"')
    || iif(finished_at IS NULL, '', ',"finished_at":"'
         || strftime('%Y-%m-%dT%H:%M:%S', finished_at / 1000000 - (finished_at % 1000000 < 0), 'unixepoch')
         || printf('.%06dZ', (finished_at % 1000000 + 1000000) % 1000000) || '"')
    || iif(worker IS NULL, '', ',"worker":' || json_quote(worker))
    || iif(reason IS NULL, '', ',"reason":' || json_quote(reason))
    || iif(cancel_reason IS NULL, '', ',"cancel_reason":' || json_quote(cancel_reason))
    || iif(error IS NULL, '', ',"error":' || json_quote(error))
    || iif(result IS NULL, '', ',"result_json":' || result)
    || iif(progress IS NULL, '', ',"progress":' || progress)
    || ',' || substr(spec, 2) AS record
  FROM onbeat_finished;

-- Ended attempts, but for `onbeat_finished.last_attempt`.
CREATE TABLE onbeat_attempts (
  job_id TEXT    NOT NULL,
  token  INTEGER NOT NULL,
  record TEXT    NOT NULL,
  PRIMARY KEY (job_id, token)
) STRICT, WITHOUT ROWID;

-- Who waits for whose end; with `any_end` for any end, else for success.
CREATE TABLE onbeat_waits (
  awaits  TEXT    NOT NULL,
  job_id  TEXT    NOT NULL,
  any_end INTEGER NOT NULL,
  PRIMARY KEY (awaits, job_id)
) STRICT, WITHOUT ROWID;

-- Cancel: what a job no longer waits for.
CREATE INDEX onbeat_waits_of_job ON onbeat_waits (job_id);

-- What was done to jobs by hand or by policy.
CREATE TABLE onbeat_transitions (
  seq    INTEGER PRIMARY KEY,
  job_id TEXT NOT NULL,
  record TEXT NOT NULL
) STRICT;

-- The history of one job; pruning.
CREATE INDEX onbeat_transitions_of_job ON onbeat_transitions (job_id);

CREATE TABLE onbeat_schedules (
  id              TEXT    PRIMARY KEY NOT NULL,
  key             TEXT    UNIQUE,
  search          TEXT    NOT NULL,
  status          TEXT    NOT NULL CHECK (status IN ('active', 'paused', 'finished')),
  planned_through INTEGER NOT NULL,
  plan_at         INTEGER,
  version         INTEGER NOT NULL,
  spec            TEXT    NOT NULL,
  record          TEXT GENERATED ALWAYS AS (
    '{"status":"' || status || '","version":' || version
    || ',"planned_through":"' || strftime('%Y-%m-%dT%H:%M:%S', planned_through / 1000000 - (planned_through % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (planned_through % 1000000 + 1000000) % 1000000) || '"'
    || ',"plan_at":' || iif(plan_at IS NULL, 'null', '"' || strftime('%Y-%m-%dT%H:%M:%S', plan_at / 1000000 - (plan_at % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (plan_at % 1000000 + 1000000) % 1000000) || '"')
    || ',' || substr(spec, 2)
  ) VIRTUAL
) STRICT, WITHOUT ROWID;

-- Planner: the active schedules whose time has come.
CREATE INDEX onbeat_schedules_due ON onbeat_schedules (plan_at) WHERE status = 'active' AND plan_at IS NOT NULL;
-- Counting by status, and claims' question whether a schedule is paused.
CREATE INDEX onbeat_schedules_by_status ON onbeat_schedules (status);

-- What became of occurrences: one job, or a run of skipped ones from `first` to `last`.
CREATE TABLE onbeat_dispositions (
  schedule_id TEXT    NOT NULL,
  first       INTEGER NOT NULL,
  last        INTEGER NOT NULL CHECK (last >= first),
  job_id      TEXT    CHECK (job_id IS NULL OR first = last),
  reason      TEXT    CHECK ((reason IS NULL) = (job_id IS NOT NULL)),
  PRIMARY KEY (schedule_id, first)
) STRICT, WITHOUT ROWID;

-- Pruning by age.
CREATE INDEX onbeat_dispositions_by_age ON onbeat_dispositions (last);

-- Queues that were paused at some time.
CREATE TABLE onbeat_queues (
  name   TEXT    PRIMARY KEY NOT NULL,
  paused INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE onbeat_workers (
  id     TEXT PRIMARY KEY NOT NULL,
  record TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `ping` writes here, since nothing less shows that the store could.
CREATE TABLE onbeat_pings (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  count INTEGER NOT NULL
) STRICT;
