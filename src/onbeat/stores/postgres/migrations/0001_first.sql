-- Instants are microseconds since the epoch, UTC: they are read and written faster than timestamptz,
-- and cover every instant that Python can name. `spec` is the part of a job that no query needs, as
-- JSON text. Texts compare by byte, as Python compares them. Wide columns come first, so that rows
-- hold little padding.

-- Jobs that have not ended. `running` says whether there is a `worker`. `held`: the schedule is paused.
-- `lapsed`: `start_by` was found past. `awaited`: others may wait for its end. What a claim changes
-- comes last: of a new version in the same page only what follows the first difference goes to the WAL.
CREATE TABLE jobs (
  id            uuid     PRIMARY KEY,
  created_at    bigint   NOT NULL,
  due_at        bigint   NOT NULL,
  start_by      bigint,
  occurrence    bigint,
  schedule_id   uuid,
  blocked_by    integer  NOT NULL DEFAULT 0,
  priority      smallint NOT NULL,
  lost          smallint NOT NULL DEFAULT 0,
  released      smallint NOT NULL DEFAULT 0,
  held          boolean  NOT NULL DEFAULT FALSE,
  lapsed        boolean  NOT NULL DEFAULT FALSE,
  awaited       boolean  NOT NULL DEFAULT FALSE,
  queue         text     COLLATE "C" NOT NULL,
  lane          text     COLLATE "C" NOT NULL,
  spec          text     COLLATE "C" NOT NULL,
  overlap       text     COLLATE "C",
  unique_key    text     COLLATE "C",
  reason        text     COLLATE "C",
  cancel_reason text     COLLATE "C",
  result        text     COLLATE "C",
  error         text     COLLATE "C",
  progress      text     COLLATE "C",
  token         integer  NOT NULL DEFAULT 0,
  attempt       integer  NOT NULL DEFAULT 0,
  running       boolean  NOT NULL DEFAULT FALSE,
  started_at    bigint,
  worker        text     COLLATE "C",
  CONSTRAINT jobs_leased CHECK (running = (worker IS NOT NULL)),
  CONSTRAINT jobs_fenced CHECK (NOT running OR token > 0),
  CONSTRAINT jobs_blocked CHECK (blocked_by >= 0)
) WITH (
  -- Room for the version that a claim writes in the page of the first: that halves its WAL.
  fillfactor = 50,
  -- Each row is written three times within seconds: vacuum follows at once and without pauses, by a
  -- count of rows rather than by a share of a table whose size says nothing.
  autovacuum_vacuum_scale_factor = 0.0,
  autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_insert_scale_factor = 0.0,
  autovacuum_vacuum_insert_threshold = 200000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.0,
  autovacuum_analyze_threshold = 100000
);

-- Claim: the first due jobs of one queue, priority and lane, in order; and which of these exist.
CREATE INDEX jobs_due ON jobs (queue, priority, lane, due_at, id)
  WHERE NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed;
-- Enqueue: the live job that holds a unique key.
CREATE UNIQUE INDEX jobs_unique ON jobs (unique_key) WHERE unique_key IS NOT NULL;
-- Beat and rescue: what a worker runs.
CREATE INDEX jobs_running ON jobs (worker) WHERE running;
-- Lapsed: waiting jobs that never started, by the latest instant at which they may.
CREATE INDEX jobs_bounded ON jobs (lapsed, start_by)
  WHERE start_by IS NOT NULL AND NOT running AND token = 0;
-- Overlap, edits and listings of one schedule.
CREATE INDEX jobs_of_schedule ON jobs (schedule_id, due_at) WHERE schedule_id IS NOT NULL;
-- Counting of queues: what waits and may not be claimed.
CREATE INDEX jobs_stuck ON jobs (queue, lane, blocked_by, due_at)
  WHERE NOT running AND (blocked_by <> 0 OR held OR lapsed);

