-- Bulks: what is done to all jobs that a filter matches. `record` is JSON text. `next_at`: when the next
-- chunk may run; NULL once the bulk has ended.
CREATE TABLE onbeat_bulks (
  id          TEXT PRIMARY KEY,
  next_at     INTEGER,
  finished_at INTEGER,
  record      TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- The bulk that goes on next.
CREATE INDEX onbeat_bulks_unfinished ON onbeat_bulks (next_at) WHERE next_at IS NOT NULL;
-- Pruning by age.
CREATE INDEX onbeat_bulks_by_end ON onbeat_bulks (finished_at) WHERE finished_at IS NOT NULL;
