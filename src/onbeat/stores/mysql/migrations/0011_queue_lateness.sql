-- `late_after`: microseconds after which a due job makes its queue late. `late_since`: when the queue was
-- found to be late; NULL while it is in time.
ALTER TABLE queues
  ADD COLUMN late_after BIGINT,
  ADD COLUMN late_since BIGINT,
  -- The few queues that are watched.
  ADD KEY queues_watched (late_after);

-- The program that declares the schedule, which `spec` has too.
ALTER TABLE schedules
  ADD COLUMN owner VARCHAR(255),
  -- The start of a program.
  ADD KEY schedules_of_owner (owner, id);

-- Three more of Onbeat's own events. A pattern that fits one of them and was accepted before fits older
-- types too. A schedule that names those one by one may get a type too many, until its next edit.
INSERT IGNORE INTO own_event_types (type, schedule_id)
SELECT 'onbeat.schedule.orphaned', schedule_id FROM own_event_types WHERE type = 'onbeat.schedule.misfired';
INSERT IGNORE INTO own_event_types (type, schedule_id)
SELECT 'onbeat.endpoint.down', schedule_id FROM own_event_types
WHERE type IN ('onbeat.job.failed', 'onbeat.job.cancelled', 'onbeat.job.succeeded', 'onbeat.schedule.misfired')
GROUP BY schedule_id HAVING count(*) = 4;
INSERT IGNORE INTO own_event_types (type, schedule_id)
SELECT 'onbeat.queue.late', schedule_id FROM own_event_types
WHERE type IN ('onbeat.job.failed', 'onbeat.job.cancelled', 'onbeat.job.succeeded', 'onbeat.schedule.misfired')
GROUP BY schedule_id HAVING count(*) = 4;
