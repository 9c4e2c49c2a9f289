-- Ended jobs with more dependents than one transaction frees or cancels, and their state: the planner goes on.
CREATE TABLE IF NOT EXISTS cascades (
  job_id VARCHAR(36) NOT NULL PRIMARY KEY,
  state  VARCHAR(9)  NOT NULL
) ENGINE = InnoDB :exact;
