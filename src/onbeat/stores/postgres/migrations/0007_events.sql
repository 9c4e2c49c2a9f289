-- Events, each once for its source and id, in the order of arrival. `tag` tells the publisher whose row
-- was stored. `kept_from` is when its age began to count: later than its arrival where a job kept it.
CREATE TABLE events (
  seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  received_at bigint NOT NULL,
  kept_from   bigint NOT NULL,
  tag         bigint NOT NULL,
  routed_at   bigint,
  id          text   COLLATE "C" NOT NULL,
  source      text   COLLATE "C" NOT NULL,
  type        text   COLLATE "C" NOT NULL,
  record      text   COLLATE "C" NOT NULL,
  verdicts    text   COLLATE "C",
  UNIQUE (id, source)
) WITH (
  -- Each row is written twice within a moment: vacuum follows by a count of rows.
  autovacuum_vacuum_scale_factor = 0.0,
  autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0
);

-- Router: what has no decision yet.
CREATE INDEX events_unrouted ON events (seq) WHERE routed_at IS NULL;
-- Listings of one type.
CREATE INDEX events_of_type ON events (type, seq);
-- Pruning by age.
CREATE INDEX events_by_age ON events (kept_from);

-- Which jobs an event made, or is gathered by. With `is_read` the target gets it.
CREATE TABLE event_jobs (
  seq         bigint  NOT NULL,
  job_id      uuid    NOT NULL,
  schedule_id uuid    NOT NULL,
  is_read     boolean NOT NULL,
  PRIMARY KEY (seq, job_id)
);

-- Start: the events of a job.
CREATE INDEX event_jobs_of_job ON event_jobs (job_id);

-- Jobs by what their events are gathered, throttled and cancelled by.
CREATE TABLE event_keys (
  schedule_id uuid    NOT NULL,
  by_key      text    COLLATE "C" NOT NULL,
  job_id      uuid    NOT NULL,
  opened_at   bigint  NOT NULL,
  gathered    integer NOT NULL,
  PRIMARY KEY (schedule_id, by_key, job_id)
);

-- Pruning and copying.
CREATE INDEX event_keys_of_job ON event_keys (job_id);

-- Onbeat's own event types that a schedule asks for.
CREATE TABLE own_event_types (
  type        text COLLATE "C" NOT NULL,
  schedule_id uuid NOT NULL,
  PRIMARY KEY (type, schedule_id)
);

-- Edits of one schedule.
CREATE INDEX own_event_types_of_schedule ON own_event_types (schedule_id);

-- `on_event`: the schedule has no times, but patterns of events.
ALTER TABLE schedules ADD COLUMN on_event boolean NOT NULL DEFAULT FALSE;
CREATE INDEX schedules_on_event ON schedules (id) WHERE on_event;
