-- Waits of running jobs for events, each a step of its job; `by_key` is '' for any subject. `since` is the
-- newest event at the first call, until it is certain that none after it was missed. `event_seq` is the
-- event that ended the wait.
CREATE TABLE event_waits (
  job_id    uuid    NOT NULL,
  step      text    COLLATE "C" NOT NULL,
  type      text    COLLATE "C" NOT NULL,
  by_key    text    COLLATE "C" NOT NULL,
  since     bigint,
  until_at  bigint,
  is_open   boolean NOT NULL,
  event_seq bigint,
  PRIMARY KEY (job_id, step)
);

-- Router: who waits for an event.
CREATE INDEX event_waits_open ON event_waits (type, by_key, job_id, step) WHERE is_open;
-- Pruning: whether an event has ended a wait.
CREATE INDEX event_waits_of_event ON event_waits (event_seq) WHERE event_seq IS NOT NULL;
