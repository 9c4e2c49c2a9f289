"""What is deleted for age, and jobs that may no longer start."""

from collections.abc import Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.stores.mysql.ends import cancel_waiting
from onbeat.stores.mysql.letters import exhume
from onbeat.stores.mysql.rows import LIVE_COLUMNS, read_jobs
from onbeat.stores.mysql.transaction import Transaction


class Prune(msgspec.Struct, frozen=True):
    finished_before: int
    failed_before: int
    limit: int


async def prune(transaction: Transaction, request: Prune) -> int:
    sql = " UNION ALL ".join(
        f"""
        (SELECT id, finished_at
         FROM finished FORCE INDEX (finished_by_end)
         WHERE state = '{state}' AND finished_at < %({before})s
         ORDER BY finished_at, id
         LIMIT %(limit)s)
        """  # noqa: S608  values are bound
        for state, before in (
            ("succeeded", "finished_before"),
            ("cancelled", "finished_before"),
            ("failed", "failed_before"),
        )
    )
    sql += " ORDER BY finished_at, id LIMIT %(limit)s"
    ids = await transaction.column(sql, msgspec.structs.asdict(request))
    gone = await delete_jobs(transaction, ids) if ids else 0
    await prune_dispositions(transaction, request)
    await prune_letters(transaction, request)
    await prune_meters(transaction, request)
    return gone


async def delete_jobs(transaction: Transaction, ids: Sequence[JobId]) -> int:
    """Those among them that are still there: one may have been retried meanwhile."""
    sql = "SELECT id FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s ORDER BY id FOR UPDATE"
    there = await transaction.column(sql, (tuple(ids),))
    if there:
        chosen = (tuple(there),)
        for delete in (
            "DELETE finished FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s",
            "DELETE attempts FROM attempts FORCE INDEX (PRIMARY) WHERE job_id IN %s",
            "DELETE FROM transitions WHERE job_id IN %s",
        ):
            await transaction.run(delete, chosen)
    return len(there)


async def prune_dispositions(transaction: Transaction, request: Prune) -> None:
    """Not those of jobs that have not ended: they still say what became of their occurrence."""
    sql = """
        SELECT schedule_id, last
        FROM dispositions FORCE INDEX (dispositions_by_age)
        WHERE last < %s
          AND (job_id IS NULL OR NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id))
        ORDER BY last
        LIMIT %s
    """
    old = await transaction.rows(sql, (request.failed_before, request.limit))
    await transaction.run_each(
        "DELETE FROM dispositions WHERE schedule_id = %s AND last = %s", sorted(old)
    )


async def prune_letters(transaction: Transaction, request: Prune) -> None:
    sql = """
        SELECT id
        FROM dead_letters FORCE INDEX (dead_letters_by_age)
        WHERE at < %s
        ORDER BY at, id
        LIMIT %s
    """
    await exhume(transaction, await transaction.column(sql, (request.failed_before, request.limit)))


async def prune_meters(transaction: Transaction, request: Prune) -> None:
    """A bucket that is full is as one that was never drawn on."""
    sql = """
        SELECT queue, grp
        FROM meters FORCE INDEX (meters_full)
        WHERE full_at < %s
        ORDER BY full_at, queue, grp
        LIMIT %s
    """
    before = request.finished_before
    full = await transaction.rows(sql, (before, request.limit))
    await transaction.run_each(
        "DELETE FROM meters WHERE queue = %s AND grp = %s AND full_at < %s",
        [(*place, before) for place in sorted(full)],
    )


async def lapsed(transaction: Transaction, asked: tuple[int, int]) -> Sequence[Job]:
    """Those that claims have set aside, and those that they have not met yet."""
    sql = " UNION ALL ".join(
        f"""
        (SELECT {LIVE_COLUMNS}, bound_by
         FROM jobs FORCE INDEX (jobs_bounded)
         WHERE lapsed = {lapsed} AND bound_by < %(now)s
         ORDER BY bound_by, id
         LIMIT %(limit)s)
        """  # noqa: S608  values are bound
        for lapsed in (0, 1)
    )
    sql += " ORDER BY bound_by, id LIMIT %(limit)s"
    now, limit = asked
    rows = await transaction.rows(sql, {"now": now, "limit": limit})
    return read_jobs(row[:-1] for row in rows)


class CancelLapsed(msgspec.Struct, frozen=True):
    ids: Sequence[JobId]
    reason: str
    now: int


async def cancel_lapsed(transaction: Transaction, request: CancelLapsed) -> int:
    reasons = dict.fromkeys(request.ids, request.reason)
    return len(await cancel_waiting(transaction, reasons, request.now, started_too=False))
