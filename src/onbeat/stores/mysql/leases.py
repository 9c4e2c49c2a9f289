"""Leases: holders, takeovers, renewals and expiry."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.worker import CARRIER, RECEIVER, REMOTE, is_carried
from onbeat.ports.store import HeldLease
from onbeat.stores.mysql.rows import LIVE_COLUMNS, read_jobs
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import micros


class Takeover(msgspec.Struct, frozen=True, gc=False):
    """A worker's request to take over a lease."""

    worker: WorkerId
    id: JobId
    token: Token
    now: datetime


async def start(transaction: Transaction, takeovers: Sequence[Takeover]) -> list[Job | None]:
    """Apply the takeovers of many workers; of several of one lease the first counts."""
    running = await lock_running(transaction, {takeover.id for takeover in takeovers})
    taken: defaultdict[tuple[WorkerId, datetime], list[JobId]] = defaultdict(list)
    for takeover in takeovers:
        job = running.get(takeover.id)
        if job is not None and job.token == takeover.token and may_be_taken_over(job):
            running[takeover.id] = replace(
                job, worker=takeover.worker, started_at=takeover.now, lease_until=None
            )
            taken[takeover.worker, takeover.now].append(takeover.id)
    await transaction.run_each(
        """
        UPDATE jobs FORCE INDEX (PRIMARY)
        SET worker = %s, started_at = %s, lease_until = NULL
        WHERE id IN %s
        """,
        [(worker, micros(now), tuple(ids)) for (worker, now), ids in taken.items()],
    )
    return [job_under_lease(takeover, running.get(takeover.id)) for takeover in takeovers]


async def lock_running(transaction: Transaction, ids: Collection[JobId]) -> dict[JobId, Job]:
    if not ids:
        return {}
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %s AND running = 1
        ORDER BY id
        FOR UPDATE
    """  # noqa: S608  values are bound
    return {job.id: job for job in read_jobs(await transaction.rows(sql, (tuple(ids),)))}


def may_be_taken_over(job: Job) -> bool:
    return is_carried(job.worker) or (job.lease_until is not None and job.worker != RECEIVER)


def job_under_lease(takeover: Takeover, job: Job | None) -> Job | None:
    """The job, if it runs under this lease and worker, whether taken over now or earlier."""
    if job is None or (job.token, job.worker) != (takeover.token, takeover.worker):
        return None
    return job


RENEW = f"""
    UPDATE jobs FORCE INDEX (PRIMARY)
    SET lease_until = %s,
        worker = IF(LEFT(worker, {len(CARRIER)}) = '{CARRIER}',
                    CONCAT('{REMOTE}', SUBSTRING(worker, {len(CARRIER) + 1})), worker)
    WHERE id IN %s
"""  # noqa: S608  values are bound


async def renew(
    transaction: Transaction, leases: Sequence[tuple[JobId, Token]], until: int
) -> list[HeldLease | None]:
    running = await lock_running(transaction, {id for id, _ in leases})
    valid = {
        (job.id, job.token): HeldLease(job.id, job.token, job.cancel_reason)
        for job in running.values()
        if job.lease_until is not None
    }
    answers = [valid.get(lease) for lease in leases]
    if renewed := tuple(answer.job_id for answer in answers if answer is not None):
        await transaction.run(RENEW, (until, renewed))
    return answers


HOLDERS = """
    SELECT worker, MIN(lease_until)
    FROM jobs FORCE INDEX (jobs_running)
    WHERE worker IS NOT NULL
    GROUP BY worker
"""


async def abandoned_jobs(
    transaction: Transaction, dead: Collection[WorkerId], now: int, limit: int
) -> Sequence[Job]:
    """By distinct holder first, so that the jobs of live workers cost little."""
    holders, known = await transaction.tables((HOLDERS, "SELECT id FROM workers"), ())
    living = {id for (id,) in known} - set(dead)
    gone = {holder for holder, _ in holders} - living
    late = {holder for holder, until in holders if until is not None and until < now}
    if not gone | late:
        return []
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs FORCE INDEX (jobs_running)
        WHERE worker IN %(suspects)s
          AND (lease_until < %(now)s OR lease_until IS NULL AND worker IN %(gone)s)
        ORDER BY id
        LIMIT %(limit)s
    """  # noqa: S608  values are bound
    bindings = {
        "suspects": tuple(gone | late),
        "gone": tuple(gone) or ("",),
        "now": now,
        "limit": limit,
    }
    return read_jobs(await transaction.rows(sql, bindings))
