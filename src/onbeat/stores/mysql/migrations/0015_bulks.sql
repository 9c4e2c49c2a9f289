-- Bulks: what is done to all jobs that a filter matches. `record` is JSON text. `next_at`: when the next
-- chunk may run; NULL once the bulk has ended.
CREATE TABLE IF NOT EXISTS bulks (
  id          VARCHAR(36) NOT NULL PRIMARY KEY,
  next_at     BIGINT,
  finished_at BIGINT,
  record      MEDIUMTEXT  NOT NULL,
  -- The bulk that goes on next.
  KEY bulks_unfinished (next_at),
  -- Pruning by age.
  KEY bulks_by_end (finished_at)
) ENGINE = InnoDB :exact;
