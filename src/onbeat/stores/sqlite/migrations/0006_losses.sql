-- Of a job whose worker died while it ran: deaths alone, and how many jobs its worker may hold while it
-- runs again, as JSON text.
ALTER TABLE onbeat_jobs ADD COLUMN suspicion TEXT;

-- Jobs with their records. Most have none of what is looked at in one go.
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
         AND coalesce(started_at, lease_until, worker, reason, cancel_reason, error, result,
                      progress, cursor, suspicion) IS NULL,
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
         || iif(result IS NULL, '', ',"result_json":' || result)
         || iif(progress IS NULL, '', ',"progress":' || progress)
         || iif(suspicion IS NULL, '', ',"suspicion":' || suspicion)
         || iif(cursor IS NULL, '', ',"cursor_json":' || cursor))
    || ',' || substr(spec, 2) AS record
  FROM onbeat_jobs;
