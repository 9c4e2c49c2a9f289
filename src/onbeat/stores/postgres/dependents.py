"""The statement that frees the dependents of many ended jobs at once.

Dependents are written in the order of their ids, by which all lock them. A wait is deleted only
with its job or with the end for which that waits, and the ended jobs are locked: so the waits that
the statement reads stay those of the jobs that it writes, whatever else has changed of these.
"""

from typing import Final

# Arrays keep the planner to the primary keys: of tables that change so much it knows little.
FREE: Final = """
    WITH chosen AS MATERIALIZED (
      SELECT ctid AS tid, job_id, wanted = ANY($2::smallint[]) AS is_met
      FROM waits
      WHERE awaits = ANY($1::uuid[])
      LIMIT $3
    ),
    counts AS MATERIALIZED (
      SELECT count(*) AS waiting, count(*) FILTER (WHERE is_met) AS met FROM chosen
    ),
    gone AS MATERIALIZED (
      SELECT job_id, count(*)::integer AS total
      FROM chosen
      WHERE (SELECT met = waiting AND waiting < $3 FROM counts)
      GROUP BY job_id
      ORDER BY job_id
    ),
    freed AS (
      UPDATE jobs
      SET blocked_by = jobs.blocked_by - dependent.total
      FROM unnest(ARRAY(SELECT job_id FROM gone), ARRAY(SELECT total FROM gone))
           AS dependent (id, total)
      WHERE jobs.id = dependent.id
    ),
    forgotten AS (
      DELETE FROM waits
      WHERE ctid = ANY(ARRAY(SELECT tid FROM chosen
                             WHERE (SELECT met = waiting AND waiting < $3 FROM counts)))
    )
    SELECT waiting, met FROM counts
"""
