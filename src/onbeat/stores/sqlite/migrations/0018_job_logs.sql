-- What handlers logged. `number` rises from line to line of a job; `fields` is a JSON object.
CREATE TABLE onbeat_job_logs (
  job_id  TEXT    NOT NULL,
  number  INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  level   TEXT    NOT NULL,
  logger  TEXT    NOT NULL,
  text    TEXT    NOT NULL,
  fields  TEXT,
  PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;
