"""What was done to a job by hand or by policy, and its attempts."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.event import Transition
from onbeat.model.ids import JobId, Token
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import instant

ATTEMPT = msgspec.json.Decoder(Attempt)

OUTCOMES = {
    "succeeded": OutcomeName.SUCCEEDED,
    "failed": OutcomeName.FAILED,
    "cancelled": OutcomeName.CANCELLED,
}
"""The outcome of an attempt that brought a job to each state, unless `last_attempt` says more."""


async def note(transaction: Transaction, causes: Mapping[JobId, str], at: int, went: str) -> None:
    """Keep that each job, as it now is, went to a state, and by what cause."""
    await transaction.run(
        """
        INSERT INTO transitions (job_id, at, went, cause, attempt, worker)
        SELECT noted.id, $3, $4, noted.cause, job.attempt, job.worker
        FROM unnest($1::uuid[], $2::text[]) AS noted (id, cause)
        CROSS JOIN LATERAL (
          SELECT attempt, worker FROM jobs WHERE jobs.id = noted.id
          UNION ALL
          SELECT coalesce(attempt, token), NULL FROM finished WHERE finished.id = noted.id
        ) AS job
        """,
        list(causes),
        list(causes.values()),
        at,
        went,
    )


async def transitions(transaction: Transaction, id: JobId) -> Sequence[Transition]:
    return (await transitions_of(transaction, [id])).get(id, [])


async def transitions_of(
    transaction: Transaction, ids: Collection[JobId]
) -> dict[JobId, list[Transition]]:
    """In the order in which they came about."""
    sql = """
        SELECT job_id, at, went, cause, attempt, worker
        FROM transitions
        WHERE job_id = ANY($1::uuid[])
        ORDER BY seq
    """
    found: dict[JobId, list[Transition]] = {}
    for id, at, went, cause, attempt, worker in await transaction.rows(sql, list(ids)):
        job = JobId(str(id))
        found.setdefault(job, []).append(
            Transition(
                job_id=job, at=instant(at), to=went, cause=cause, attempt=attempt, worker=worker
            )
        )
    return found


async def attempts(transaction: Transaction, id: JobId) -> Sequence[Attempt]:
    return (await attempts_of(transaction, [id])).get(id, [])


async def attempts_of(
    transaction: Transaction, ids: Collection[JobId]
) -> dict[JobId, list[Attempt]]:
    """In the order in which they began."""
    sql = """
        SELECT job_id, token, record,
               NULL AS worker, NULL AS state, 0 AS attempt, NULL::bigint AS started_at,
               NULL::bigint AS finished_at, NULL AS error
        FROM attempts
        WHERE job_id = ANY($1::uuid[])
        UNION ALL
        SELECT id, token, last_attempt, last_worker, state, coalesce(attempt, token), started_at,
               finished_at, error
        FROM finished
        WHERE id = ANY($1::uuid[])
          AND (last_attempt IS NOT NULL OR last_worker IS NOT NULL)
        ORDER BY 1, 2
    """
    found: dict[JobId, list[Attempt]] = {}
    for row in await transaction.rows(sql, list(ids)):
        found.setdefault(JobId(str(row[0])), []).append(read_attempt(row))
    return found


def read_attempt(row: Sequence[Any]) -> Attempt:
    id, token, record, worker, state, number, started_at, finished_at, error = row
    if record is not None:
        return ATTEMPT.decode(record)
    return Attempt(
        job_id=JobId(str(id)),
        token=Token(token),
        number=number,
        worker=worker,
        started_at=instant(started_at),
        finished_at=instant(finished_at),
        outcome=OUTCOMES[state],
        error=error,
    )
