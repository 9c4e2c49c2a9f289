-- What a claim writes of a job is somewhat longer than what was there: where a little less than half of a
-- page is filled, it finds room there for all, and no job is written whole into another page.
ALTER TABLE jobs SET (fillfactor = 45);

-- What most jobs that succeed have alike takes no room: NULL in `created_at` stands for `due_at`, in `attempt`
-- for `token`, in the others for 0.
ALTER TABLE finished
  ALTER COLUMN created_at DROP NOT NULL,
  ALTER COLUMN attempt DROP NOT NULL,
  ALTER COLUMN lost DROP NOT NULL,
  ALTER COLUMN released DROP NOT NULL;

-- `grp` is the job's group. `lease_until` is when a timed lease runs out; `timed`, TRUE or NULL, says that
-- there is one: an index on the instant itself would be written at each renewal. `counted`, TRUE or NULL:
-- it was started where its queue was limited. Nothing of it takes room in a row that has none.
ALTER TABLE jobs
  ADD COLUMN counted     boolean,
  ADD COLUMN timed       boolean,
  ADD COLUMN lease_until bigint,
  ADD COLUMN grp         text COLLATE "C",
  ADD COLUMN cursor      text COLLATE "C",
  ADD CONSTRAINT jobs_timed CHECK (lease_until IS NULL OR running AND timed);

-- Claim: as before, but for jobs of groups, which would be in the way of those without.
DROP INDEX jobs_due;
CREATE INDEX jobs_due ON jobs (queue, priority, lane, due_at, id)
  WHERE NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND grp IS NULL;
-- Claim: jobs of groups, in queues that do not limit these. That there is a group is said in other words
-- than below, so that each statement can use but the one index for which it is written.
CREATE INDEX jobs_due_grouped ON jobs (queue, priority, lane, due_at, id)
  WHERE NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND grp >= '';
-- Claim: the same group by group, in queues that limit these.
CREATE INDEX jobs_due_by_group ON jobs (queue, grp, priority, lane, due_at, id)
  WHERE NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed AND length(grp) > 0;
-- Claim: what runs in limited queues, and in each of their groups. In words that do not say plainly that
-- it runs: else the index of all that runs would be taken where statistics say that nothing does.
CREATE INDEX jobs_counted ON jobs (queue, grp) WHERE (running AND counted) IS TRUE;
-- Lapsed: waiting jobs by the latest instant at which they may start; one that started has none.
DROP INDEX jobs_bounded;
UPDATE jobs SET start_by = NULL WHERE NOT running AND token > 0 AND start_by IS NOT NULL;
CREATE INDEX jobs_bounded ON jobs (lapsed, start_by) WHERE start_by IS NOT NULL AND NOT running;
-- Rescue: timed leases.
CREATE INDEX jobs_leased_by_time ON jobs (id) WHERE running AND timed;

-- Queues that were named, paused or limited at some time. `limits` is JSON text, NULL without any, since
-- `limited_at`. `is_counted`: all that runs in it is marked as counted.
ALTER TABLE queues
  ADD COLUMN limited_at timestamptz,
  ADD COLUMN is_counted boolean NOT NULL DEFAULT FALSE,
  ADD COLUMN limits     text COLLATE "C";

-- Claim: the few queues that are not open to all.
CREATE INDEX queues_not_open ON queues (name) WHERE paused OR limits IS NOT NULL;

-- Buckets of rates that are not full: when each will be. `grp` is '' for that of the queue itself.
CREATE TABLE meters (
  queue   text   COLLATE "C",
  grp     text   COLLATE "C",
  full_at bigint NOT NULL,
  PRIMARY KEY (queue, grp)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000);

-- Messages that could not be used. `record` is JSON text: NUL, which no text here can hold, is escaped in it.
CREATE TABLE dead_letters (
  id     uuid   PRIMARY KEY,
  at     bigint NOT NULL,
  source text   COLLATE "C" NOT NULL,
  record text   COLLATE "C" NOT NULL,
  body   bytea  NOT NULL
);

-- Listings of one source.
CREATE INDEX dead_letters_of_source ON dead_letters (source, id);
-- Pruning by age.
CREATE INDEX dead_letters_by_age ON dead_letters (at);

-- Claim from queues whose groups take turns: when each gave out its last job, counted over the queue. `grp`
-- is '' for jobs without a group.
CREATE TABLE turns (
  queue    text     COLLATE "C",
  priority smallint,
  grp      text     COLLATE "C",
  turn     bigint   NOT NULL,
  PRIMARY KEY (queue, priority, grp)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000);

-- The newest turn, and those that are to be forgotten.
CREATE INDEX turns_in_order ON turns (queue, turn);
