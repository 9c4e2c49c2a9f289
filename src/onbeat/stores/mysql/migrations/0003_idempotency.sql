-- Requests that came with an idempotency key, by a hash of principal, operation and key. `answer` is
-- JSON, compressed where it is long. `first_job` to `last_job` is the range of ids of the jobs that the
-- request made, NULL without any; `kept_from` is when the key was last found to be still needed.
CREATE TABLE IF NOT EXISTS idempotency_keys (
  digest      BINARY(32) NOT NULL PRIMARY KEY,
  fingerprint BINARY(16) NOT NULL,
  made_at     BIGINT     NOT NULL,
  kept_from   BIGINT     NOT NULL,
  first_job   VARCHAR(36),
  last_job    VARCHAR(36),
  answer      MEDIUMBLOB NOT NULL,
  -- Pruning by age.
  KEY idempotency_keys_by_age (kept_from)
) ENGINE = InnoDB :exact;
