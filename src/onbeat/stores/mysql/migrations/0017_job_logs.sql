-- What handlers logged. `number` rises from line to line of a job; `fields` is a JSON object.
CREATE TABLE IF NOT EXISTS job_logs (
  job_id  VARCHAR(36)  NOT NULL,
  number  BIGINT       NOT NULL,
  attempt INT          NOT NULL,
  at      BIGINT       NOT NULL,
  level   VARCHAR(20)  NOT NULL,
  logger  VARCHAR(200) NOT NULL,
  text    TEXT         NOT NULL,
  fields  TEXT,
  PRIMARY KEY (job_id, number)
) ENGINE = InnoDB :exact;
