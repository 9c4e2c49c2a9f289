"""Ended attempts, and progress of running ones; the token fences both."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, Progress
from onbeat.ports.store import Hint, Settlement
from onbeat.stores.mysql.ends import cancel_waiting, free_waiting, leave
from onbeat.stores.mysql.history import keep_attempts
from onbeat.stores.mysql.rows import INSERT_FINISHED, SHARED, finished_row, named
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import micros, micros_or_none, text_or_none, to_json

HAS_LIMITS = """
    SELECT EXISTS (SELECT 1 FROM queues FORCE INDEX (queues_apart)
                   WHERE apart = 1 AND limits IS NOT NULL)
"""

Note = tuple[JobId, Token, Progress]
Pair = tuple["Settled", Mapping[str, Any]]


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A settlement made ready outside the transaction, to keep that short."""

    id: JobId
    token: Token
    worker: str | None
    state: str
    ends: bool
    at: int
    record: str
    changes: dict[str, Any]


def settled(settlement: Settlement) -> Settled:
    job, attempt = settlement.job, settlement.attempt
    return Settled(
        id=attempt.job_id,
        token=attempt.token,
        worker=attempt.worker,
        state=job.state.value,
        ends=job.is_final,
        at=micros(attempt.finished_at),
        record=to_json(attempt),
        changes=changes_of(job, attempt),
    )


def changes_of(job: Job, attempt: Attempt) -> dict[str, Any]:
    return {
        "reason": job.reason,
        "due_at": micros(job.due_at),
        "start_by": micros_or_none(job.start_by),
        "attempt": job.attempt,
        "lost": job.lost,
        "released": job.released,
        "started_at": micros_or_none(job.started_at),
        "result": text_or_none(job.result),
        "error": job.error,
        "progress": None if job.progress is None else to_json(job.progress),
        "finished_at": micros(job.finished_at or attempt.finished_at),
    }


async def settle(transaction: Transaction, settlements: Sequence[Settled]) -> list[bool]:
    """Many callers' settlements at once; of several on one attempt the first counts."""
    first: dict[tuple[JobId, Token], Settled] = {}
    for one in settlements:
        first.setdefault((one.id, one.token), one)
    leases, has_limits = await lock_leases(transaction, [id for id, _ in first])
    valid = [
        (one, leases[one.id])
        for one in first.values()
        if one.id in leases and is_valid(one, leases[one.id])
    ]
    await end(transaction, [pair for pair in valid if pair[0].ends])
    await send_back(transaction, [pair for pair in valid if not pair[0].ends])
    if valid and has_limits:
        transaction.hints.add(Hint.JOBS)
    if len(valid) == len(settlements):
        return [True] * len(settlements)
    return await find_written(transaction, settlements)


async def lock_leases(
    transaction: Transaction, ids: Sequence[JobId]
) -> tuple[dict[JobId, dict[str, Any]], bool]:
    """Those of the jobs that run; and whether any queue has limits, so that ends let others go."""
    if not ids:
        return {}, False
    sql = f"""
        SELECT {SHARED}, worker
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %s AND running = 1
        ORDER BY id
        FOR UPDATE
    """  # noqa: S608  values are bound
    (found, [(has_limits,)]) = await transaction.tables((sql, HAS_LIMITS), (tuple(ids),))
    return {row[0]: {**named(row), "worker": row[-1]} for row in found}, bool(has_limits)


def is_valid(settled: Settled, lease: Mapping[str, Any]) -> bool:
    return (settled.token, settled.worker) == (lease["token"], lease["worker"])


async def end(transaction: Transaction, pairs: Sequence[Pair]) -> None:
    """Move the jobs to `finished`, with the progress that was last noted."""
    if not pairs:
        return
    rows = [
        finished_row(
            {**lease, **one.changes, "progress": lease["progress"]},
            state=one.state,
            finished_at=one.changes["finished_at"],
            last_attempt=one.record,
        )
        for one, lease in pairs
    ]
    await transaction.insert(INSERT_FINISHED, rows)
    await leave(transaction, [one.id for one, _ in pairs])
    transaction.hints.add(Hint.ENDED)
    states = {one.id: one.state for one, _ in pairs}
    await free_waiting(transaction, states, max(one.at for one, _ in pairs))


async def send_back(transaction: Transaction, pairs: Sequence[Pair]) -> None:
    """Let the jobs wait again.

    A cancel that came while the attempt ran, unknown to it, still means no further attempt.
    """
    if not pairs:
        return
    await keep_attempts(transaction, [(one.id, one.token, one.record) for one, _ in pairs])
    await transaction.run_each(
        """
        UPDATE jobs
        SET running = 0, worker = NULL, lease_until = NULL, reason = %(reason)s,
            due_at = %(due_at)s, attempt = %(attempt)s, lost = %(lost)s, released = %(released)s,
            started_at = %(started_at)s, result = %(result)s, error = %(error)s,
            progress = %(progress)s, start_by = %(start_by)s
        WHERE id = %(id)s AND token = %(token)s AND running = 1
        """,
        [{**one.changes, "id": one.id, "token": one.token} for one, _ in pairs],
    )
    transaction.hints.add(Hint.JOBS)
    asked = {
        one.id: lease["cancel_reason"] for one, lease in pairs if lease["cancel_reason"] is not None
    }
    await cancel_waiting(transaction, asked, max(one.at for one, _ in pairs))


async def find_written(transaction: Transaction, settlements: Sequence[Settled]) -> list[bool]:
    """Which of the attempts are kept, by this call or by an earlier one that it repeats.

    Another outcome of the same attempt is not a repetition: that one lost its lease, perhaps to
    whoever declared its worker dead.
    """
    ids = tuple({one.id for one in settlements})
    sql = """
        SELECT job_id, record FROM attempts WHERE job_id IN %(ids)s
        UNION ALL
        SELECT id, last_attempt FROM finished WHERE id IN %(ids)s AND last_attempt IS NOT NULL
    """
    kept = set(await transaction.rows(sql, {"ids": ids}))
    return [(one.id, one.record) in kept for one in settlements]


async def note_progress(transaction: Transaction, notes: Sequence[Note]) -> list[bool]:
    """The last of several notes on one job stands."""
    sql = """
        SELECT id, token
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %s AND running = 1
        ORDER BY id
        FOR UPDATE
    """
    valid = set(await transaction.rows(sql, (tuple({id for id, *_ in notes}),)))
    last = {(id, token): done for id, token, done in notes if (id, token) in valid}
    await transaction.run_each(
        "UPDATE jobs SET progress = %s WHERE id = %s AND token = %s AND running = 1",
        [(to_json(done), id, token) for (id, token), done in last.items()],
    )
    return [(id, token) in valid for id, token, _ in notes]
