-- Ended jobs with more dependents than one transaction frees or cancels, and their state: the planner goes on.
CREATE TABLE onbeat_cascades (
  job_id TEXT NOT NULL PRIMARY KEY,
  state  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
