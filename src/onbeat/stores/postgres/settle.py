"""Settlements of ended attempts, and progress of running ones; both are fenced by the token."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.held_key import HeldKey
from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job, JobState, Progress
from onbeat.ports.store import Hint, Settlement, SucceededAttempt
from onbeat.stores.postgres.rows import Row, columns, is_implied_by
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros, micros_or_none, to_json
from onbeat.stores.sql.verbs.dependents import cancel_waiting, cascade
from onbeat.stores.sql.verbs.event_waits import wake_ended
from onbeat.stores.sql.verbs.held_keys import held_by, hold_keys
from onbeat.stores.sql.verbs.history import attempts_of
from onbeat.stores.sql.verbs.own_events import announce_ends
from onbeat.stores.sql.verbs.payloads import drop_payloads

Note = tuple[JobId, Token, Progress]


class PreparedSettlement(msgspec.Struct, frozen=True, gc=False):
    """A settlement prepared outside the transaction, to keep that short."""

    id: JobId
    job: Job
    attempt: Attempt
    ends: bool
    held: HeldKey | None
    at: int
    result: str | None
    row: Row | None
    awaits: str | None

    @property
    def is_alone(self) -> bool:
        """Whether this needs no other statement: no key to hold and no payload to drop."""
        return self.held is None and not self.job.sensitive

    @property
    def is_plain(self) -> bool:
        """Whether the attempt and the job succeeded, without further details."""
        return self.row is None


def prepare_settlement(settlement: Settlement) -> PreparedSettlement:
    job, attempt = settlement.job, settlement.attempt
    answer = job.is_final and is_implied_by(job, attempt)
    result = None if job.result is None else bytes(job.result).decode()
    plain = answer and job.state is JobState.SUCCEEDED and job.reason is None and job.error is None
    at = micros(attempt.finished_at)
    row = None if plain else row_of(job, attempt, answer=answer, result=result)
    held = None if job.unique_for is None else held_by(settlement)
    return PreparedSettlement(
        job.id, job, attempt, job.is_final, held, at, result, row, settlement.awaits
    )


def row_of(job: Job, attempt: Attempt, *, answer: bool, result: str | None) -> Row:
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
        None if job.suspicion is None else to_json(job.suspicion),
        None if answer else to_json(attempt),
        job.fault,
    )


# `worker` and `running` are compared in a form that no index supports. Otherwise a query plan from
# a moment without running jobs would scan all running jobs for each settled row.
ARRAYS = """
    unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::bigint[],
           $7::integer[], $8::smallint[], $9::smallint[], $10::bigint[], $11::bigint[],
           $12::text[], $13::text[], $14::text[], $15::bigint[], $16::text[], $17::text[],
           $18::bigint[])
    AS ended (id, token, worker, state, reason, due_at, attempt, lost, released, started_at,
              finished_at, result, error, progress, start_by, suspicion, record, fault)
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
                CASE WHEN ended.record IS NULL THEN ended.worker END, ended.record, flow, spec,
                created_at, ended.fault
    )
    INSERT INTO finished (
      id, state, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence,
      overlap, token, attempt, lost, released, started_at, finished_at, reason, cancel_reason,
      result, error, progress, last_worker, last_attempt, flow, spec, created_at, fault)
    SELECT * FROM gone
"""
HAS_LIMITS = "EXISTS (SELECT 1 FROM queues WHERE limits IS NOT NULL)"
"""With limits, the end of a job may let another one start."""
MOVED = f"RETURNING id, {HAS_LIMITS}"
UNTOLD = """
    AND NOT jobs.awaited
    AND 'onbeat.job.' || ended.state <> ALL (ARRAY(SELECT type FROM own_event_types))
