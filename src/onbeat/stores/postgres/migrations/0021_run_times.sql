-- Listings of one schedule by run time: the instant of the occurrence; the due time where there is none. Jobs
-- without a schedule have no entry.
CREATE INDEX jobs_by_occurrence ON jobs (schedule_id, occurrence, due_at, id)
  WHERE schedule_id IS NOT NULL;
CREATE INDEX finished_by_occurrence ON finished (schedule_id, occurrence, due_at, id)
  WHERE schedule_id IS NOT NULL;
