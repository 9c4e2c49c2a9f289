-- Processes with readers of the live stream, and until when each is known to have some. While there is
-- one, the other processes write what they see to `stream_batches`, whose rows are kept for 5 minutes.
CREATE TABLE IF NOT EXISTS stream_watchers (
  process VARCHAR(64) NOT NULL PRIMARY KEY,
  until   BIGINT      NOT NULL
) ENGINE = InnoDB :exact;

-- `body` is JSON: at most 200 events, and counts. `missed` counts the events that had no room.
CREATE TABLE IF NOT EXISTS stream_batches (
  at     BIGINT      NOT NULL,
  source VARCHAR(64) NOT NULL,
  seq    BIGINT      NOT NULL,
  missed BIGINT      NOT NULL,
  body   MEDIUMTEXT  NOT NULL,
  PRIMARY KEY (at, source, seq)
) ENGINE = InnoDB :exact;
