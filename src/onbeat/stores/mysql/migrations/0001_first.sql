-- Instants are microseconds since the epoch, UTC. `spec` is the part of a record that no query needs,
-- as JSON text. Texts compare by code point, trailing spaces and all. Rows lie in the order of their
-- first key, and every index ends in it: ids rise, so that new rows lie together.
--
-- No transaction holds these statements together: each may be run again after a crash in their midst.
-- `:exact` stands for the character set, and for a collation that takes every byte as it is.

-- Jobs that have not ended. `held`: the schedule is paused. `lapsed`: `start_by` was found past.
-- There are no partial indexes: what is NULL in `line` and `bound_by` lies apart from what is sought.
CREATE TABLE IF NOT EXISTS jobs (
  id            VARCHAR(36)  NOT NULL PRIMARY KEY,
  queue         VARCHAR(255) NOT NULL,
  priority      SMALLINT     NOT NULL,
  lane          VARCHAR(255) NOT NULL,
  due_at        BIGINT       NOT NULL,
  start_by      BIGINT,
  unique_key    TEXT,
  schedule_id   VARCHAR(36),
  occurrence    BIGINT,
  overlap       VARCHAR(7),
  running       TINYINT      NOT NULL DEFAULT 0,
  blocked_by    INT          NOT NULL DEFAULT 0,
  held          TINYINT      NOT NULL DEFAULT 0,
  lapsed        TINYINT      NOT NULL DEFAULT 0,
  token         INT          NOT NULL DEFAULT 0,
  worker        VARCHAR(255),
  attempt       INT          NOT NULL DEFAULT 0,
  lost          INT          NOT NULL DEFAULT 0,
  released      INT          NOT NULL DEFAULT 0,
  started_at    BIGINT,
  reason        TEXT,
  cancel_reason TEXT,
  result        MEDIUMTEXT,
  error         MEDIUMTEXT,
  progress      TEXT,
  spec          MEDIUMTEXT   NOT NULL,
  -- Of a job that may be claimed once it is due: its queue with its length, its priority from 0 to
  -- 65535, and its lane. One column, since the servers seek the next one only in one.
  line          VARCHAR(520) GENERATED ALWAYS AS (
    IF(running = 0 AND blocked_by = 0 AND held = 0 AND lapsed = 0,
       CONCAT(LPAD(CHAR_LENGTH(queue), 3, '0'), queue, LPAD(priority + 32768, 5, '0'), lane),
       NULL)) STORED,
  -- Of a job that waits and never started: the latest instant at which it may.
  bound_by      BIGINT GENERATED ALWAYS AS (IF(running = 0 AND token = 0, start_by, NULL)) STORED,
  -- An index takes no text of any length.
  unique_hash   CHAR(64) CHARACTER SET ascii COLLATE ascii_bin
    GENERATED ALWAYS AS (SHA2(unique_key, 256)) STORED,
  -- Claim: the first due jobs of one line, in order; and which lines there are.
  KEY jobs_due (line, due_at, id),
  -- Enqueue: the live job that holds a unique key.
  UNIQUE KEY jobs_unique (unique_hash),
  -- Beat and rescue: what a worker runs.
  KEY jobs_running (worker, queue),
  -- Lapsed jobs by the instant.
  KEY jobs_bounded (lapsed, bound_by),
  -- Overlap, edits and listings of one schedule.
  KEY jobs_of_schedule (schedule_id, due_at, id),
  CONSTRAINT jobs_leased CHECK ((running = 1) = (worker IS NOT NULL)),
  CONSTRAINT jobs_fenced CHECK (running = 0 OR token > 0),
  CONSTRAINT jobs_blocked CHECK (blocked_by >= 0)
) ENGINE = InnoDB :exact;

-- Jobs that have ended. `last_attempt` is the attempt that ended the job, so that the common job, done
-- at its first try, costs no row in `attempts`.
CREATE TABLE IF NOT EXISTS finished (
  id            VARCHAR(36)  NOT NULL PRIMARY KEY,
  state         VARCHAR(9)   NOT NULL,
  queue         VARCHAR(255) NOT NULL,
  priority      SMALLINT     NOT NULL,
  lane          VARCHAR(255) NOT NULL,
  due_at        BIGINT       NOT NULL,
  start_by      BIGINT,
  unique_key    TEXT,
  schedule_id   VARCHAR(36),
  occurrence    BIGINT,
  overlap       VARCHAR(7),
  token         INT          NOT NULL,
  attempt       INT          NOT NULL,
  lost          INT          NOT NULL,
  released      INT          NOT NULL,
  started_at    BIGINT,
  finished_at   BIGINT       NOT NULL,
  reason        TEXT,
  cancel_reason TEXT,
  result        MEDIUMTEXT,
  error         MEDIUMTEXT,
  progress      TEXT,
  last_attempt  MEDIUMTEXT,
  spec          MEDIUMTEXT   NOT NULL,
  -- Only what failed or was cancelled: those that succeeded are most, and are found by id alone.
  bad_state     VARCHAR(9) GENERATED ALWAYS AS (IF(state = 'succeeded', NULL, state)) STORED,
  -- Pruning by age and counting by state.
  KEY finished_by_end (state, finished_at),
  -- Listings of what failed or was cancelled.
  KEY finished_badly (bad_state, id),
  -- Listings of one schedule.
  KEY finished_of_schedule (schedule_id, due_at, id),
  CONSTRAINT finished_ended CHECK (state IN ('succeeded', 'failed', 'cancelled'))
) ENGINE = InnoDB :exact;