"""
"""Jobs without dependents, for whose end no schedule asks."""
END_PLAIN = MOVE.format(arrays=ARRAYS, unless=UNTOLD) + MOVED
TYPES = ", ARRAY(SELECT type FROM own_event_types)"
END = MOVE.format(arrays=ARRAYS, unless="") + MOVED + TYPES


SUCCEED = f"""
    WITH gone AS (
      DELETE FROM jobs
      USING unnest($1::text::uuid[], $2::text::integer[], $3::text::bigint[], $4::text[])
            AS ended (id, token, finished_at, result)
      WHERE jobs.id = ended.id
        AND jobs.token = ended.token
        AND jobs.worker IS NOT DISTINCT FROM $5
        AND jobs.running IS NOT DISTINCT FROM TRUE
        AND NOT jobs.awaited
        AND NOT EXISTS (SELECT 1 FROM own_event_types WHERE type = 'onbeat.job.succeeded')
      RETURNING jobs.id, 'succeeded', queue, priority, lane, due_at, NULL::bigint, unique_key,
                schedule_id, occurrence, overlap, jobs.token, nullif(attempt, jobs.token),
                nullif(lost, 0), nullif(released, 0), started_at, ended.finished_at, cancel_reason,
                ended.result, progress, worker, flow, spec, nullif(created_at, due_at)
    ),
    kept AS (
      INSERT INTO finished (
        id, state, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence,
        overlap, token, attempt, lost, released, started_at, finished_at, cancel_reason, result,
        progress, last_worker, flow, spec, created_at)
      SELECT * FROM gone
      RETURNING id
    )
    SELECT count(*), {HAS_LIMITS}, CASE WHEN count(*) < $6::bigint THEN array_agg(id) END FROM kept
"""  # noqa: S608  no value in it
"""What is sent and comes back for each job is what most of a driver's time goes to."""


async def end_plain(
    transaction: Transaction, settlements: Sequence[PreparedSettlement]
) -> list[bool]:
    """Move ending jobs with a valid lease whose end has no other effect; returns which.

    One statement, its own transaction. If a new dependent locks the job meanwhile, the statement
    waits, reads the row again and skips it.
    """
    ending = [one for one in first_settlements(settlements) if one.is_alone]
    moved: set[JobId] = set()
    for worker in {settlement.attempt.worker for settlement in ending if settlement.is_plain}:
        succeeded = [
            settlement
            for settlement in ending
            if settlement.is_plain and settlement.attempt.worker == worker
        ]
        ends = [(one.id, one.attempt.token, one.at, one.result) for one in succeeded]
        moved.update(await succeed(transaction, worker, *columns(ends)))
    others = [settlement.row for settlement in ending if settlement.row is not None]
    if others:
        rows = await run_move(transaction, END_PLAIN, *columns(others))
        moved.update(JobId(str(row[0])) for row in rows)
    if len(moved) == len(settlements):
        return [True] * len(settlements)
    words = {id(settlement) for settlement in ending}
    return [settlement.id in moved and id(settlement) in words for settlement in settlements]


def plain_successes(successes: Sequence[SucceededAttempt]) -> dict[WorkerId, list[Row]]:
    """The rows for `succeed` by worker, in the order of ids.

    Without those that need other statements, to hold a key or to drop a payload. Of several for one
    job the first counts.
    """
    first: dict[JobId, SucceededAttempt] = {}
    for success in successes:
        first.setdefault(success.job.id, success)
    rows: dict[WorkerId, list[Row]] = {}
    for id in sorted(first):
        success = first[id]
        job, result = success.job, success.result
        if job.worker is None or job.unique_for is not None or job.sensitive:
            continue
        text = None if result is None else bytes(result).decode()
        rows.setdefault(job.worker, []).append((id, job.token, micros(success.finished_at), text))
    return rows


async def succeed(
    transaction: Transaction,
    worker: str | None,
    ids: Sequence[JobId],
    tokens: Sequence[Token],
    ends: Sequence[int],
    results: Sequence[str | None],
) -> Sequence[JobId]:
    """End jobs that nothing depends on; returns which.

    The fence implies an unchanged row since the claim, so only new values are sent.
    """
    ((count, has_limits, ended),) = await transaction.rows(
        SUCCEED,
        array_text(ids),
        array_text(map(str, tokens)),
        array_text(map(str, ends)),
        None if results.count(None) == len(results) else results,
        worker,
        len(ids),
    )
    if count and has_limits:
        transaction.hints.add(Hint.JOBS)
    return ids if count == len(ids) else [JobId(str(id)) for id in ended or ()]


def array_text(words: Iterable[str]) -> str:
    """An array as one text: the driver asks much of each element of a list."""
    return "{" + ",".join(words) + "}"


