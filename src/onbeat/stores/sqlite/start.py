"""Starts claimed jobs."""

from collections.abc import Sequence

from onbeat.model.job import Job
from onbeat.ports.store import ClaimRequest
from onbeat.rules.claims import as_claimed
from onbeat.rules.overlap import has_overlap_rule
from onbeat.stores.sql.values import micros, micros_or_none
from onbeat.stores.sql.verbs.overlap import admit
from onbeat.stores.sqlite.transaction import Transaction, finish, json_array


def start_admitted(
    transaction: Transaction, request: ClaimRequest, due: Sequence[Job]
) -> list[Job]:
    """Start jobs that their overlap rule admits; each sees the ones before it as running."""
    now = micros(request.now)
    admitted: list[Job] = []
    pending: list[Job] = []
    for job in due:
        if has_overlap_rule(job):
            start(transaction, request, pending)
            pending = []
            if not is_ready(transaction, job) or not finish(admit(transaction, job, now)):
                continue
        pending.append(job)
        admitted.append(job)
    start(transaction, request, pending)
    return [as_claimed(job, request.worker, request.now, request.lease_until) for job in admitted]


def is_ready(transaction: Transaction, job: Job) -> bool:
    """False if another job of this claim replaced it."""
    return bool(transaction.value("SELECT ready FROM onbeat_jobs WHERE id = ?", (job.id,)))


def start(transaction: Transaction, request: ClaimRequest, jobs: Sequence[Job]) -> None:
    if jobs:
        transaction.run(
            """
            UPDATE onbeat_jobs
            SET state = 'running', worker = :worker, token = token + 1, attempt = attempt + 1,
                started_at = :now, lease_until = :lease_until, progress = NULL
            WHERE id IN (SELECT value FROM json_each(:ids))
            """,
            {
                "worker": request.worker,
                "now": micros(request.now),
                "lease_until": micros_or_none(request.lease_until),
                "ids": json_array(job.id for job in jobs),
            },
        )
