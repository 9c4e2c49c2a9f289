"""Ended attempts, and progress of running ones; the token fences both."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from onbeat.model.ids import JobId, Token
from onbeat.model.job import Progress
from onbeat.ports.store import Hint, Settlement
from onbeat.stores.sql.values import micros, micros_or_none, text_or_none, to_json
from onbeat.stores.sqlite.ends import cancel_waiting, free_waiting
from onbeat.stores.sqlite.transaction import Row, Transaction, listed


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A settlement made ready outside the transaction, to keep that short."""

    id: JobId
    token: Token
    ends: bool
    at: datetime
    row: Row


def settled(settlement: Settlement) -> Settled:
    job, attempt = settlement.job, settlement.attempt
    row = (
        attempt.job_id,
        attempt.token,
        attempt.worker,
        job.state.value,
        job.reason,
        micros(job.due_at),
        job.attempt,
        job.lost,
        job.released,
        micros_or_none(job.started_at),
        micros_or_none(job.finished_at),
        text_or_none(job.result),
        job.error,
        None if job.progress is None else to_json(job.progress),
        micros_or_none(job.start_by),
        to_json(attempt),
    )
    return Settled(job.id, attempt.token, job.is_final, attempt.finished_at, row)


def settle(transaction: Transaction, settlements: Sequence[Settled]) -> Sequence[bool]:
    """Many callers' settlements at once."""
    ending = [one for one in settlements if one.ends]
    going_on = [one for one in settlements if not one.ends]
    written = 0
    if ending:
        written += end(transaction, ending)
    if going_on:
        written += send_back(transaction, going_on)
    if written == len(settlements):
        return [True] * written
    return find_written(transaction, settlements)


def end(transaction: Transaction, settlements: Sequence[Settled]) -> int:
    """Move the jobs whose lease is valid to `finished`; answers with how many."""
    moved = transaction.run_rows(
        """
        INSERT OR IGNORE INTO finished (
          id, state, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence,
          overlap, token, attempt, lost, released, started_at, finished_at, reason, cancel_reason,
          result, error, progress, last_attempt, spec)
        SELECT
          id, column4, queue, priority, lane, column6, column15, unique_key, schedule_id,
          occurrence, overlap, token, column7, column8, column9, column10, column11, column5,
          cancel_reason, column12, column13, progress, column16, spec
        FROM :rows
        CROSS JOIN jobs
          ON id = column1 AND token = column2 AND worker = column3 AND state = 'running'
        """,
        [one.row for one in settlements],
    )
    if moved:
        transaction.hints.add(Hint.ENDED)
        ids = [one.id for one in settlements]
        transaction.run(
            """
            DELETE FROM jobs
            WHERE id IN (SELECT value FROM json_each(?))
              AND EXISTS (SELECT 1 FROM finished WHERE finished.id = jobs.id)
            """,
            (listed(ids),),
        )
        free_waiting(transaction, ids, latest(settlements))
    return moved


def send_back(transaction: Transaction, settlements: Sequence[Settled]) -> int:
    """Let the jobs whose lease is valid wait again; answers with how many."""
    rows = [one.row for one in settlements]
    transaction.run_rows(
        """
        INSERT OR IGNORE INTO attempts (job_id, token, record)
        SELECT column1, column2, column16
        FROM :rows
        CROSS JOIN jobs
          ON id = column1 AND token = column2 AND worker = column3 AND state = 'running'
        """,
        rows,
    )
    moved = transaction.run_rows(
        """
        UPDATE jobs
        SET state = column4, worker = NULL, lease_until = NULL, reason = column5, due_at = column6,
            attempt = column7, lost = column8, released = column9, started_at = column10,
            result = column12, error = column13, progress = column14, start_by = column15
        FROM :rows
        WHERE id = column1 AND token = column2 AND worker = column3 AND state = 'running'
        """,
        rows,
    )
    if moved:
        transaction.hints.add(Hint.JOBS)
        cancel_asked(transaction, settlements)
    return moved


def cancel_asked(transaction: Transaction, settlements: Sequence[Settled]) -> None:
    """A cancel that came while the attempt ran, unknown to it, still means no further attempt."""
    sql = """
        SELECT json_group_array(json_array(id, cancel_reason))
        FROM jobs
        WHERE id IN (SELECT value FROM json_each(?))
          AND state = 'waiting'
          AND cancel_reason IS NOT NULL
    """
    asked = transaction.values(sql, (listed(one.id for one in settlements),))
    if asked:
        cancel_waiting(transaction, dict(asked), latest(settlements))


def latest(settlements: Sequence[Settled]) -> int:
    return micros(max(one.at for one in settlements))


def find_written(transaction: Transaction, settlements: Sequence[Settled]) -> list[bool]:
    """Which of the attempts are kept, by this call or by an earlier one that it repeats.

    Another outcome of the same attempt is not a repetition: that one lost its lease, perhaps to
    whoever declared its worker dead.
    """
    sql = """
        SELECT json_group_array(
                 EXISTS (SELECT 1 FROM attempts
                         WHERE job_id = value ->> 0 AND token = value ->> 1
                           AND record = value ->> 2)
                 OR EXISTS (SELECT 1 FROM finished
                            WHERE id = value ->> 0 AND last_attempt = value ->> 2))
        FROM json_each(?)
    """
    asked = listed((one.id, one.token, one.row[-1]) for one in settlements)
    return [bool(one) for one in transaction.values(sql, (asked,))]


def note_progress(
    transaction: Transaction, notes: Sequence[tuple[JobId, Token, Progress]]
) -> Sequence[bool]:
    rows = [(id, token, to_json(progress)) for id, token, progress in notes]
    transaction.run_rows(
        """
        UPDATE jobs
        SET progress = column3
        FROM :rows
        WHERE id = column1 AND token = column2 AND state = 'running'
        """,
        rows,
    )
    sql = """
        SELECT json_group_array(
                 EXISTS (SELECT 1 FROM jobs
                         WHERE id = value ->> 0 AND token = value ->> 1 AND state = 'running'))
        FROM json_each(?)
    """
    valid = transaction.values(sql, (listed((id, token) for id, token, _ in notes),))
    return [bool(one) for one in valid]
