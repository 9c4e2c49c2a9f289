-- What somebody should be told about, one row for each thing that is or was wrong. `is_announced`: whether its
-- event was written.
CREATE TABLE onbeat_alerts (
  name     TEXT    NOT NULL PRIMARY KEY,
  since    INTEGER NOT NULL,
  seen_at  INTEGER NOT NULL,
  ended_at INTEGER,
  is_announced  INTEGER NOT NULL,
  record   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX onbeat_alerts_ended ON onbeat_alerts (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE onbeat_silences (
  id       TEXT    NOT NULL PRIMARY KEY,
  until_at INTEGER NOT NULL,
  record   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Two more of Onbeat's own events: a pattern that fits all others and was accepted before fits them too.
INSERT OR IGNORE INTO onbeat_own_event_types (type, schedule_id)
SELECT 'onbeat.alert.raised', schedule_id FROM onbeat_own_event_types GROUP BY schedule_id HAVING count(*) = 7;
INSERT OR IGNORE INTO onbeat_own_event_types (type, schedule_id)
SELECT 'onbeat.alert.resolved', schedule_id FROM onbeat_own_event_types WHERE type = 'onbeat.alert.raised';
