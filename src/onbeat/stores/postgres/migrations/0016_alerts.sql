-- What somebody should be told about, one row for each thing that is or was wrong. `is_announced`: whether its
-- event was written.
CREATE TABLE alerts (
  name     text   COLLATE "C" PRIMARY KEY,
  since    bigint NOT NULL,
  seen_at  bigint NOT NULL,
  ended_at bigint,
  is_announced  boolean NOT NULL,
  record   text   COLLATE "C" NOT NULL
);
CREATE INDEX alerts_ended ON alerts (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE silences (
  id       text   COLLATE "C" PRIMARY KEY,
  until_at bigint NOT NULL,
  record   text   COLLATE "C" NOT NULL
);

-- Two more of Onbeat's own events: a pattern that fits all others and was accepted before fits them too.
INSERT INTO own_event_types (type, schedule_id)
SELECT 'onbeat.alert.raised', schedule_id FROM own_event_types GROUP BY schedule_id HAVING count(*) = 7
ON CONFLICT DO NOTHING;
INSERT INTO own_event_types (type, schedule_id)
SELECT 'onbeat.alert.resolved', schedule_id FROM own_event_types WHERE type = 'onbeat.alert.raised'
ON CONFLICT DO NOTHING;
