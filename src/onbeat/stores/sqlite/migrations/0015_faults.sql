-- The fault of a job's last failure: what failures that are alike have in common (`rules.faults`).
ALTER TABLE onbeat_jobs ADD COLUMN fault INTEGER;
ALTER TABLE onbeat_finished ADD COLUMN fault INTEGER;
-- Listings and counts of one fault: what waits for another attempt, and what failed.
CREATE INDEX onbeat_jobs_of_fault ON onbeat_jobs (fault, id) WHERE fault IS NOT NULL;
CREATE INDEX onbeat_finished_of_fault ON onbeat_finished (fault, state, id) WHERE fault IS NOT NULL;

-- Failures that are alike, as counted by the processes that had them. `hours` is a JSON array of counts by
-- hour, the last in the hour of `last_at`. Fault 0 counts what there was no room for.
CREATE TABLE onbeat_faults (
  fault          INTEGER NOT NULL PRIMARY KEY,
  task           TEXT    NOT NULL,
  queue          TEXT    NOT NULL,
  title          TEXT    NOT NULL,
  frame          TEXT    NOT NULL,
  first_at       INTEGER NOT NULL,
  last_at        INTEGER NOT NULL,
  attempts       INTEGER NOT NULL,
  hours          TEXT    NOT NULL,
  sample_job     TEXT,
  silenced_until INTEGER,
  note           TEXT
) STRICT;

-- Jobs with their records.
DROP VIEW onbeat_live_jobs;
CREATE VIEW onbeat_live_jobs AS
  SELECT *,
    '{"id":' || json_quote(id)
    || ',"state":"' || state
    || '","token":' || token
    || ',"due_at":"'
         || strftime('%Y-%m-%dT%H:%M:%S', due_at / 1000000 - (due_at % 1000000 < 0), 'unixepoch')
         || printf('.%06dZ', (due_at % 1000000 + 1000000) % 1000000) || '"'
    || iif(blocked_by = 0, '', ',"blocked_by":' || blocked_by)
    || iif(start_by IS NULL, '', ',"start_by":"'
         || strftime('%Y-%m-%dT%H:%M:%S', start_by / 1000000 - (start_by % 1000000 < 0), 'unixepoch')
         || printf('.%06dZ', (start_by % 1000000 + 1000000) % 1000000) || '"')
    || iif(
         attempt = 0 AND lost = 0 AND released = 0
         AND coalesce(started_at, lease_until, worker, reason, cancel_reason, error, fault,
                      result, progress, cursor, suspicion) IS NULL,
         '',
         iif(attempt = 0, '', ',"attempt":' || attempt)
         || iif(lost = 0, '', ',"lost":' || lost)
         || iif(released = 0, '', ',"released":' || released)
         || iif(started_at IS NULL, '', ',"started_at":"'
              || strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000 - (started_at % 1000000 < 0), 'unixepoch')
              || printf('.%06dZ', (started_at % 1000000 + 1000000) % 1000000) || '"')
         || iif(lease_until IS NULL, '', ',"lease_until":"'
              || strftime('%Y-%m-%dT%H:%M:%S', lease_until / 1000000 - (lease_until % 1000000 < 0), 'unixepoch')
              || printf('.%06dZ', (lease_until % 1000000 + 1000000) % 1000000) || '"')
         || iif(worker IS NULL, '', ',"worker":' || json_quote(worker))
         || iif(reason IS NULL, '', ',"reason":' || json_quote(reason))
         || iif(cancel_reason IS NULL, '', ',"cancel_reason":' || json_quote(cancel_reason))
         || iif(error IS NULL, '', ',"error":' || json_quote(error))
         || iif(fault IS NULL, '', ',"fault":' || fault)
         || iif(result IS NULL, '', ',"result_json":' || result)
         || iif(progress IS NULL, '', ',"progress":' || progress)
         || iif(suspicion IS NULL, '', ',"suspicion":' || suspicion)
         || iif(cursor IS NULL, '', ',"cursor_json":' || cursor))
    || ',' || substr(spec, 2) AS record
  FROM onbeat_jobs;

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
    || iif(fault IS NULL, '', ',"fault":' || fault)
    || iif(result IS NULL, '', ',"result_json":' || result)
    || iif(progress IS NULL, '', ',"progress":' || progress)
    || ',' || substr(spec, 2) AS record
  FROM onbeat_finished;
