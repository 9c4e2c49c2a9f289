"""Leases that are carried or timed: who takes them over, until when they run, and who lost them."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.worker import is_carried
from onbeat.ports.store import Held
from onbeat.stores.mysql.rows import LIVE_COLUMNS, read_jobs
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import micros


class Takeover(msgspec.Struct, frozen=True, gc=False):
    """One lease that a worker would take over."""

    worker: WorkerId
    id: JobId
    token: Token
    now: datetime


async def start(transaction: Transaction, takeovers: Sequence[Takeover]) -> list[Job | None]:
    """Many workers' takeovers at once; of several of one lease the first counts."""
    running = await lock_running(transaction, {one.id for one in takeovers})
    taken: defaultdict[tuple[WorkerId, datetime], list[JobId]] = defaultdict(list)
    for one in takeovers:
        job = running.get(one.id)
        if job is not None and job.token == one.token and may_be_taken_over(job):
            running[one.id] = replace(job, worker=one.worker, started_at=one.now, lease_until=None)
            taken[one.worker, one.now].append(one.id)
    await transaction.run_each(
        """
        UPDATE jobs FORCE INDEX (PRIMARY)
        SET worker = %s, started_at = %s, lease_until = NULL
        WHERE id IN %s
        """,
        [(worker, micros(now), tuple(ids)) for (worker, now), ids in taken.items()],
    )
    return [held_by(one, running.get(one.id)) for one in takeovers]


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
    return is_carried(job.worker) or job.lease_until is not None


def held_by(one: Takeover, job: Job | None) -> Job | None:
    """The job, if it runs under this lease and worker, whether since now or since before."""
    if job is None or (job.token, job.worker) != (one.token, one.worker):
        return None
    return job


async def held(transaction: Transaction, worker: WorkerId) -> list[Held]:
    sql = """
        SELECT id, token, cancel_reason
        FROM jobs FORCE INDEX (jobs_running)
        WHERE worker = %s
        ORDER BY id
    """
    return [
        Held(job_id=id, token=token, cancel_reason=reason)
        for id, token, reason in await transaction.rows(sql, (worker,))
    ]


class Renewal(msgspec.Struct, frozen=True):
    leases: Sequence[tuple[JobId, Token]]
    until: int


async def renew(transaction: Transaction, renewal: Renewal) -> list[Held | None]:
    running = await lock_running(transaction, {id for id, _ in renewal.leases})
    valid = {
        (job.id, job.token): Held(job.id, job.token, job.cancel_reason)
        for job in running.values()
        if job.lease_until is not None
    }
    answers = [valid.get(lease) for lease in renewal.leases]
    if renewed := tuple(one.job_id for one in answers if one is not None):
        await transaction.run(
            "UPDATE jobs FORCE INDEX (PRIMARY) SET lease_until = %s WHERE id IN %s",
            (renewal.until, renewed),
        )
    return answers


HOLDERS = """
    SELECT worker, MIN(lease_until)
    FROM jobs FORCE INDEX (jobs_running)
    WHERE worker IS NOT NULL
    GROUP BY worker
"""


class Abandoned(msgspec.Struct, frozen=True):
    dead: Collection[WorkerId]
    now: int
    limit: int


async def abandoned(transaction: Transaction, asked: Abandoned) -> Sequence[Job]:
    """By distinct holder first, so that the jobs of the living cost little."""
    holders, known = await transaction.tables((HOLDERS, "SELECT id FROM workers"), ())
    living = {id for (id,) in known} - set(asked.dead)
    gone = {holder for holder, _ in holders} - living
    late = {holder for holder, until in holders if until is not None and until < asked.now}
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
        "now": asked.now,
        "limit": asked.limit,
    }
    return read_jobs(await transaction.rows(sql, bindings))
