"""The statements that free the dependents of many ended jobs at once."""

from typing import Final

COUNT_WAITS: Final = """
    SELECT json_array(count(*), count(iif(wanted IN (SELECT value FROM json_each(?)), 1, NULL)))
    FROM (SELECT wanted FROM onbeat_waits
          WHERE awaits IN (SELECT value FROM json_each(?))
          LIMIT ?)
"""
UNBLOCK: Final = """
    UPDATE onbeat_jobs
    SET blocked_by = blocked_by - gone.total
    FROM (SELECT job_id, count(*) AS total
          FROM onbeat_waits
          WHERE awaits IN (SELECT value FROM json_each(?))
          GROUP BY job_id) AS gone
    WHERE id = gone.job_id
"""
FORGET_WAITS: Final = "DELETE FROM onbeat_waits WHERE awaits IN (SELECT value FROM json_each(?))"
