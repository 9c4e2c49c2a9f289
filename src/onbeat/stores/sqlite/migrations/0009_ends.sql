-- Unique keys of ended jobs with `unique_for`, until the instant `held_until`.
CREATE TABLE onbeat_held_keys (
  unique_key TEXT    NOT NULL PRIMARY KEY,
  job_id     TEXT    NOT NULL,
  held_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Pruning.
CREATE INDEX onbeat_held_keys_past ON onbeat_held_keys (held_until);
