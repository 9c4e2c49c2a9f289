-- Who paused the queue, when and why, as JSON; NULL where it is not paused.
ALTER TABLE queues ADD COLUMN pause TEXT;
