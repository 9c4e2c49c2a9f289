-- The fault of a job's last failure: what failures that are alike have in common (`rules.faults`).
-- NULL takes no room in a row.
ALTER TABLE jobs ADD COLUMN fault bigint;
ALTER TABLE finished ADD COLUMN fault bigint;
-- Listings and counts of one fault: what waits for another attempt, and what failed.
CREATE INDEX jobs_of_fault ON jobs (fault, id) WHERE fault IS NOT NULL;
CREATE INDEX finished_of_fault ON finished (fault, state, id) WHERE fault IS NOT NULL;

-- Failures that are alike, as counted by the processes that had them. `hours` is a JSON array of counts by
-- hour, the last in the hour of `last_at`. Fault 0 counts what there was no room for.
CREATE TABLE faults (
  fault          bigint PRIMARY KEY,
  task           text   COLLATE "C" NOT NULL,
  queue          text   COLLATE "C" NOT NULL,
  title          text   COLLATE "C" NOT NULL,
  frame          text   COLLATE "C" NOT NULL,
  first_at       bigint NOT NULL,
  last_at        bigint NOT NULL,
  attempts       bigint NOT NULL,
  hours          text   COLLATE "C" NOT NULL,
  sample_job     uuid,
  silenced_until bigint,
  note           text   COLLATE "C"
) WITH (fillfactor = 50);
