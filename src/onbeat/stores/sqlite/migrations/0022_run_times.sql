-- Listings of one schedule by run time: the instant of the occurrence; the due time where there is none. Jobs
-- without a schedule have no entry.
CREATE INDEX onbeat_jobs_by_occurrence ON onbeat_jobs (schedule_id, occurrence, due_at, id)
  WHERE schedule_id IS NOT NULL;
CREATE INDEX onbeat_finished_by_occurrence ON onbeat_finished (schedule_id, occurrence, due_at, id)
  WHERE schedule_id IS NOT NULL;
