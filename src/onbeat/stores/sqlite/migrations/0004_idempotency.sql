-- Requests that came with an idempotency key, by a hash of principal, operation and key. `answer` is
-- JSON, compressed where it is long. `first_job` to `last_job` is the range of ids of the jobs that the
-- request made, NULL without any; `kept_from` is when the key was last found to be still needed.
CREATE TABLE onbeat_idempotency_keys (
  digest      BLOB    NOT NULL PRIMARY KEY,
  fingerprint BLOB    NOT NULL,
  made_at     INTEGER NOT NULL,
  kept_from   INTEGER NOT NULL,
  first_job   TEXT,
  last_job    TEXT,
  answer      BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
-- Pruning by age.
CREATE INDEX onbeat_idempotency_keys_by_age ON onbeat_idempotency_keys (kept_from);
