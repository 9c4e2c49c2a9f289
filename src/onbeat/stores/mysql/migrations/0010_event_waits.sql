-- Waits of running jobs for events, each a step of its job; `by_key` is '' for any subject. `since` is the
-- newest event at the first call, until it is certain that none after it was missed. `event_seq` is the
-- event that ended the wait.
CREATE TABLE IF NOT EXISTS event_waits (
  job_id    VARCHAR(36)  NOT NULL,
  step      VARCHAR(200) NOT NULL,
  type      VARCHAR(255) NOT NULL,
  by_key    VARCHAR(500) NOT NULL,
  since     BIGINT,
  until_at  BIGINT,
  is_open   TINYINT      NOT NULL,
  event_seq BIGINT,
  PRIMARY KEY (job_id, step),
  -- Router: who waits for an event.
  KEY event_waits_open (is_open, type, by_key),
  -- Pruning: whether an event has ended a wait.
  KEY event_waits_of_event (event_seq)
) ENGINE = InnoDB :exact;
