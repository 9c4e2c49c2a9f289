-- Waits of running jobs for events, each a step of its job; `by_key` is '' for any subject. `since` is the
-- newest event at the first call, until it is certain that none after it was missed. `event_seq` is the
-- event that ended the wait.
CREATE TABLE onbeat_event_waits (
  job_id    TEXT    NOT NULL,
  step      TEXT    NOT NULL,
  type      TEXT    NOT NULL,
  by_key    TEXT    NOT NULL,
  since     INTEGER,
  until_at  INTEGER,
  is_open   INTEGER NOT NULL,
  event_seq INTEGER,
  PRIMARY KEY (job_id, step)
) STRICT, WITHOUT ROWID;

-- Router: who waits for an event.
CREATE INDEX onbeat_event_waits_open ON onbeat_event_waits (type, by_key, job_id, step)
  WHERE is_open = TRUE;
-- Pruning: whether an event has ended a wait.
CREATE INDEX onbeat_event_waits_of_event ON onbeat_event_waits (event_seq)
  WHERE event_seq IS NOT NULL;
