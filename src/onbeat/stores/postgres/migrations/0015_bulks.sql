-- Bulks: what is done to all jobs that a filter matches. `record` is JSON text. `next_at`: when the next
-- chunk may run; NULL once the bulk has ended.
CREATE TABLE bulks (
  id          uuid   PRIMARY KEY,
  next_at     bigint,
  finished_at bigint,
  record      text   COLLATE "C" NOT NULL
);
-- The bulk that goes on next.
CREATE INDEX bulks_unfinished ON bulks (next_at) WHERE next_at IS NOT NULL;
-- Pruning by age.
CREATE INDEX bulks_by_end ON bulks (finished_at) WHERE finished_at IS NOT NULL;

-- Listings of what failed or was cancelled; the many that succeeded are found by id alone.
CREATE INDEX finished_badly ON finished (state, id) WHERE state <> 'succeeded';
