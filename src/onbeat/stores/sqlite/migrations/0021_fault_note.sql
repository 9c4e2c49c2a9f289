-- `process`: the worker process that told of a fault first. `operator_note`: what an operator wrote about it,
-- by whom and when. Both are JSON objects.
ALTER TABLE onbeat_faults ADD COLUMN process TEXT;
ALTER TABLE onbeat_faults ADD COLUMN operator_note TEXT;

-- How often each alert has begun.
ALTER TABLE onbeat_alerts ADD COLUMN times INTEGER NOT NULL DEFAULT 1;
