-- Events, each once for its source and id, in the order of arrival. `tag` tells the publisher whose row
-- was stored. `kept_from` is when its age began to count: later than its arrival where a job kept it.
CREATE TABLE IF NOT EXISTS events (
  seq         BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  received_at BIGINT       NOT NULL,
  kept_from   BIGINT       NOT NULL,
  tag         BIGINT       NOT NULL,
  routed_at   BIGINT,
  id          VARCHAR(255) NOT NULL,
  source      VARCHAR(255) NOT NULL,
  type        VARCHAR(255) NOT NULL,
  record      MEDIUMTEXT   NOT NULL,
  verdicts    MEDIUMTEXT,
  UNIQUE KEY events_by_id (id, source),
  -- Router: what has no decision yet.
  KEY events_unrouted (routed_at, seq),
  -- Listings of one type.
  KEY events_of_type (type, seq),
  -- Pruning by age.
  KEY events_by_age (kept_from)
) ENGINE = InnoDB :exact;

-- Which jobs an event made, or is gathered by. With `is_read` the target gets it.
CREATE TABLE IF NOT EXISTS event_jobs (
  seq         BIGINT      NOT NULL,
  job_id      VARCHAR(36) NOT NULL,
  schedule_id VARCHAR(36) NOT NULL,
  is_read     TINYINT     NOT NULL,
  PRIMARY KEY (seq, job_id),
  -- Start: the events of a job.
  KEY event_jobs_of_job (job_id)
) ENGINE = InnoDB :exact;

-- Jobs by what their events are gathered, throttled and cancelled by.
CREATE TABLE IF NOT EXISTS event_keys (
  schedule_id VARCHAR(36)  NOT NULL,
  by_key      VARCHAR(500) NOT NULL,
  job_id      VARCHAR(36)  NOT NULL,
  opened_at   BIGINT       NOT NULL,
  gathered    INT          NOT NULL,
  PRIMARY KEY (schedule_id, by_key, job_id),
  -- Pruning and copying.
  KEY event_keys_of_job (job_id)
) ENGINE = InnoDB :exact;

-- Onbeat's own event types that a schedule asks for.
CREATE TABLE IF NOT EXISTS own_event_types (
  type        VARCHAR(255) NOT NULL,
  schedule_id VARCHAR(36)  NOT NULL,
  PRIMARY KEY (type, schedule_id),
  -- Edits of one schedule.
  KEY own_event_types_of_schedule (schedule_id)
) ENGINE = InnoDB :exact;

-- `on_event`: the schedule has no times, but patterns of events.
ALTER TABLE schedules
  ADD COLUMN on_event TINYINT NOT NULL DEFAULT 0,
  ADD KEY schedules_on_event (on_event, id);
