-- Unique keys of ended jobs with `unique_for`, until the instant `held_until`.
CREATE TABLE held_keys (
  unique_key text   COLLATE "C" NOT NULL PRIMARY KEY,
  job_id     uuid   NOT NULL,
  held_until bigint NOT NULL
);

-- Pruning.
CREATE INDEX held_keys_past ON held_keys (held_until);
