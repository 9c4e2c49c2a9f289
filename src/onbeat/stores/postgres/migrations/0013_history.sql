-- What was started and ended in `resolution` seconds from `at` on. `source` is the process that counted
-- it, '' for all of them. `series` has the parts of queues and tasks.
CREATE TABLE pulses (
  resolution integer NOT NULL,
  at         bigint  NOT NULL,
  source     text    COLLATE "C" NOT NULL,
  totals     text    COLLATE "C" NOT NULL,
  series     text    COLLATE "C" NOT NULL,
  PRIMARY KEY (resolution, at, source)
);

-- How many jobs stood in the queues: one sample in `resolution` seconds from `at` on.
CREATE TABLE gauges (
  resolution integer NOT NULL,
  at         bigint  NOT NULL,
  body       text    COLLATE "C" NOT NULL,
  PRIMARY KEY (resolution, at)
);
