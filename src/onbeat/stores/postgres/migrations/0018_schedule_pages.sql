-- Pages of one schedule's ended jobs, in the order of ids. By due time they would all be read and sorted, or the
-- jobs of all schedules walked. Jobs without a schedule have no entry.
CREATE INDEX finished_by_schedule ON finished (schedule_id, id) WHERE schedule_id IS NOT NULL;
