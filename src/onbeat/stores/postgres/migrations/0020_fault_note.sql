-- `process`: the worker process that told of a fault first. `operator_note`: what an operator wrote about it,
-- by whom and when. Both are JSON objects.
ALTER TABLE faults ADD COLUMN process text COLLATE "C", ADD COLUMN operator_note text COLLATE "C";

-- How often each alert has begun.
ALTER TABLE alerts ADD COLUMN times bigint NOT NULL DEFAULT 1;
