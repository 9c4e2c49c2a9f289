-- Pages of one schedule's ended jobs, in the order of ids: by due time they would all be read and sorted. Jobs
-- without a schedule have no entry.
CREATE INDEX onbeat_finished_by_schedule ON onbeat_finished (schedule_id, id) WHERE schedule_id IS NOT NULL;
