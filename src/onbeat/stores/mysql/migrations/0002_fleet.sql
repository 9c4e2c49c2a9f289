-- Groups, timed leases, jobs that send jobs, limits of queues, and dead letters.
--
-- What is done to one table is one statement: it is done whole or not at all, and is known to have been
-- done by the columns that it adds.

-- `grp` stands for the group in which a job shares limits, which `spec` names. `cursor_text`: where a
-- job that sends others goes on.
ALTER TABLE jobs
  ADD COLUMN grp         VARCHAR(200) AFTER occurrence,
  ADD COLUMN lease_until BIGINT AFTER worker,
  ADD COLUMN cursor_text MEDIUMTEXT AFTER progress,
  -- As before, with 1 behind the priority where the job is in a group, else 0: so that jobs without a
  -- group are found past those that a limit of their groups holds back.
  MODIFY COLUMN line VARCHAR(521) GENERATED ALWAYS AS (
    IF(running = 0 AND blocked_by = 0 AND held = 0 AND lapsed = 0,
       CONCAT(LPAD(CHAR_LENGTH(queue), 3, '0'), queue, LPAD(priority + 32768, 5, '0'),
              IF(grp IS NULL, '0', '1'), lane),
       NULL)) STORED,
  -- Of a job that waits: the latest instant at which it may start; one that started has none.
  MODIFY COLUMN bound_by BIGINT GENERATED ALWAYS AS (IF(running = 0, start_by, NULL)) STORED,
  -- Of a job in a group that may be claimed once it is due: its line, and its group.
  ADD COLUMN group_line VARCHAR(724) GENERATED ALWAYS AS (
    IF(running = 0 AND blocked_by = 0 AND held = 0 AND lapsed = 0 AND grp IS NOT NULL,
       CONCAT(LPAD(CHAR_LENGTH(queue), 3, '0'), queue, LPAD(priority + 32768, 5, '0'),
              LPAD(CHAR_LENGTH(lane), 3, '0'), lane, grp),
       NULL)) STORED,
  DROP KEY jobs_running,
  -- Beat and rescue: what a worker runs, and until when. Claim: what runs of a queue and of its groups.
  ADD KEY jobs_running (worker, queue, grp, lease_until),
  -- Claim, where a queue limits groups: which groups wait, and the first due jobs of one.
  ADD KEY jobs_grouped (group_line, due_at, id),
  ADD CONSTRAINT jobs_timed CHECK (lease_until IS NULL OR running = 1);

UPDATE jobs SET start_by = NULL WHERE running = 0 AND token > 0;

-- Queues that were named, paused or limited at some time. `apart`: a claim has to know of it.
ALTER TABLE queues
  ADD COLUMN limits TEXT,
  ADD COLUMN apart  TINYINT GENERATED ALWAYS AS (
    IF(paused = 1 OR limits IS NOT NULL, 1, NULL)) STORED,
  ADD KEY queues_apart (apart);

-- The buckets of rates that are not full: when each will be. `grp` is '' for the queue itself.
CREATE TABLE IF NOT EXISTS meters (
  queue   VARCHAR(255) NOT NULL,
  grp     VARCHAR(200) NOT NULL,
  full_at BIGINT       NOT NULL,
  PRIMARY KEY (queue, grp),
  -- Pruning of those that have become full.
  KEY meters_full (full_at)
) ENGINE = InnoDB :exact;

CREATE TABLE IF NOT EXISTS dead_letters (
  id      VARCHAR(36)  NOT NULL PRIMARY KEY,
  at      BIGINT       NOT NULL,
  source  VARCHAR(512) NOT NULL,
  reason  MEDIUMTEXT   NOT NULL,
  body    LONGBLOB     NOT NULL,
  headers MEDIUMTEXT   NOT NULL,
  -- Listings of one source.
  KEY dead_letters_of_source (source, id),
  -- Pruning by age.
  KEY dead_letters_by_age (at)
) ENGINE = InnoDB :exact;

-- Claim from queues whose groups take turns: when each gave out its last job, counted over the queue. `grp`
-- is '' for jobs without a group.
CREATE TABLE IF NOT EXISTS turns (
  queue    VARCHAR(255) NOT NULL,
  priority SMALLINT     NOT NULL,
  grp      VARCHAR(200) NOT NULL,
  turn     BIGINT       NOT NULL,
  PRIMARY KEY (queue, priority, grp),
  -- The newest turn, and those that are to be forgotten.
  KEY turns_in_order (queue, turn)
) ENGINE = InnoDB :exact;