async def run_move(transaction: Transaction, sql: str, *values: object) -> Sequence[Any]:
    rows = await transaction.rows(sql, *values)
    if rows and rows[0][1]:
        transaction.hints.add(Hint.JOBS)
    return rows


def first_settlements(settlements: Sequence[PreparedSettlement]) -> list[PreparedSettlement]:
    """The first settlement of each job, if it ends the job, in the order of ids.

    Concurrent settlements of the same jobs then lock them in the same order.
    """
    first: dict[JobId, PreparedSettlement] = {}
    for settlement in settlements:
        first.setdefault(settlement.id, settlement)
    return sorted((settlement for settlement in first.values() if settlement.ends), key=id_of)


def id_of(settlement: PreparedSettlement) -> JobId:
    return settlement.id


async def settle(transaction: Transaction, settlements: Sequence[PreparedSettlement]) -> list[bool]:
    """Settle jobs that need more statements: they go on, have dependents, or lost their lease."""
    first: dict[JobId, PreparedSettlement] = {}
    for settlement in settlements:
        first.setdefault(settlement.id, settlement)
    ordered = sorted(first.values(), key=id_of)
    await end(transaction, [settlement for settlement in ordered if settlement.ends])
    await requeue(transaction, [settlement for settlement in ordered if not settlement.ends])
    return await find_written(transaction, settlements)


def settlement_row(settlement: PreparedSettlement) -> Row:
    return settlement.row or row_of(
        settlement.job, settlement.attempt, answer=True, result=settlement.result
    )


async def end(transaction: Transaction, settlements: Sequence[PreparedSettlement]) -> None:
    if settlements:
        rows = columns([settlement_row(settlement) for settlement in settlements])
        moved = await run_move(transaction, END, *rows)
        if moved:
            ids = {JobId(str(row[0])) for row in moved}
            ended = [settlement for settlement in settlements if settlement.id in ids]
            await finish(transaction, ended, wanted=frozenset(moved[0][2]))


async def finish(
    transaction: Transaction, ended: Sequence[PreparedSettlement], wanted: Collection[str]
) -> None:
    """The effects of these ends, beside the rows of the jobs."""
    at = max(settlement.at for settlement in ended)
    await hold_keys(transaction, [one.held for one in ended if one.held is not None])
    await announce_ends(transaction, [one.job for one in ended], wanted, at)
    await drop_payloads(transaction, [one.job for one in ended])
    await cascade(transaction, {one.id: one.job.state for one in ended}, at)


async def requeue(transaction: Transaction, settlements: Sequence[PreparedSettlement]) -> None:
    """Return the jobs whose lease is valid to waiting.

    A cancel request that an attempt did not see still prevents another attempt.
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
              fault = ended.fault, progress = ended.progress, start_by = ended.start_by,
              suspicion = ended.suspicion
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
    back = await transaction.rows(
        sql, *columns([settlement_row(settlement) for settlement in settlements])
    )
    if back:
        transaction.hints.add(Hint.JOBS)
    at = max(settlement.at for settlement in settlements)
    parked = [(one.id, one.awaits) for one in settlements if one.awaits is not None]
    await wake_ended(transaction, parked, at)
    request = {JobId(str(id)): reason for id, reason in back if reason is not None}
    await cancel_waiting(transaction, request, at)


async def find_written(
    transaction: Transaction, settlements: Sequence[PreparedSettlement]
) -> list[bool]:
    """Which of the attempts are stored, by this call or by an earlier one that it repeats.

    A different outcome of the same attempt is no repetition: its lease was lost, perhaps to a
    rescue of its worker's jobs.
    """
    kept = await attempts_of(transaction, {settlement.id for settlement in settlements})
    return [settlement.attempt in kept.get(settlement.id, ()) for settlement in settlements]


async def note_progress(transaction: Transaction, notes: Sequence[Note]) -> list[bool]:
    """The last of several notes on one job counts."""
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
    rows: Sequence[Any] = await transaction.rows(
        sql, [id for id, _ in keys], [token for _, token in keys], texts
    )
    valid = {(str(id), token) for id, token in rows}
    return [(id, token) in valid for id, token, _ in notes]
