-- Ended jobs with more dependents than one transaction frees or cancels, and their state: the planner goes on.
CREATE TABLE cascades (
  job_id uuid NOT NULL PRIMARY KEY,
  state  text NOT NULL
);
