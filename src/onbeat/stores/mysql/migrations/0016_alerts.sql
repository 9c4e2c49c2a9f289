-- What somebody should be told about, one row for each thing that is or was wrong. `is_announced`: whether its
-- event was written.
CREATE TABLE IF NOT EXISTS alerts (
  name     VARCHAR(300) NOT NULL PRIMARY KEY,
  since    BIGINT       NOT NULL,
  seen_at  BIGINT       NOT NULL,
  ended_at BIGINT,
  is_announced  TINYINT      NOT NULL,
  record   MEDIUMTEXT   NOT NULL,
  KEY alerts_ended (ended_at)
) ENGINE = InnoDB :exact;

CREATE TABLE IF NOT EXISTS silences (
  id       VARCHAR(36) NOT NULL PRIMARY KEY,
  until_at BIGINT      NOT NULL,
  record   MEDIUMTEXT  NOT NULL
) ENGINE = InnoDB :exact;

-- Two more of Onbeat's own events: a pattern that fits all others and was accepted before fits them too.
INSERT IGNORE INTO own_event_types (type, schedule_id)
SELECT 'onbeat.alert.raised', schedule_id FROM own_event_types GROUP BY schedule_id HAVING count(*) = 7;
INSERT IGNORE INTO own_event_types (type, schedule_id)
SELECT 'onbeat.alert.resolved', schedule_id FROM own_event_types WHERE type = 'onbeat.alert.raised';
