-- Requests that came with an idempotency key, by a hash of principal, operation and key. `answer` is
-- JSON, compressed where it is long. `first_job` to `last_job` is the range of ids of the jobs that the
-- request made, NULL without any; `kept_from` is when the key was last found to be still needed.
CREATE TABLE idempotency_keys (
  digest      bytea  PRIMARY KEY,
  fingerprint bytea  NOT NULL,
  made_at     bigint NOT NULL,
  kept_from   bigint NOT NULL,
  first_job   uuid,
  last_job    uuid,
  answer      bytea  NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000);

-- Pruning by age.
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (kept_from);
