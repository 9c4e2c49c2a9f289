"""What follows when jobs end: they leave `jobs`, and what waited for them goes on or ends too."""

from collections.abc import Mapping, Sequence

from onbeat.model.ids import JobId
from onbeat.ports.store import Hint
from onbeat.stores.sqlite.history import note
from onbeat.stores.sqlite.transaction import Transaction, listed

ENDED_BADLY = frozenset({"failed", "cancelled"})


def cancel_waiting(
    transaction: Transaction,
    reasons: Mapping[JobId, str],
    now: int,
    *,
    started_too: bool = True,
) -> list[JobId]:
    """End those of the jobs that wait, with each its reason; answers with which did.

    Without `started_too` only those that never started: one that came back unstarted is bounded.
    """
    sql = """
        SELECT json_group_array(id)
        FROM jobs
        WHERE id IN (SELECT value FROM json_each(:ids))
          AND state = 'waiting'
          AND (token = 0 OR start_by IS NOT NULL OR :started_too)
    """
    ids = transaction.values(sql, {"ids": listed(reasons), "started_too": started_too})
    if ids:
        transaction.hints.add(Hint.ENDED)
        move_cancelled(transaction, [(id, reasons[id]) for id in ids], now)
        note(transaction, ids, now, "cancelled", reasons)
        free_waiting(transaction, ids, now)
    return ids


def move_cancelled(
    transaction: Transaction, reasons: Sequence[tuple[JobId, str]], now: int
) -> None:
    transaction.run(
        """
        INSERT INTO finished (
          id, state, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap,
          token, attempt, lost, released, started_at, finished_at, reason, cancel_reason, result,
          error, progress, spec)
        SELECT
          id, 'cancelled', queue, priority, lane, due_at, unique_key, schedule_id, occurrence,
          overlap, token, attempt, lost, released, started_at, :now, value ->> 1, cancel_reason,
          result, error, progress, spec
        FROM (SELECT value FROM json_each(:reasons))
        CROSS JOIN jobs ON id = value ->> 0
        """,
        {"reasons": listed(reasons), "now": now},
    )
    ids = listed(id for id, _ in reasons)
    transaction.run("DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(?))", (ids,))
    transaction.run("DELETE FROM waits WHERE job_id IN (SELECT value FROM json_each(?))", (ids,))


def free_waiting(transaction: Transaction, ended: Sequence[JobId], now: int) -> None:
    """Free what waited for these jobs, or cancel it where it needed a success that did not come.

    Others of a limited queue may start in their place.
    """
    # Most stores have no job that waits for another, and no limits, which is cheap to see.
    sql = """
        SELECT json_array(
          EXISTS (SELECT 1
                  FROM queues INDEXED BY queues_limited
                  CROSS JOIN finished ON queue = name
                  WHERE limits IS NOT NULL AND id IN (SELECT value FROM json_each(?1))),
          json((SELECT json_group_array(json_array(
                         job_id, awaits, any_end OR state = 'succeeded', state))
                FROM waits
                CROSS JOIN finished ON finished.id = awaits
                WHERE awaits IN (SELECT value FROM json_each(?1)))))
        WHERE EXISTS (SELECT 1 FROM waits)
           OR EXISTS (SELECT 1 FROM queues INDEXED BY queues_limited WHERE limits IS NOT NULL)
    """
    ids = listed(ended)
    found = transaction.values(sql, (ids,))
    if not found:
        return
    frees_place, waiting = found
    if frees_place:
        transaction.hints.add(Hint.JOBS)
    if not waiting:
        return
    transaction.run("DELETE FROM waits WHERE awaits IN (SELECT value FROM json_each(?))", (ids,))
    transaction.run(
        """
        UPDATE jobs
        SET blocked_by = (SELECT count(*) FROM waits WHERE job_id = jobs.id)
        WHERE id IN (SELECT value FROM json_each(?))
        """,
        (listed({job for job, *_ in waiting}),),
    )
    transaction.hints.add(Hint.JOBS)
    doomed = {job: cause(other, state) for job, other, freed, state in waiting if not freed}
    if doomed:
        cancel_waiting(transaction, doomed, now)


def cause(other: JobId, state: str | None) -> str:
    """Why a job is cancelled that needed the success of another."""
    return f"job {other} it waited for {'failed' if state == 'failed' else 'was cancelled'}"


def block(transaction: Transaction, pairs: Sequence[tuple[JobId, JobId]]) -> None:
    """The first of each pair waits for the success of the second, if both have still to end."""
    transaction.run(
        """
        INSERT OR IGNORE INTO waits (awaits, job_id, any_end)
        SELECT value ->> 1, value ->> 0, 0
        FROM json_each(?)
        WHERE EXISTS (SELECT 1 FROM jobs WHERE id = value ->> 0 AND state = 'waiting')
          AND EXISTS (SELECT 1 FROM jobs WHERE id = value ->> 1)
        """,
        (listed(pairs),),
    )
    transaction.run(
        """
        UPDATE jobs
        SET blocked_by = (SELECT count(*) FROM waits WHERE job_id = jobs.id)
        WHERE state = 'waiting' AND id IN (SELECT value FROM json_each(?))
        """,
        (listed({job for job, _ in pairs}),),
    )
