-- What was started and ended in `resolution` seconds from `at` on. `source` is the process that counted
-- it, '' for all of them. `series` has the parts of queues and tasks.
CREATE TABLE IF NOT EXISTS pulses (
  resolution INT          NOT NULL,
  at         BIGINT       NOT NULL,
  source     VARCHAR(100) NOT NULL,
  totals     TEXT         NOT NULL,
  series     MEDIUMTEXT   NOT NULL,
  PRIMARY KEY (resolution, at, source)
) ENGINE = InnoDB :exact;

-- How many jobs stood in the queues: one sample in `resolution` seconds from `at` on.
CREATE TABLE IF NOT EXISTS gauges (
  resolution INT        NOT NULL,
  at         BIGINT     NOT NULL,
  body       MEDIUMTEXT NOT NULL,
  PRIMARY KEY (resolution, at)
) ENGINE = InnoDB :exact;
