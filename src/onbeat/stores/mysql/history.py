"""What was done to a job by hand or by policy, and its attempts."""

from collections.abc import Sequence

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.event import Transition
from onbeat.model.ids import JobId
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import instant

ATTEMPT = msgspec.json.Decoder(Attempt)


async def note(transaction: Transaction, steps: Sequence[Row]) -> None:
    """Each a job's id, instant, where it went to, why, and its attempt and worker."""
    await transaction.insert(
        """
        INSERT INTO transitions (job_id, at, went, cause, attempt, worker)
        VALUES (%s, %s, %s, %s, %s, %s)
        """,
        steps,
    )


async def keep_attempts(transaction: Transaction, rows: Sequence[Row]) -> None:
    """Each a job's id, token and record; those that are kept already stay."""
    await transaction.insert(
        """
        INSERT INTO attempts (job_id, token, record)
        VALUES (%s, %s, %s)
        ON DUPLICATE KEY UPDATE token = token
        """,
        rows,
    )


async def transitions(transaction: Transaction, id: JobId) -> Sequence[Transition]:
    sql = """
        SELECT job_id, at, went, cause, attempt, worker
        FROM transitions
        WHERE job_id = %s
        ORDER BY seq
    """
    return list(map(transition_of, await transaction.rows(sql, (id,))))


def transition_of(row: Row) -> Transition:
    id, at, went, cause, attempt, worker = row
    return Transition(
        job_id=id, at=instant(at), to=went, cause=cause, attempt=attempt, worker=worker
    )


async def attempts(transaction: Transaction, id: JobId) -> Sequence[Attempt]:
    """In the order in which they began."""
    sql = """
        SELECT token, record FROM attempts WHERE job_id = %(id)s
        UNION ALL
        SELECT token, last_attempt FROM finished WHERE id = %(id)s AND last_attempt IS NOT NULL
        ORDER BY token
    """
    return [ATTEMPT.decode(record) for _, record in await transaction.rows(sql, {"id": id})]
