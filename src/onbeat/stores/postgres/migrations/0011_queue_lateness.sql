-- `late_after`: microseconds after which a due job makes its queue late. `late_since`: when the queue was
-- found to be late; NULL while it is in time.
ALTER TABLE queues ADD COLUMN late_after bigint, ADD COLUMN late_since bigint;
-- The few queues that are watched.
CREATE INDEX queues_watched ON queues (name) WHERE late_after IS NOT NULL;

-- The program that declares the schedule, which `spec` has too.
ALTER TABLE schedules ADD COLUMN owner text COLLATE "C";
-- The start of a program.
CREATE INDEX schedules_of_owner ON schedules (owner, id) WHERE owner IS NOT NULL;

-- Three more of Onbeat's own events. A pattern that fits one of them and was accepted before fits older
-- types too. A schedule that names those one by one may get a type too many, until its next edit.
INSERT INTO own_event_types (type, schedule_id)
SELECT 'onbeat.schedule.orphaned', schedule_id FROM own_event_types WHERE type = 'onbeat.schedule.misfired'
ON CONFLICT DO NOTHING;
INSERT INTO own_event_types (type, schedule_id)
SELECT 'onbeat.endpoint.down', schedule_id FROM own_event_types
WHERE type IN ('onbeat.job.failed', 'onbeat.job.cancelled', 'onbeat.job.succeeded', 'onbeat.schedule.misfired')
GROUP BY schedule_id HAVING count(*) = 4
ON CONFLICT DO NOTHING;
INSERT INTO own_event_types (type, schedule_id)
SELECT 'onbeat.queue.late', schedule_id FROM own_event_types
WHERE type IN ('onbeat.job.failed', 'onbeat.job.cancelled', 'onbeat.job.succeeded', 'onbeat.schedule.misfired')
GROUP BY schedule_id HAVING count(*) = 4
ON CONFLICT DO NOTHING;
