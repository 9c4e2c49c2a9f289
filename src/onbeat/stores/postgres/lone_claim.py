"""The claim of a single job that was announced: by its id, without a look at the ready lists."""

from collections.abc import Sequence
from typing import Any

from onbeat.model.ids import JobId
from onbeat.ports.store import ClaimRequest
from onbeat.stores.postgres.ready_lists import IN_TIME, READY
from onbeat.stores.postgres.start import CHANGES, STARTED_COLUMNS, UnreadJobs, lease_end
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros

PLACE = """
    id = :id::uuid AND lane = ANY(:lanes::text[])
    AND (:queues::text[] IS NULL OR queue = ANY(:queues))
"""
"""Whether this is the job, and the claimant's to take."""
PLAIN = f"""
    grp IS NULL AND overlap IS NULL AND {IN_TIME}
    AND NOT EXISTS (SELECT 1 FROM queues WHERE name = queue AND (paused OR limits IS NOT NULL))
"""  # noqa: S608  no value in it
"""Whether the job may start at $2, and nothing else has a say in that."""


def place(sql: str, lanes: str, queues: str, id: str) -> str:
    return sql.replace(":lanes", lanes).replace(":queues", queues).replace(":id", id)


TAKE = place(
    f"""
    UPDATE jobs
    SET {CHANGES}
    WHERE ctid = (
        SELECT ctid FROM jobs
        WHERE {PLACE} AND {READY} AND {PLAIN}
        FOR UPDATE SKIP LOCKED)
      AND {READY}
    RETURNING {STARTED_COLUMNS}
    """,  # noqa: S608  no value in it
    *("$4", "$5", "$6"),
)
IS_LEFT = place(
    f"SELECT EXISTS (SELECT 1 FROM jobs WHERE {PLACE} AND {READY} AND ({PLAIN}) IS NOT TRUE)",  # noqa: S608  no value in it
    *("$1", "$3", "$4"),
)


async def take(
    transaction: Transaction, request: ClaimRequest, id: JobId
) -> tuple[UnreadJobs, bool]:
    """The job, if it has started; and whether a look at the ready lists has to decide about it.

    A job that is gone, that another claimant has just locked, or that is for others needs none.
    """
    now, lanes = micros(request.now), sorted(request.lanes)
    queues = None if request.queues is None else list(request.queues)
    rows: Sequence[Any] = await transaction.rows(
        TAKE, request.worker, now, lease_end(request), lanes, queues, id
    )
    must_look = not rows and await transaction.value(IS_LEFT, lanes, now, queues, id)
    return UnreadJobs(rows, request), must_look
