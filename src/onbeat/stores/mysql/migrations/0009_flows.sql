-- Breaks the statements of programs that run already.

-- Who waits for which end of whom: 0 for success, 1 for any end, 2 for failure.
ALTER TABLE waits CHANGE COLUMN any_end wanted TINYINT NOT NULL;

-- Of a cancelled job: the job whose end was the cause.
ALTER TABLE finished
  ADD COLUMN cause_id VARCHAR(36),
  -- Retry: what was cancelled because of a job.
  ADD KEY finished_by_cause (cause_id);

-- The id of the job or the request that sent a job with others.
ALTER TABLE jobs
  ADD COLUMN flow VARCHAR(36),
  -- The end of a flow: whether a job of it is live; listings of one flow.
  ADD KEY jobs_of_flow (flow, id);
ALTER TABLE finished
  ADD COLUMN flow VARCHAR(36),
  ADD KEY finished_of_flow (flow, state, id);

-- Who waits for the end of a flow, and for which one, as in `waits`.
CREATE TABLE IF NOT EXISTS flow_waits (
  flow   VARCHAR(36) NOT NULL,
  job_id VARCHAR(36) NOT NULL,
  wanted TINYINT     NOT NULL,
  PRIMARY KEY (flow, job_id)
) ENGINE = InnoDB :exact;
