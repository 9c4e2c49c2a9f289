-- Processes with readers of the live stream, and until when each is known to have some. While there is
-- one, the other processes write what they see to `onbeat_stream_batches`, whose rows are kept for 5
-- minutes.
CREATE TABLE onbeat_stream_watchers (
  process TEXT    NOT NULL PRIMARY KEY,
  until   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `body` is JSON: at most 200 events, and counts. `missed` counts the events that had no room.
CREATE TABLE onbeat_stream_batches (
  at     INTEGER NOT NULL,
  source TEXT    NOT NULL,
  seq    INTEGER NOT NULL,
  missed INTEGER NOT NULL,
  body   TEXT    NOT NULL,
  PRIMARY KEY (at, source, seq)
) STRICT, WITHOUT ROWID;
