"""Writing ended attempts, each behind its fence."""

from collections.abc import Sequence
from typing import Any

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, Progress
from onbeat.ports.store import Hint, Settlement
from onbeat.stores.postgres.ends import cancel_waiting, free_waiting
from onbeat.stores.postgres.history import OUTCOMES, attempts_of
from onbeat.stores.postgres.rows import Row, columns, micros, micros_or_none, to_json
from onbeat.stores.postgres.transaction import Transaction

Note = tuple[JobId, Token, Progress]


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A settlement made ready outside the transaction, to keep that short."""

    id: JobId
    attempt: Attempt
    ends: bool
    at: int
    row: Row


def settled(settlement: Settlement) -> Settled:
    job, attempt = settlement.job, settlement.attempt
    is_plain = job.is_final and is_told_by(job, attempt)
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
        None if job.result is None else bytes(job.result).decode(),
        job.error,
        None if job.progress is None else to_json(job.progress),
        micros_or_none(job.start_by),
        None if is_plain else to_json(attempt),
    )
    return Settled(job.id, attempt, job.is_final, micros(attempt.finished_at), row)


def is_told_by(job: Job, attempt: Attempt) -> bool:
    """Whether the row of the ended job says all that there is to say of its last attempt."""
    return (
        attempt.worker is not None
        and attempt.outcome is OUTCOMES.get(job.state.value)
        and attempt.number == job.attempt
        and attempt.error == job.error
        and attempt.started_at == job.started_at
        and attempt.finished_at == job.finished_at
    )


ARRAYS = """
    unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::bigint[],
           $7::integer[], $8::smallint[], $9::smallint[], $10::bigint[], $11::bigint[],
           $12::text[], $13::text[], $14::text[], $15::bigint[], $16::text[])
    AS ended (id, token, worker, state, reason, due_at, attempt, lost, released, started_at,
              finished_at, result, error, progress, start_by, record)
"""

MOVE = """
    WITH gone AS (
      DELETE FROM jobs
      USING {arrays}
      WHERE jobs.id = ended.id
        AND jobs.token = ended.token
        AND jobs.worker = ended.worker
        AND jobs.running
        {unless}
      RETURNING jobs.id, ended.state, queue, priority, lane, ended.due_at, ended.start_by,
                unique_key, schedule_id, occurrence, overlap, jobs.token, ended.attempt, ended.lost,
                ended.released, ended.started_at, ended.finished_at, ended.reason, cancel_reason,
                ended.result, ended.error, jobs.progress,
                CASE WHEN ended.record IS NULL THEN ended.worker END, ended.record, spec
    )
    INSERT INTO finished (
      id, state, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence,
      overlap, token, attempt, lost, released, started_at, finished_at, reason, cancel_reason,
      result, error, progress, last_worker, last_attempt, spec)
    SELECT * FROM gone
