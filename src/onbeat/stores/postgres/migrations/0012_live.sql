-- Processes with readers of the live stream, and until when each is known to have some. While there is
-- one, the other processes write what they see to `stream_batches`, whose rows are kept for 5 minutes.
CREATE TABLE stream_watchers (
  process text   COLLATE "C" PRIMARY KEY,
  until   bigint NOT NULL
);

-- `body` is JSON: at most 200 events, and counts. `missed` counts the events that had no room.
CREATE TABLE stream_batches (
  at     bigint NOT NULL,
  source text   COLLATE "C" NOT NULL,
  seq    bigint NOT NULL,
  missed bigint NOT NULL,
  body   text   NOT NULL,
  PRIMARY KEY (at, source, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);
