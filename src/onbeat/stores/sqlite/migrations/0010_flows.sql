-- Who waits for which end of whom: 0 for success, 1 for any end, 2 for failure.
-- A column cannot be renamed here: that reads every view of an application's file, broken ones too.
CREATE TEMP TABLE waits_before AS SELECT awaits, job_id, any_end FROM onbeat_waits;
DROP TABLE onbeat_waits;
CREATE TABLE onbeat_waits (
  awaits TEXT    NOT NULL,
  job_id TEXT    NOT NULL,
  wanted INTEGER NOT NULL,
  PRIMARY KEY (awaits, job_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX onbeat_waits_of_job ON onbeat_waits (job_id);
INSERT INTO onbeat_waits (awaits, job_id, wanted) SELECT awaits, job_id, any_end FROM waits_before;
DROP TABLE waits_before;

-- Of a cancelled job: the job whose end was the cause.
ALTER TABLE onbeat_finished ADD COLUMN cause_id TEXT;
-- Retry: what was cancelled because of a job.
CREATE INDEX onbeat_finished_by_cause ON onbeat_finished (cause_id) WHERE cause_id IS NOT NULL;

-- Jobs with their records.
DROP VIEW onbeat_ended_jobs;
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
    || iif(cause_id IS NULL, '', ',"cause_id":"' || cause_id || '"')
    || iif(reason IS NULL, '', ',"reason":' || json_quote(reason))
    || iif(cancel_reason IS NULL, '', ',"cancel_reason":' || json_quote(cancel_reason))
    || iif(error IS NULL, '', ',"error":' || json_quote(error))
    || iif(result IS NULL, '', ',"result_json":' || result)
    || iif(progress IS NULL, '', ',"progress":' || progress)
    || ',' || substr(spec, 2) AS record
  FROM onbeat_finished;

-- The id of the job or the request that sent a job with others, which `spec` has too.
ALTER TABLE onbeat_jobs ADD COLUMN flow TEXT;
ALTER TABLE onbeat_finished ADD COLUMN flow TEXT;
-- The end of a flow: whether a job of it is live, or ended in a state; listings of one flow.
CREATE INDEX onbeat_jobs_of_flow ON onbeat_jobs (flow, id) WHERE flow IS NOT NULL;
CREATE INDEX onbeat_finished_of_flow ON onbeat_finished (flow, state, id) WHERE flow IS NOT NULL;

-- Who waits for the end of a flow, and for which one, as in `onbeat_waits`.
CREATE TABLE onbeat_flow_waits (
  flow   TEXT    NOT NULL,
  job_id TEXT    NOT NULL,
  wanted INTEGER NOT NULL,
  PRIMARY KEY (flow, job_id)
) STRICT, WITHOUT ROWID;
