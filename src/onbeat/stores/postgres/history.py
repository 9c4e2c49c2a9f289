"""What was done to a job by hand or by policy."""

from collections.abc import Mapping

from onbeat.model.ids import JobId
from onbeat.stores.postgres.transaction import Transaction


async def note(transaction: Transaction, causes: Mapping[JobId, str], at: int, went: str) -> None:
    """Record for each job, in its current form, a transition to a state, and the cause."""
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
