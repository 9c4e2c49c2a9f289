"""Settlements of ended attempts, and progress of running ones; both are fenced by the token."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.held_key import HeldKey
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, JobState, Progress
from onbeat.model.outcome import Succeeded
from onbeat.ports.store import Hint, Settlement, SucceededAttempt
from onbeat.rules.settlement import attempt_of
from onbeat.stores.sql.values import micros, micros_or_none, text_or_none, to_json
from onbeat.stores.sql.verbs.dependents import cancel_waiting, cascade
from onbeat.stores.sql.verbs.event_waits import wake_ended
from onbeat.stores.sql.verbs.held_keys import held_by, hold_keys
from onbeat.stores.sql.verbs.own_events import announce_ends
from onbeat.stores.sql.verbs.payloads import drop_payloads
from onbeat.stores.sqlite.transaction import Row, Transaction, finish, json_array
from onbeat.stores.successes import settlement_of

WANTED = "SELECT json_group_array(type) FROM onbeat_own_event_types"
MORE = """
    SELECT json_array(
      EXISTS (SELECT 1 FROM onbeat_own_event_types),
      EXISTS (SELECT 1 FROM onbeat_waits)
      OR EXISTS (SELECT 1
                 FROM onbeat_queues INDEXED BY onbeat_queues_limited
                 WHERE limits IS NOT NULL))
