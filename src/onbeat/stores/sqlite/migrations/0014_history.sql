-- What was started and ended in `resolution` seconds from `at` on. `source` is the process that counted
-- it, '' for all of them. `series` has the parts of queues and tasks.
CREATE TABLE onbeat_pulses (
  resolution INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  source     TEXT    NOT NULL,
  totals     TEXT    NOT NULL,
  series     TEXT    NOT NULL,
  PRIMARY KEY (resolution, at, source)
) STRICT, WITHOUT ROWID;

-- How many jobs stood in the queues: one sample in `resolution` seconds from `at` on.
CREATE TABLE onbeat_gauges (
  resolution INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  body       TEXT    NOT NULL,
  PRIMARY KEY (resolution, at)
) STRICT, WITHOUT ROWID;
