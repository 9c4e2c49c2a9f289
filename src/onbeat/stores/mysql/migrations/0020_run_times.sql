-- Listings of one schedule by run time: the instant of the occurrence; the due time where there is none.
ALTER TABLE jobs ADD KEY jobs_by_occurrence (schedule_id, occurrence, due_at, id);
ALTER TABLE finished ADD KEY finished_by_occurrence (schedule_id, occurrence, due_at, id);
