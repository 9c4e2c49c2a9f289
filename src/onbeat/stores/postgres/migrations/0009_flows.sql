-- Breaks the statements of programs that run already.

-- Who waits for which end of whom: 0 for success, 1 for any end, 2 for failure.
ALTER TABLE waits ALTER COLUMN any_end TYPE smallint USING any_end::integer;
ALTER TABLE waits RENAME COLUMN any_end TO wanted;

-- Of a cancelled job: the job whose end was the cause.
ALTER TABLE finished ADD COLUMN cause_id uuid;
-- Retry: what was cancelled because of a job.
CREATE INDEX finished_by_cause ON finished (cause_id) WHERE cause_id IS NOT NULL;

-- The id of the job or the request that sent a job with others. NULL takes no room in a row.
ALTER TABLE jobs ADD COLUMN flow uuid;
ALTER TABLE finished ADD COLUMN flow uuid;
-- The end of a flow: whether a job of it is live, or ended in a state; listings of one flow.
CREATE INDEX jobs_of_flow ON jobs (flow, id) WHERE flow IS NOT NULL;
CREATE INDEX finished_of_flow ON finished (flow, state, id) WHERE flow IS NOT NULL;

-- Who waits for the end of a flow, and for which one, as in `waits`.
CREATE TABLE flow_waits (
  flow   uuid     NOT NULL,
  job_id uuid     NOT NULL,
  wanted smallint NOT NULL,
  PRIMARY KEY (flow, job_id)
);