-- Jobs that have ended, in one partition for each day on which ids were made, so that a day goes at
-- once, an id is found in one partition, and the newest come first without a sort. `last_worker` is
-- whose attempt ended the job where that attempt can be told from the row; else `last_attempt` is the
-- attempt. So the common job, done at its first try, costs no row in `attempts`.
CREATE TABLE finished (
  id            uuid     NOT NULL,
  created_at    bigint   NOT NULL,
  due_at        bigint   NOT NULL,
  finished_at   bigint   NOT NULL,
  started_at    bigint,
  start_by      bigint,
  occurrence    bigint,
  schedule_id   uuid,
  token         integer  NOT NULL,
  attempt       integer  NOT NULL,
  priority      smallint NOT NULL,
  lost          smallint NOT NULL,
  released      smallint NOT NULL,
  state         text     COLLATE "C" NOT NULL,
  queue         text     COLLATE "C" NOT NULL,
  lane          text     COLLATE "C" NOT NULL,
  spec          text     COLLATE "C" NOT NULL,
  overlap       text     COLLATE "C",
  unique_key    text     COLLATE "C",
  reason        text     COLLATE "C",
  cancel_reason text     COLLATE "C",
  result        text     COLLATE "C",
  error         text     COLLATE "C",
  progress      text     COLLATE "C",
  last_worker   text     COLLATE "C",
  last_attempt  text     COLLATE "C",
  PRIMARY KEY (id),
  CONSTRAINT finished_ended CHECK (state IN ('succeeded', 'failed', 'cancelled'))
) PARTITION BY RANGE (id);

-- Listings of one schedule.
CREATE INDEX finished_of_schedule ON finished (schedule_id, due_at) WHERE schedule_id IS NOT NULL;

-- What has no day of its own: old ids, and what outlived its day because it is kept longer.
CREATE TABLE finished_rest PARTITION OF finished DEFAULT;

-- Pruning row by row; days go whole and need no index for that.
CREATE INDEX finished_rest_by_end ON finished_rest (state, finished_at);

-- Ended attempts, but for those that `finished` tells.
CREATE TABLE attempts (
  job_id uuid    NOT NULL,
  token  integer NOT NULL,
  record text    NOT NULL,
  PRIMARY KEY (job_id, token)
);

-- Who waits for whose end; with `any_end` for any end, else for success.
CREATE TABLE waits (
  awaits  uuid    NOT NULL,
  job_id  uuid    NOT NULL,
  any_end boolean NOT NULL,
  PRIMARY KEY (awaits, job_id)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000);

-- Cancel: what a job no longer waits for.
CREATE INDEX waits_of_job ON waits (job_id);

-- What was done to jobs by hand or by policy.
CREATE TABLE transitions (
  seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job_id  uuid   NOT NULL,
  at      bigint NOT NULL,
  went    text   NOT NULL,
  cause   text,
  attempt integer,
  worker  text
);

-- The history of one job; pruning.
CREATE INDEX transitions_of_job ON transitions (job_id);

-- Its watermark is raised at every plan, and `plan_at` is in an index: room for the new version in the
-- same page spares the other indexes nothing, but keeps the table from spreading.
CREATE TABLE schedules (
  id              uuid    PRIMARY KEY,
  planned_through bigint  NOT NULL,
  plan_at         bigint,
  version         integer NOT NULL,
  status          text    COLLATE "C" NOT NULL,
  key             text    COLLATE "C" UNIQUE,
  search          text    COLLATE "C" NOT NULL,
  spec            text    COLLATE "C" NOT NULL,
  CONSTRAINT schedules_status CHECK (status IN ('active', 'paused', 'finished'))
) WITH (
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0
);

-- Planner: the active schedules whose time has come.
CREATE INDEX schedules_due ON schedules (plan_at) WHERE status = 'active' AND plan_at IS NOT NULL;

-- What became of occurrences: one job, or a run of skipped ones from `first` to `last`.
CREATE TABLE dispositions (
  schedule_id uuid   NOT NULL,
  first       bigint NOT NULL,
  last        bigint NOT NULL,
  job_id      uuid,
  reason      text   COLLATE "C",
  PRIMARY KEY (schedule_id, first),
  CONSTRAINT dispositions_ordered CHECK (last >= first),
  CONSTRAINT dispositions_of_one CHECK (job_id IS NULL OR first = last),
  CONSTRAINT dispositions_either CHECK ((reason IS NULL) = (job_id IS NOT NULL))
);

-- Pruning by age.
CREATE INDEX dispositions_by_age ON dispositions (last);

-- Queues that were paused at some time.
CREATE TABLE queues (
  name   text    COLLATE "C" PRIMARY KEY,
  paused boolean NOT NULL
);

-- A beat rewrites a row every few seconds; with room in its page that touches no index.
CREATE TABLE workers (
  id     text COLLATE "C" PRIMARY KEY,
  record text NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);

-- `ping` writes here, since nothing less shows that the store could.
CREATE TABLE pings (
  id    integer PRIMARY KEY CHECK (id = 1),
  count bigint  NOT NULL
) WITH (fillfactor = 50);
