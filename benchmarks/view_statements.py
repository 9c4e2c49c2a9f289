"""The statements that fill the store of `view.py`: `n` is the number of a row."""

from typing import Final

FLOW_JOBS: Final = 10_000
FAULTS: Final = 40
STATE: Final = """
  CASE WHEN n % 50 = 0 THEN 'failed' WHEN n % 500 = 1 THEN 'cancelled' ELSE 'succeeded' END
"""
POSTGRES_ID: Final = """
  (lpad(to_hex({at} / 1000), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0')
   || '8' || lpad(to_hex({n}), 15, '0'))::uuid
"""
POSTGRES_ENDED: Final = f"""
INSERT INTO finished (id, state, queue, lane, due_at, started_at, finished_at, token, priority,
                      error, fault, flow, spec, last_worker)
SELECT {POSTGRES_ID.format(at="at", n="n")}, {STATE}, 'queue.' || (n % 200), 'task.' || (n % 200),
       at, at + 5000, at + 20000, 1, 0,
       CASE WHEN n % 50 = 0 THEN 'TimeoutError: no answer from ' || n END,
       CASE WHEN n % 50 = 0 THEN ($5::bigint[])[1 + n / 50 % {FAULTS}] END,
       CASE WHEN n <= {FLOW_JOBS} THEN $6::uuid END,
       CASE WHEN n = $10 THEN $9::text
            WHEN n % 50 = 7 THEN replace($8::text, 'TENANT', 't' || (n / 50 % 1000))
            ELSE $7::text END,
       'bench'
FROM (SELECT n, $3::bigint + n * $4::bigint AS at
      FROM generate_series($1::bigint, $2::bigint) AS n) AS made
"""
POSTGRES_WAITING: Final = f"""
INSERT INTO jobs (id, created_at, due_at, priority, queue, lane, spec)
SELECT {POSTGRES_ID.format(at="$3::bigint", n="n")}, $3::bigint,
       CASE WHEN n % 3 = 0 THEN $3 - n % 1000 * 1000000
            ELSE $3 + (86400 + n % 864000) * 1000000 END,
       0, 'queue.' || (n % 200), 'task.' || (n % 200),
       CASE WHEN n % 50 = 7 THEN replace($5::text, 'TENANT', 't' || (n / 50 % 1000))
            ELSE $4::text END
FROM generate_series($1::bigint, $2::bigint) AS n
"""
RUN_NUMBER: Final = 1 << 40
"""Runs of schedules have numbers of their own, so that no id is made twice."""
POSTGRES_RUN_ID: Final = POSTGRES_ID.format(at="at", n="(n + $5::bigint)")
POSTGRES_RUNS: Final = f"""
INSERT INTO finished (id, state, queue, lane, due_at, occurrence, started_at, finished_at, token,
                      priority, spec, schedule_id, last_worker)
SELECT {POSTGRES_RUN_ID},
       'succeeded', 'default', 'task.0', at, at, at + 5000, at + 20000, 1, 0, $6::text, $1::uuid,
       'bench'
FROM (SELECT n, $2::bigint + n * $3::bigint AS at
      FROM generate_series(1, $4::bigint) AS n) AS made
"""
POSTGRES_DISPOSITIONS: Final = f"""
INSERT INTO dispositions (schedule_id, first, last, job_id)
SELECT $1::uuid, at, at, {POSTGRES_RUN_ID}
FROM (SELECT n, $2::bigint + n * $3::bigint AS at
      FROM generate_series(1, $4::bigint) AS n) AS made
ON CONFLICT DO NOTHING
"""

SQLITE_ID: Final = """
  (substr(printf('%012x', {at} / 1000), 1, 8) || '-' || substr(printf('%012x', {at} / 1000), 9)
   || '-7' || printf('%03x', n % 4096) || '-8' || substr(printf('%015x', {n}), 1, 3) || '-'
   || substr(printf('%015x', {n}), 4))
"""
NUMBERS: Final = """
WITH RECURSIVE numbers (n) AS (SELECT :first UNION ALL SELECT n + 1 FROM numbers WHERE n < :last)
"""
SQLITE_SPEC: Final = """
  json_set({spec}, '$.queue', 'queue.' || (n % 200), '$.target.task', 'task.' || (n % 200),
           '$.created_at', strftime('%Y-%m-%dT%H:%M:%SZ', {at} / 1000000, 'unixepoch'))
"""
SQLITE_ENDED: Final = f"""
{NUMBERS}, made AS (SELECT n, :at + n * :step AS at FROM numbers)
INSERT INTO onbeat_finished (id, state, queue, lane, due_at, started_at, finished_at, token,
                             attempt, priority, overlap, error, fault, flow, spec)
SELECT {SQLITE_ID.format(at="at", n="n")},
       {STATE},
       'queue.' || (n % 200), 'task.' || (n % 200), at, at + 5000, at + 20000, 1, 1, 0, 'allow',
       CASE WHEN n % 50 = 0 THEN 'TimeoutError: no answer from ' || n END,
       CASE WHEN n % 50 = 0 THEN json_extract(:faults, '$[' || (n / 50 % {FAULTS}) || ']') END,
       CASE WHEN n <= {FLOW_JOBS} THEN :flow END,
       CASE WHEN n = :rare_at THEN {SQLITE_SPEC.format(spec=":rare", at="at")}
            WHEN n % 50 = 7 THEN replace({SQLITE_SPEC.format(spec=":labelled", at="at")},
                                         'TENANT', 't' || (n / 50 % 1000))
            ELSE {SQLITE_SPEC.format(spec=":plain", at="at")} END
FROM made
"""
SQLITE_WAITING: Final = f"""
{NUMBERS}
INSERT INTO onbeat_jobs (id, queue, lane, due_at, priority, overlap, spec)
SELECT {SQLITE_ID.format(at=":now", n="n")}, 'queue.' || (n % 200), 'task.' || (n % 200),
       CASE WHEN n % 3 = 0 THEN :now - n % 1000 * 1000000
            ELSE :now + (86400 + n % 864000) * 1000000 END,
       0, 'allow',
       CASE WHEN n % 50 = 7 THEN replace({SQLITE_SPEC.format(spec=":labelled", at=":now")},
                                         'TENANT', 't' || (n / 50 % 1000))
            ELSE {SQLITE_SPEC.format(spec=":plain", at=":now")} END
FROM numbers
"""
SQLITE_RUN_ID: Final = SQLITE_ID.format(at="at", n="n + :place")
SQLITE_RUNS: Final = f"""
{NUMBERS}, made AS (SELECT n, :begin + n * :step AS at FROM numbers)
INSERT INTO onbeat_finished (id, state, queue, lane, due_at, occurrence, started_at, finished_at,
                             token, attempt, priority, overlap, spec, schedule_id)
SELECT {SQLITE_RUN_ID}, 'succeeded', 'default', 'task.0', at, at, at + 5000, at + 20000, 1, 1, 0,
       'allow', json_set(:plain, '$.schedule_id', :id), :id
FROM made
"""
SQLITE_DISPOSITIONS: Final = f"""
{NUMBERS}, made AS (SELECT n, :begin + n * :step AS at FROM numbers)
INSERT OR IGNORE INTO onbeat_dispositions (schedule_id, first, last, job_id)
SELECT :id, at, at, {SQLITE_RUN_ID} FROM made
"""