"""
"""Whether events tell of ends, and whether an end may let other jobs begin."""


class PreparedSettlement(msgspec.Struct, frozen=True, gc=False):
    """A settlement prepared outside the transaction, to keep that short.

    `is_plain`: the job succeeded, and all else that its row needs is in the row of the live job.
    The last value of `row` is the record of the attempt.
    """

    id: JobId
    token: Token
    ends: bool
    at: datetime
    is_plain: bool
    row: Row
    held: HeldKey | None
    job: Job
    awaits: str | None


class PreparedSuccess(msgspec.Struct, frozen=True, gc=False):
    """A success that holds no key and drops no payload; `row` is as that of a settlement."""

    id: JobId
    token: Token
    row: Row
    success: SucceededAttempt


class Recorded(Protocol):
    """What is looked for among what is stored."""

    @property
    def id(self) -> JobId: ...
    @property
    def token(self) -> Token: ...
    @property
    def row(self) -> Row: ...


def is_lone(success: SucceededAttempt) -> bool:
    """Whether its end has no effect beside the row of its job."""
    return success.job.unique_for is None and not success.job.sensitive


def prepare_success(success: SucceededAttempt) -> PreparedSuccess:
    job, result = success.job, success.result
    attempt = attempt_of(job, Succeeded(result), success.finished_at)
    return PreparedSuccess(job.id, job.token, plain_row(attempt, result), success)


def prepare_settlement(settlement: Settlement) -> PreparedSettlement:
    job, attempt = settlement.job, settlement.attempt
    is_plain = is_unchanged(job, attempt)
    row = plain_row(attempt, job.result) if is_plain else row_of(job, attempt)
    held = None if job.unique_for is None else held_by(settlement)
    at = attempt.finished_at
    return PreparedSettlement(
        job.id, attempt.token, job.is_final, at, is_plain, row, held, job, settlement.awaits
    )


def is_unchanged(job: Job, attempt: Attempt) -> bool:
    """Whether the job succeeded and nothing else has changed since it was claimed."""
    return (
        job.state is JobState.SUCCEEDED
        and job.reason is None
        and job.error is None
        and attempt.number == job.attempt
        and attempt.started_at == job.started_at
    )


def plain_row(attempt: Attempt, result: msgspec.Raw | None) -> Row:
    return (
        attempt.job_id,
        attempt.token,
        attempt.worker,
        micros(attempt.finished_at),
        text_or_none(result),
        to_json(attempt),
    )


def row_of(job: Job, attempt: Attempt) -> Row:
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
        text_or_none(job.result),
        job.error,
        None if job.progress is None else to_json(job.progress),
        micros_or_none(job.start_by),
        None if job.suspicion is None else to_json(job.suspicion),
        job.fault,
        to_json(attempt),
    )


def settle(transaction: Transaction, settlements: Sequence[PreparedSettlement]) -> Sequence[bool]:
    """Apply the settlements of many callers."""
    ending = [settlement for settlement in settlements if settlement.ends]
    going_on = [settlement for settlement in settlements if not settlement.ends]
    written = 0
    if ending:
        written += end(transaction, ending)
    if going_on:
        written += requeue(transaction, going_on)
    if written == len(settlements):
        return [True] * written
    return find_written(transaction, settlements)


def succeed(transaction: Transaction, successes: Sequence[PreparedSuccess]) -> Sequence[bool]:
    """End jobs that succeeded, as `settle` in fewer statements."""
    is_announced, may_free = transaction.values(MORE)
    if is_announced:
        return settle(
            transaction, [prepare_settlement(settlement_of(one.success)) for one in successes]
        )
    moved = move_plain(transaction, [one.row for one in successes])
    if moved:
        ids = [one.id for one in successes]
        drop_live(transaction, ids)
        if may_free:
            at = micros(max(one.success.finished_at for one in successes))
            free_and_cancel(transaction, ids, at)
    if moved == len(successes):
        return [True] * moved
    return find_written(transaction, successes)


def end(transaction: Transaction, settlements: Sequence[PreparedSettlement]) -> int:
    """Move the jobs whose lease is valid to `onbeat_finished`; returns how many."""
    plain = [settlement.row for settlement in settlements if settlement.is_plain]
    others = [settlement.row for settlement in settlements if not settlement.is_plain]
    moved = move_plain(transaction, plain) + move(transaction, others)
    if moved:
        ids = [settlement.id for settlement in settlements]
        drop_live(transaction, ids)
        finish_ends(transaction, settlements)
        free_and_cancel(transaction, ids, latest(settlements))
    return moved


def drop_live(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """Delete the live rows of those that have ended."""
    transaction.hints.add(Hint.ENDED)
    transaction.run(
        """
        DELETE FROM onbeat_jobs
        WHERE id IN (SELECT value FROM json_each(?))
          AND EXISTS (SELECT 1 FROM onbeat_finished WHERE onbeat_finished.id = onbeat_jobs.id)
        """,
        (json_array(ids),),
    )


def move_plain(transaction: Transaction, rows: Sequence[Row]) -> int:
    """The fence implies an unchanged row since the claim, so only new values are bound."""
    return transaction.run_rows(
        """
        INSERT OR IGNORE INTO onbeat_finished (
          id, state, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence,
          overlap, token, attempt, lost, released, started_at, finished_at, cancel_reason,
          result, progress, last_attempt, flow, spec)
        SELECT
          id, 'succeeded', queue, priority, lane, due_at, NULL, unique_key, schedule_id,
          occurrence, overlap, token, attempt, lost, released, started_at, column4, cancel_reason,
          column5, progress, column6, flow, spec
        FROM :rows
        CROSS JOIN onbeat_jobs
          ON id = column1 AND token = column2 AND worker = column3 AND state = 'running'
        """,
        rows,
    )


def move(transaction: Transaction, rows: Sequence[Row]) -> int:
    return transaction.run_rows(
        """
        INSERT OR IGNORE INTO onbeat_finished (
          id, state, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence,
          overlap, token, attempt, lost, released, started_at, finished_at, reason, cancel_reason,
          result, error, fault, progress, last_attempt, flow, spec)
        SELECT
          id, column4, queue, priority, lane, column6, column15, unique_key, schedule_id,
          occurrence, overlap, token, column7, column8, column9, column10, column11, column5,
          cancel_reason, column12, column13, column17, progress, column18, flow, spec
        FROM :rows
        CROSS JOIN onbeat_jobs
          ON id = column1 AND token = column2 AND worker = column3 AND state = 'running'
        """,
        rows,
    )


def finish_ends(transaction: Transaction, settlements: Sequence[PreparedSettlement]) -> None:
    """Hold the keys of the jobs that these settlements ended, tell of them, drop payloads."""
    wanted = frozenset(transaction.values(WANTED))
    if not wanted and all(one.held is None and not one.job.sensitive for one in settlements):
        return
    written = find_written(transaction, settlements)
    ended = [one for one, is_ours in zip(settlements, written, strict=True) if is_ours]
    finish(hold_keys(transaction, [one.held for one in ended if one.held is not None]))
    finish(announce_ends(transaction, [one.job for one in ended], wanted, latest(settlements)))
    finish(drop_payloads(transaction, [one.job for one in ended]))


def free_and_cancel(transaction: Transaction, ended: Sequence[JobId], now: int) -> None:
    """Free or cancel the dependents of these jobs; hint at room in limited queues."""
    # Most stores have no dependencies and no limits, which is cheap to check.
    sql = """
        SELECT json_array(
          EXISTS (SELECT 1
                  FROM onbeat_queues INDEXED BY onbeat_queues_limited
                  CROSS JOIN onbeat_finished ON queue = name
                  WHERE limits IS NOT NULL AND id IN (SELECT value FROM json_each(?1))),
          json((SELECT json_group_array(json_array(id, state))
                FROM onbeat_finished
                WHERE id IN (SELECT value FROM json_each(?1))
                  AND EXISTS (SELECT 1 FROM onbeat_waits WHERE awaits = onbeat_finished.id))))
        WHERE EXISTS (SELECT 1 FROM onbeat_waits)
           OR EXISTS (SELECT 1
                      FROM onbeat_queues INDEXED BY onbeat_queues_limited
                      WHERE limits IS NOT NULL)
    """
    rows = transaction.values(sql, (json_array(ended),))
    if not rows:
        return
    frees_place, awaited = rows
    if frees_place:
        transaction.hints.add(Hint.JOBS)
    if awaited:
        finish(cascade(transaction, dict(awaited), now))


def requeue(transaction: Transaction, settlements: Sequence[PreparedSettlement]) -> int:
    """Return the jobs whose lease is valid to waiting; returns how many."""
    rows = [settlement.row for settlement in settlements]
    transaction.run_rows(
        """
        INSERT OR IGNORE INTO onbeat_attempts (job_id, token, record)
        SELECT column1, column2, column18
        FROM :rows
        CROSS JOIN onbeat_jobs
          ON id = column1 AND token = column2 AND worker = column3 AND state = 'running'
        """,
        rows,
    )
    moved = transaction.run_rows(
        """
        UPDATE onbeat_jobs
        SET state = column4, worker = NULL, lease_until = NULL, reason = column5, due_at = column6,
            attempt = column7, lost = column8, released = column9, started_at = column10,
            result = column12, error = column13, progress = column14, start_by = column15,
            suspicion = column16, fault = column17
        FROM :rows
        WHERE id = column1 AND token = column2 AND worker = column3 AND state = 'running'
        """,
        rows,
    )
    if moved:
        transaction.hints.add(Hint.JOBS)
        parked = [(one.id, one.awaits) for one in settlements if one.awaits is not None]
        finish(wake_ended(transaction, parked, latest(settlements)))
        apply_cancel_requests(transaction, settlements)
    return moved


def apply_cancel_requests(
    transaction: Transaction, settlements: Sequence[PreparedSettlement]
) -> None:
    """A cancel request that an attempt did not see still prevents another attempt."""
    sql = """
        SELECT json_group_array(json_array(id, cancel_reason))
        FROM onbeat_jobs
        WHERE id IN (SELECT value FROM json_each(?))
          AND state = 'waiting'
          AND cancel_reason IS NOT NULL
    """
    request = transaction.values(sql, (json_array(settlement.id for settlement in settlements),))
    if request:
        finish(cancel_waiting(transaction, dict(request), latest(settlements)))


def latest(settlements: Sequence[PreparedSettlement]) -> int:
    return micros(max(settlement.at for settlement in settlements))


def find_written(transaction: Transaction, settlements: Sequence[Recorded]) -> list[bool]:
    """Which of the attempts are stored, by this call or by an earlier one that it repeats.

    A different outcome of the same attempt is no repetition: its lease was lost, perhaps to a
    rescue of its worker's jobs.
    """
    sql = """
        SELECT json_group_array(
                 EXISTS (SELECT 1 FROM onbeat_attempts
                         WHERE job_id = value ->> 0 AND token = value ->> 1
                           AND record = value ->> 2)
                 OR EXISTS (SELECT 1 FROM onbeat_finished
                            WHERE id = value ->> 0 AND last_attempt = value ->> 2))
        FROM json_each(?)
    """
    request = json_array(
        (settlement.id, settlement.token, settlement.row[-1]) for settlement in settlements
    )
    return [bool(settlement) for settlement in transaction.values(sql, (request,))]


def note_progress(
    transaction: Transaction, notes: Sequence[tuple[JobId, Token, Progress]]
) -> Sequence[bool]:
    rows = [(id, token, to_json(progress)) for id, token, progress in notes]
    transaction.run_rows(
        """
        UPDATE onbeat_jobs
        SET progress = column3
        FROM :rows
        WHERE id = column1 AND token = column2 AND state = 'running'
        """,
        rows,
    )
    sql = """
        SELECT json_group_array(
                 EXISTS (SELECT 1 FROM onbeat_jobs
                         WHERE id = value ->> 0 AND token = value ->> 1 AND state = 'running'))
        FROM json_each(?)
    """
    valid = transaction.values(sql, (json_array((id, token) for id, token, _ in notes),))
    return [bool(one) for one in valid]
