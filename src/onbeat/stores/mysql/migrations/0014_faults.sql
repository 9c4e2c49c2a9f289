-- The fault of a job's last failure: what failures that are alike have in common (`rules.faults`).
ALTER TABLE jobs
  ADD COLUMN fault BIGINT,
  -- Listings and counts of one fault: what waits for another attempt.
  ADD KEY jobs_of_fault (fault, id);
ALTER TABLE finished
  ADD COLUMN fault BIGINT,
  -- The same for what failed.
  ADD KEY finished_of_fault (fault, bad_state, id);

-- Failures that are alike, as counted by the processes that had them. `hours` is a JSON array of counts by
-- hour, the last in the hour of `last_at`. Fault 0 counts what there was no room for.
CREATE TABLE IF NOT EXISTS faults (
  fault          BIGINT       NOT NULL PRIMARY KEY,
  task           VARCHAR(255) NOT NULL,
  queue          VARCHAR(255) NOT NULL,
  title          VARCHAR(255) NOT NULL,
  frame          VARCHAR(255) NOT NULL,
  first_at       BIGINT       NOT NULL,
  last_at        BIGINT       NOT NULL,
  attempts       BIGINT       NOT NULL,
  hours          TEXT         NOT NULL,
  sample_job     VARCHAR(36),
  silenced_until BIGINT,
  note           TEXT
) ENGINE = InnoDB :exact;
