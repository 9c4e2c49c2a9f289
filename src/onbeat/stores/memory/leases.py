"""Leases: holders, takeovers, renewals and expiry."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.worker import RECEIVER, heard_id, is_carried
from onbeat.ports.store import HeldLease
from onbeat.stores.memory.tables import Tables


def runs_under(job: Job, token: Token) -> bool:
    return job.state is JobState.RUNNING and job.token == token


def find_leased(tables: Tables, id: JobId, token: Token) -> Job | None:
    """The job, if it runs under the lease with this token."""
    job = tables.jobs.get(id)
    return job if job is not None and runs_under(job, token) else None


def held_leases(tables: Tables, worker: WorkerId) -> Sequence[HeldLease]:
    return tuple(lease_of(tables.jobs[id]) for id in sorted(tables.leases.get(worker, ())))


def lease_of(job: Job) -> HeldLease:
    return HeldLease(job.id, job.token, job.cancel_reason)


def start(tables: Tables, worker: WorkerId, id: JobId, token: Token, now: datetime) -> Job | None:
    """Give the lease to the worker; a job that it started before is not changed."""
    job = find_leased(tables, id, token)
    if job is None:
        return None
    is_timed = job.lease_until is not None and job.worker != RECEIVER
    if is_carried(job.worker) or is_timed:
        job = replace(job, worker=worker, started_at=now, lease_until=None)
        tables.put_job(job)
    return job if job.worker == worker else None


def hand_over(tables: Tables, id: JobId, token: Token, until: datetime) -> bool:
    """Let the receiver of a callback hold the lease; one that it holds is not changed."""
    job = find_leased(tables, id, token)
    if job is None:
        return False
    if job.worker != RECEIVER:
        tables.put_job(replace(job, worker=RECEIVER, lease_until=until))
    return True


def renew(tables: Tables, id: JobId, token: Token, until: datetime) -> HeldLease | None:
    job = find_leased(tables, id, token)
    if job is None or job.lease_until is None:
        return None
    assert job.worker is not None, "a running job has a worker"
    tables.put_job(replace(job, worker=heard_id(job.worker), lease_until=until))
    return lease_of(job)


def abandoned_jobs(
    tables: Tables, dead: Collection[WorkerId], now: datetime, limit: int
) -> Sequence[Job]:
    running = (tables.jobs[id] for ids in tables.leases.values() for id in ids)
    lost = sorted(job.id for job in running if has_run_out(tables, job, dead, now))
    return tuple(tables.jobs[id] for id in lost[:limit])


def has_run_out(tables: Tables, job: Job, dead: Collection[WorkerId], now: datetime) -> bool:
    if job.lease_until is not None:
        return job.lease_until < now
    return job.worker in dead or job.worker not in tables.workers


def forget_workers(
    tables: Tables, ids: Collection[WorkerId], beats: Mapping[WorkerId, int] | None
) -> int:
    named = frozenset(ids)
    gone = [
        worker
        for id, worker in tables.workers.items()
        if id in named
        and not tables.leases.get(id)
        and (beats is None or worker.beat == beats.get(id))
    ]
    for worker in gone:
        del tables.workers[worker.id]
    return len(gone)
