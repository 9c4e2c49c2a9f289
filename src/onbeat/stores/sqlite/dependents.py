"""The effects of jobs that end: they leave `onbeat_jobs`; dependents are freed or cancelled."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.ports.store import Hint
from onbeat.rules.dependents import Cascade, Wait
from onbeat.stores.sqlite.history import note
from onbeat.stores.sqlite.transaction import Transaction, json_array


def cancel_waiting(
    transaction: Transaction,
    reasons: Mapping[JobId, str],
    now: int,
    *,
    started_too: bool = True,
) -> list[JobId]:
    """Cancel the waiting ones among the jobs, each with its reason; returns their ids.

    Without `started_too` only jobs that never started, including released ones that still have
    `start_by`.
    """
    sql = """
        SELECT json_group_array(id)
        FROM onbeat_jobs
        WHERE id IN (SELECT value FROM json_each(:ids))
          AND state = 'waiting'
          AND (token = 0 OR start_by IS NOT NULL OR :started_too)
    """
    ids = transaction.values(sql, {"ids": json_array(reasons), "started_too": started_too})
    if ids:
        transaction.hints.add(Hint.ENDED)
        move_cancelled(transaction, {id: reasons[id] for id in ids}, now)
        free_and_cancel(transaction, ids, now)
    return ids


def move_cancelled(transaction: Transaction, reasons: Mapping[JobId, str], now: int) -> None:
    transaction.run(
        """
        INSERT INTO onbeat_finished (
          id, state, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap,
          token, attempt, lost, released, started_at, finished_at, reason, cancel_reason, result,
          error, progress, spec)
        SELECT
          id, 'cancelled', queue, priority, lane, due_at, unique_key, schedule_id, occurrence,
          overlap, token, attempt, lost, released, started_at, :now, value ->> 1, cancel_reason,
          result, error, progress, spec
        FROM (SELECT value FROM json_each(:reasons))
        CROSS JOIN onbeat_jobs ON id = value ->> 0 AND state = 'waiting'
        """,
        {"reasons": json_array(reasons.items()), "now": now},
    )
    ids = json_array(reasons)
    transaction.run(
        """
        DELETE FROM onbeat_jobs
        WHERE state = 'waiting' AND id IN (SELECT value FROM json_each(?))
        """,
        (ids,),
    )
    transaction.run(
        "DELETE FROM onbeat_waits WHERE job_id IN (SELECT value FROM json_each(?))", (ids,)
    )
    note(transaction, reasons, now, "cancelled", reasons)


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
        cascade(transaction, dict(awaited), now)


def cascade(transaction: Transaction, ended: Mapping[JobId, str], now: int) -> None:
    """Free or cancel the dependents of these jobs, and the dependents of those it cancels."""
    cascade_state = Cascade(ended)
    while cascade_state.level:
        waits = waits_for(transaction, cascade_state.level, cascade_state.room)
        cascade_state.take(waits, len(waits))
    free(transaction, cascade_state.freed_waits())
    if cascade_state.cancelled:
        transaction.hints.add(Hint.ENDED)
        move_cancelled(transaction, cascade_state.cancelled, now)
    if cascade_state.unfinished:
        keep_cascade(transaction, cascade_state.unfinished)


def keep_cascade(transaction: Transaction, ended: Mapping[JobId, str]) -> None:
    transaction.run(
        """
        INSERT INTO onbeat_cascades (job_id, state)
        SELECT value ->> 0, value ->> 1 FROM json_each(?) WHERE TRUE
        ON CONFLICT DO UPDATE SET state = excluded.state
        """,
        (json_array(ended.items()),),
    )


def waits_for(transaction: Transaction, ended: Iterable[JobId], limit: int) -> list[Wait]:
    sql = """
        SELECT json_group_array(json_array(job_id, awaits, json(iif(any_end, 'true', 'false'))))
        FROM (SELECT job_id, awaits, any_end
              FROM (SELECT value FROM json_each(?))
              CROSS JOIN onbeat_waits ON awaits = value
              LIMIT ?)
    """
    return msgspec.convert(transaction.values(sql, (json_array(ended), limit)), list[Wait])


def free(transaction: Transaction, waits: Sequence[Wait]) -> None:
    """Delete these waits and unblock their jobs."""
    if not waits:
        return
    transaction.hints.add(Hint.JOBS)
    transaction.run(
        """
        DELETE FROM onbeat_waits
        WHERE (awaits, job_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))
        """,
        (json_array((wait.awaits, wait.job_id) for wait in waits),),
    )
    transaction.run(
        """
        UPDATE onbeat_jobs
        SET blocked_by = (SELECT count(*) FROM onbeat_waits WHERE job_id = onbeat_jobs.id)
        WHERE id IN (SELECT value FROM json_each(?))
        """,
        (json_array({wait.job_id for wait in waits}),),
    )


def has_cascades(transaction: Transaction) -> bool:
    return bool(transaction.value("SELECT EXISTS (SELECT 1 FROM onbeat_cascades)"))


def continue_cascades(transaction: Transaction, now: int) -> int:
    """A job that was retried meanwhile is skipped: its dependents wait for it again."""
    sql = """
        SELECT json_group_array(json_array(
                 job_id, state, EXISTS (SELECT 1 FROM onbeat_jobs WHERE onbeat_jobs.id = job_id)))
        FROM (SELECT job_id, state FROM onbeat_cascades LIMIT ?)
    """
    rows = transaction.values(sql, (DEPENDENTS_MAX,))
    sql = "DELETE FROM onbeat_cascades WHERE job_id IN (SELECT value FROM json_each(?))"
    transaction.run(sql, (json_array(id for id, *_ in rows),))
    cascade(transaction, {id: state for id, state, is_live in rows if not is_live}, now)
    return len(rows)


def add_dependencies(transaction: Transaction, pairs: Sequence[tuple[JobId, JobId]]) -> None:
    """Let the first of each pair wait for the success of the second, if neither has ended."""
    transaction.run(
        """
        INSERT OR IGNORE INTO onbeat_waits (awaits, job_id, any_end)
        SELECT value ->> 1, value ->> 0, 0
        FROM json_each(?)
        WHERE EXISTS (SELECT 1 FROM onbeat_jobs WHERE id = value ->> 0 AND state = 'waiting')
          AND EXISTS (SELECT 1 FROM onbeat_jobs WHERE id = value ->> 1)
        """,
        (json_array(pairs),),
    )
    transaction.run(
        """
        UPDATE onbeat_jobs
        SET blocked_by = (SELECT count(*) FROM onbeat_waits WHERE job_id = onbeat_jobs.id)
        WHERE state = 'waiting' AND id IN (SELECT value FROM json_each(?))
        """,
        (json_array({job for job, _ in pairs}),),
    )