-- Ended attempts, but for `finished.last_attempt`.
CREATE TABLE IF NOT EXISTS attempts (
  job_id VARCHAR(36) NOT NULL,
  token  INT         NOT NULL,
  record MEDIUMTEXT  NOT NULL,
  PRIMARY KEY (job_id, token)
) ENGINE = InnoDB :exact;

-- Who waits for whose end; with `any_end` for any end, else for success.
CREATE TABLE IF NOT EXISTS waits (
  awaits  VARCHAR(36) NOT NULL,
  job_id  VARCHAR(36) NOT NULL,
  any_end TINYINT     NOT NULL,
  PRIMARY KEY (awaits, job_id),
  -- Cancel: what a job no longer waits for.
  KEY waits_of_job (job_id)
) ENGINE = InnoDB :exact;

-- What was done to jobs by hand or by policy.
CREATE TABLE IF NOT EXISTS transitions (
  seq     BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
  job_id  VARCHAR(36) NOT NULL,
  at      BIGINT      NOT NULL,
  went    VARCHAR(40) NOT NULL,
  cause   TEXT,
  attempt INT,
  worker  VARCHAR(255),
  -- The history of one job; pruning.
  KEY transitions_of_job (job_id, seq)
) ENGINE = InnoDB :exact;

CREATE TABLE IF NOT EXISTS schedules (
  id              VARCHAR(36) NOT NULL PRIMARY KEY,
  name_key        VARCHAR(512),
  search          TEXT        NOT NULL,
  status          VARCHAR(8)  NOT NULL,
  planned_through BIGINT      NOT NULL,
  plan_at         BIGINT,
  version         BIGINT      NOT NULL,
  spec            MEDIUMTEXT  NOT NULL,
  UNIQUE KEY schedules_key (name_key),
  -- Planner: the active schedules whose time has come. Counting by status.
  KEY schedules_due (status, plan_at, id),
  CONSTRAINT schedules_status CHECK (status IN ('active', 'paused', 'finished'))
) ENGINE = InnoDB :exact;

-- What became of occurrences: one job, or a run of skipped ones from `first` to `last`. Runs do not
-- touch one another, so that the first one that ends at an instant or later is the one that covers it.
CREATE TABLE IF NOT EXISTS dispositions (
  schedule_id VARCHAR(36) NOT NULL,
  first       BIGINT      NOT NULL,
  last        BIGINT      NOT NULL,
  job_id      VARCHAR(36),
  reason      TEXT,
  PRIMARY KEY (schedule_id, last),
  -- Pruning by age.
  KEY dispositions_by_age (last),
  CONSTRAINT dispositions_ordered CHECK (last >= first),
  CONSTRAINT dispositions_of_one CHECK (job_id IS NULL OR first = last),
  CONSTRAINT dispositions_either CHECK ((reason IS NULL) = (job_id IS NOT NULL))
) ENGINE = InnoDB :exact;

-- Queues that were paused at some time.
CREATE TABLE IF NOT EXISTS queues (
  name   VARCHAR(255) NOT NULL PRIMARY KEY,
  paused TINYINT      NOT NULL
) ENGINE = InnoDB :exact;

CREATE TABLE IF NOT EXISTS workers (
  id     VARCHAR(255) NOT NULL PRIMARY KEY,
  record MEDIUMTEXT   NOT NULL
) ENGINE = InnoDB :exact;

-- `ping` counts here, since nothing less shows that the store could write; and whoever decides about
-- jobs of schedules that are gone locks a row here in the place of theirs.
CREATE TABLE IF NOT EXISTS marks (
  name  VARCHAR(16) NOT NULL PRIMARY KEY,
  count BIGINT      NOT NULL
) ENGINE = InnoDB :exact;

INSERT INTO marks (name, count) VALUES ('ping', 0), ('gone', 0) ON DUPLICATE KEY UPDATE count = count;

-- How often something of each kind may have changed, for the listeners of other processes. In memory
-- only: a change costs no wait for the disk, and a restart, which empties it, is noticed as a change.
CREATE TABLE IF NOT EXISTS changes (
  hint  VARCHAR(16) NOT NULL PRIMARY KEY,
  count BIGINT      NOT NULL
) ENGINE = MEMORY :exact;