"""
END_PLAIN = MOVE.format(arrays=ARRAYS, unless="AND NOT jobs.awaited")
END_PLAIN_TOLD = END_PLAIN + "RETURNING id"
END = MOVE.format(arrays=ARRAYS, unless="") + "RETURNING id"


async def end_plain(transaction: Transaction, settlements: Sequence[Settled]) -> list[bool]:
    """Move the jobs that end, whose lease is valid, and for which nobody waits; says which.

    One statement, which is a transaction by itself. A job that somebody begins to wait for
    meanwhile is locked by them: the statement waits, looks at the row again and leaves it.
    """
    ending = first_words(settlements)
    if not ending:
        return [False] * len(settlements)
    rows = columns([one.row for one in ending])
    if len(ending) == len(settlements):
        # All of them in the common case, which a count can tell.
        found = await transaction.rows(END_PLAIN_TOLD, *rows)
        if len(found) == len(settlements):
            return [True] * len(settlements)
    else:
        found = await transaction.rows(END_PLAIN_TOLD, *rows)
    moved = {JobId(str(row[0])) for row in found}
    words = {id(one) for one in ending}
    return [one.id in moved and id(one) in words for one in settlements]


def first_words(settlements: Sequence[Settled]) -> list[Settled]:
    """The first settlement of each job, if it ends the job, in the order of ids.

    Two that settle some of the same jobs then lock them in the same order.
    """
    first: dict[JobId, Settled] = {}
    for one in settlements:
        first.setdefault(one.id, one)
    return sorted((one for one in first.values() if one.ends), key=by_id)


def by_id(one: Settled) -> JobId:
    return one.id


async def settle(transaction: Transaction, settlements: Sequence[Settled]) -> list[bool]:
    """What takes more statements: jobs that go on, that others wait for, or that are lost."""
    first: dict[JobId, Settled] = {}
    for one in settlements:
        first.setdefault(one.id, one)
    ordered = sorted(first.values(), key=by_id)
    await end(transaction, [one for one in ordered if one.ends])
    await send_back(transaction, [one for one in ordered if not one.ends])
    return await find_written(transaction, settlements)


async def end(transaction: Transaction, settlements: Sequence[Settled]) -> None:
    if settlements:
        rows = columns([one.row for one in settlements])
        moved = [JobId(str(id)) for id in await transaction.column(END, *rows)]
        if moved:
            await free_waiting(transaction, moved, max(one.at for one in settlements))


async def send_back(transaction: Transaction, settlements: Sequence[Settled]) -> None:
    """Let the jobs whose lease is valid wait again.

    A cancel that came while the attempt ran, unknown to it, still means no further attempt.
    """
    if not settlements:
        return
    sql = """
        WITH back AS (
          UPDATE jobs
          SET running = FALSE, worker = NULL, reason = ended.reason, due_at = ended.due_at,
              attempt = ended.attempt, lost = ended.lost, released = ended.released,
              started_at = ended.started_at, result = ended.result, error = ended.error,
              progress = ended.progress, start_by = ended.start_by
          FROM :arrays
          WHERE jobs.id = ended.id
            AND jobs.token = ended.token
            AND jobs.worker = ended.worker
            AND jobs.running
          RETURNING jobs.id, jobs.token, ended.record, cancel_reason
        ),
        kept AS (
          INSERT INTO attempts (job_id, token, record)
          SELECT id, token, record FROM back
          ON CONFLICT DO NOTHING
        )
        SELECT id, cancel_reason FROM back
    """.replace(":arrays", ARRAYS)
    back = await transaction.rows(sql, *columns([one.row for one in settlements]))
    if back:
        transaction.hints.add(Hint.JOBS)
    asked = {JobId(str(id)): reason for id, reason in back if reason is not None}
    await cancel_waiting(transaction, asked, max(one.at for one in settlements))


async def find_written(transaction: Transaction, settlements: Sequence[Settled]) -> list[bool]:
    """Which of the attempts are kept, by this call or by an earlier one that it repeats.

    Another outcome of the same attempt is not a repetition: that one lost its lease, perhaps to
    whoever declared its worker dead.
    """
    kept = await attempts_of(transaction, {one.id for one in settlements})
    return [one.attempt in kept.get(one.id, ()) for one in settlements]


async def note_progress(transaction: Transaction, notes: Sequence[Note]) -> list[bool]:
    """The last of several notes on one job stands."""
    last: dict[tuple[JobId, Token], Progress] = {(id, token): done for id, token, done in notes}
    sql = """
        UPDATE jobs
        SET progress = noted.progress
        FROM unnest($1::uuid[], $2::integer[], $3::text[]) AS noted (id, token, progress)
        WHERE jobs.id = noted.id
          AND jobs.token = noted.token
          AND jobs.running
        RETURNING jobs.id, jobs.token
    """
    keys = sorted(last)
    texts = [to_json(last[key]) for key in keys]
    found: Sequence[Any] = await transaction.rows(
        sql, [id for id, _ in keys], [token for _, token in keys], texts
    )
    valid = {(str(id), token) for id, token in found}
    return [(id, token) in valid for id, token, _ in notes]
