-- Unique keys of ended jobs with `unique_for`, until the instant `held_until`.
CREATE TABLE IF NOT EXISTS held_keys (
  unique_key VARCHAR(500) NOT NULL PRIMARY KEY,
  job_id     VARCHAR(36)  NOT NULL,
  held_until BIGINT       NOT NULL,
  -- Pruning.
  KEY held_keys_past (held_until)
) ENGINE = InnoDB :exact;
