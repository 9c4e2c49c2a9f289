"""Writing ended attempts, each behind its fence."""

from collections.abc import Sequence
from typing import Any

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, JobState, Progress
from onbeat.ports.store import Hint, Settlement
from onbeat.stores.postgres.ends import cancel_waiting, free_waiting
from onbeat.stores.postgres.history import OUTCOMES, attempts_of
from onbeat.stores.postgres.rows import Row, columns
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros, micros_or_none, to_json

Note = tuple[JobId, Token, Progress]


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A settlement made ready outside the transaction, to keep that short."""

    id: JobId
    job: Job
    attempt: Attempt
    ends: bool
    at: int
    result: str | None
    row: Row | None

    @property
    def is_plain(self) -> bool:
        """Whether it says no more than that the attempt, and the job with it, succeeded."""
        return self.row is None


def settled(settlement: Settlement) -> Settled:
    job, attempt = settlement.job, settlement.attempt
    told = job.is_final and is_told_by(job, attempt)
    result = None if job.result is None else bytes(job.result).decode()
    plain = told and job.state is JobState.SUCCEEDED and job.reason is None and job.error is None
    at = micros(attempt.finished_at)
    row = None if plain else row_of(job, attempt, told=told, result=result)
    return Settled(job.id, job, attempt, job.is_final, at, result, row)


def row_of(job: Job, attempt: Attempt, *, told: bool, result: str | None) -> Row:
    return (
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
        result,
        job.error,
        None if job.progress is None else to_json(job.progress),
        micros_or_none(job.start_by),
        None if told else to_json(attempt),
    )


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


# Worker and running are compared in words that no index answers: the planner, who may know the
# table from a moment when nothing ran, would else look through all that runs for each row that it
# settles.
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
        AND jobs.worker IS NOT DISTINCT FROM ended.worker
        AND jobs.running IS NOT DISTINCT FROM TRUE
        {unless}
      RETURNING jobs.id, ended.state, queue, priority, lane, ended.due_at, ended.start_by,
                unique_key, schedule_id, occurrence, overlap, jobs.token, ended.attempt, ended.lost,
                ended.released, ended.started_at, ended.finished_at, ended.reason, cancel_reason,
                ended.result, ended.error, jobs.progress,
                CASE WHEN ended.record IS NULL THEN ended.worker END, ended.record, spec,
                created_at
    )
    INSERT INTO finished (
      id, state, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence,
      overlap, token, attempt, lost, released, started_at, finished_at, reason, cancel_reason,
      result, error, progress, last_worker, last_attempt, spec, created_at)
    SELECT * FROM gone
"""
MOVED = "RETURNING id, EXISTS (SELECT 1 FROM queues WHERE limits IS NOT NULL)"
"""Where queues have limits, the end of a job may let another one start."""
END_PLAIN = MOVE.format(arrays=ARRAYS, unless="AND NOT jobs.awaited") + MOVED
END = MOVE.format(arrays=ARRAYS, unless="") + MOVED


SUCCEED = f"""
    WITH gone AS (
      DELETE FROM jobs
      USING unnest($1::uuid[], $2::integer[], $3::bigint[], $4::text[])
            AS ended (id, token, finished_at, result)
      WHERE jobs.id = ended.id
        AND jobs.token = ended.token
        AND jobs.worker IS NOT DISTINCT FROM $5
        AND jobs.running IS NOT DISTINCT FROM TRUE
        AND NOT jobs.awaited
      RETURNING jobs.id, 'succeeded', queue, priority, lane, due_at, start_by, unique_key,
                schedule_id, occurrence, overlap, jobs.token, nullif(attempt, jobs.token),
                nullif(lost, 0), nullif(released, 0), started_at, ended.finished_at, cancel_reason,
                ended.result, progress, worker, spec, nullif(created_at, due_at)
    )
    INSERT INTO finished (
      id, state, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence,
      overlap, token, attempt, lost, released, started_at, finished_at, cancel_reason, result,
      progress, last_worker, spec, created_at)
    SELECT * FROM gone
    {MOVED}
"""  # noqa: S608  no value in it


async def end_plain(transaction: Transaction, settlements: Sequence[Settled]) -> list[bool]:
    """Move the jobs that end, whose lease is valid, and for which nobody waits; says which.

    One statement, which is a transaction by itself. A job that somebody begins to wait for
    meanwhile is locked by them: the statement waits, looks at the row again and leaves it.
    """
    ending = first_words(settlements)
    moved: set[JobId] = set()
    for worker in {one.attempt.worker for one in ending if one.is_plain}:
        succeeded = [one for one in ending if one.is_plain and one.attempt.worker == worker]
        moved.update(await succeed(transaction, worker, succeeded))
    others = [one.row for one in ending if one.row is not None]
    if others:
        found = await moved_by(transaction, END_PLAIN, *columns(others))
        moved.update(JobId(str(row[0])) for row in found)
    if len(moved) == len(settlements):
        return [True] * len(settlements)
    words = {id(one) for one in ending}
    return [one.id in moved and id(one) in words for one in settlements]


async def succeed(
    transaction: Transaction, worker: str | None, settlements: Sequence[Settled]
) -> list[JobId]:
    """The fence says that the row is as it was claimed, so only what is new is sent."""
    found = await moved_by(
        transaction,
        SUCCEED,
        [one.id for one in settlements],
        [one.attempt.token for one in settlements],
        [one.at for one in settlements],
        [one.result for one in settlements],
        worker,
    )
    if len(found) == len(settlements):
        return [one.id for one in settlements]
    return [JobId(str(row[0])) for row in found]


async def moved_by(transaction: Transaction, sql: str, *values: object) -> Sequence[Any]:
    found = await transaction.rows(sql, *values)
    if found and found[0][1]:
        transaction.hints.add(Hint.JOBS)
    return found


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


def full_row(one: Settled) -> Row:
    return one.row or row_of(one.job, one.attempt, told=True, result=one.result)


async def end(transaction: Transaction, settlements: Sequence[Settled]) -> None:
    if settlements:
        rows = columns([full_row(one) for one in settlements])
        moved = [JobId(str(row[0])) for row in await moved_by(transaction, END, *rows)]
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
          SET running = FALSE, worker = NULL, timed = NULL, lease_until = NULL,
              reason = ended.reason, due_at = ended.due_at,
              attempt = ended.attempt, lost = ended.lost, released = ended.released,
              started_at = ended.started_at, result = ended.result, error = ended.error,
              progress = ended.progress, start_by = ended.start_by
          FROM :arrays
          WHERE jobs.id = ended.id
            AND jobs.token = ended.token
            AND jobs.worker IS NOT DISTINCT FROM ended.worker
            AND jobs.running IS NOT DISTINCT FROM TRUE
          RETURNING jobs.id, jobs.token, ended.record, cancel_reason
        ),
        kept AS (
          INSERT INTO attempts (job_id, token, record)
          SELECT id, token, record FROM back
          ON CONFLICT DO NOTHING
        )
        SELECT id, cancel_reason FROM back
    """.replace(":arrays", ARRAYS)
    back = await transaction.rows(sql, *columns([full_row(one) for one in settlements]))
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
          AND jobs.running IS NOT DISTINCT FROM TRUE
        RETURNING jobs.id, jobs.token
    """
    keys = sorted(last)
    texts = [to_json(last[key]) for key in keys]
    found: Sequence[Any] = await transaction.rows(
        sql, [id for id, _ in keys], [token for _, token in keys], texts
    )
    valid = {(str(id), token) for id, token in found}
    return [(id, token) in valid for id, token, _ in notes]
