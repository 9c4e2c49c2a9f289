-- What handlers logged, in one partition for each day of `finished`: a day of lines goes at once with its
-- jobs. `number` rises from line to line of a job; `fields` is a JSON object.
CREATE TABLE job_logs (
  job_id  uuid    NOT NULL,
  number  bigint  NOT NULL,
  at      bigint  NOT NULL,
  attempt integer NOT NULL,
  level   text    COLLATE "C" NOT NULL,
  logger  text    COLLATE "C" NOT NULL,
  text    text    COLLATE "C" NOT NULL,
  fields  text    COLLATE "C",
  PRIMARY KEY (job_id, number)
) PARTITION BY RANGE (job_id);

-- What has no day of its own, as in `finished_rest`.
CREATE TABLE job_logs_rest PARTITION OF job_logs DEFAULT;
