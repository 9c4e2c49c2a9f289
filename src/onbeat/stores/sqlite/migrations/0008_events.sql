-- Events, each once for its source and id, in the order of arrival. `tag` tells the publisher whose row
-- was stored. `kept_from` is when its age began to count: later than its arrival where a job kept it.
CREATE TABLE onbeat_events (
  seq         INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL,
  source      TEXT    NOT NULL,
  type        TEXT    NOT NULL,
  received_at INTEGER NOT NULL,
  kept_from   INTEGER NOT NULL,
  tag         INTEGER NOT NULL,
  routed_at   INTEGER,
  verdicts    TEXT,
  record      TEXT    NOT NULL,
  UNIQUE (id, source)
) STRICT;

-- Router: what has no decision yet.
CREATE INDEX onbeat_events_unrouted ON onbeat_events (seq) WHERE routed_at IS NULL;
-- Listings of one type.
CREATE INDEX onbeat_events_of_type ON onbeat_events (type, seq);
-- Pruning by age.
CREATE INDEX onbeat_events_by_age ON onbeat_events (kept_from);

-- Which jobs an event made, or is gathered by. With `is_read` the target gets it.
CREATE TABLE onbeat_event_jobs (
  seq         INTEGER NOT NULL,
  job_id      TEXT    NOT NULL,
  schedule_id TEXT    NOT NULL,
  is_read     INTEGER NOT NULL,
  PRIMARY KEY (seq, job_id)
) STRICT, WITHOUT ROWID;

-- Start: the events of a job.
CREATE INDEX onbeat_event_jobs_of_job ON onbeat_event_jobs (job_id);

-- Jobs by what their events are gathered, throttled and cancelled by.
CREATE TABLE onbeat_event_keys (
  schedule_id TEXT    NOT NULL,
  by_key      TEXT    NOT NULL,
  job_id      TEXT    NOT NULL,
  opened_at   INTEGER NOT NULL,
  gathered    INTEGER NOT NULL,
  PRIMARY KEY (schedule_id, by_key, job_id)
) STRICT, WITHOUT ROWID;

-- Pruning and copying.
CREATE INDEX onbeat_event_keys_of_job ON onbeat_event_keys (job_id);

-- Onbeat's own event types that a schedule asks for.
CREATE TABLE onbeat_own_event_types (
  type        TEXT NOT NULL,
  schedule_id TEXT NOT NULL,
  PRIMARY KEY (type, schedule_id)
) STRICT, WITHOUT ROWID;

-- Edits of one schedule.
CREATE INDEX onbeat_own_event_types_of_schedule ON onbeat_own_event_types (schedule_id);

-- `on_event`: the schedule has no times, but patterns of events.
ALTER TABLE onbeat_schedules ADD COLUMN on_event INTEGER NOT NULL DEFAULT 0;
CREATE INDEX onbeat_schedules_on_event ON onbeat_schedules (id) WHERE on_event = TRUE;
