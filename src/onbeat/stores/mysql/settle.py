"""Settlements of ended attempts, and progress of running ones; both are fenced by the token."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.held_key import HeldKey
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, Progress
from onbeat.ports.store import Hint, Settlement
from onbeat.stores.mysql.rows import INSERT_FINISHED, SHARED, by_column, finished_row
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import micros, micros_or_none, text_or_none, to_json
from onbeat.stores.sql.verbs.dependents import cancel_waiting, cascade
from onbeat.stores.sql.verbs.event_waits import wake_ended
from onbeat.stores.sql.verbs.held_keys import held_by, hold_keys
from onbeat.stores.sql.verbs.history import add_attempts
from onbeat.stores.sql.verbs.jobs import delete_live
from onbeat.stores.sql.verbs.own_events import announce_ends
from onbeat.stores.sql.verbs.payloads import drop_payloads

HAS_LIMITS = """
    SELECT EXISTS (SELECT 1 FROM queues FORCE INDEX (queues_apart)
                   WHERE apart = 1 AND limits IS NOT NULL)
"""

WANTED = "SELECT type FROM own_event_types"

Note = tuple[JobId, Token, Progress]
Pair = tuple["PreparedSettlement", Mapping[str, Any]]


class PreparedSettlement(msgspec.Struct, frozen=True, gc=False):
    """A settlement prepared outside the transaction, to keep that short."""

    id: JobId
    token: Token
    worker: str | None
    state: str
    ends: bool
    at: int
    record: str
    held: HeldKey | None
    job: Job
    awaits: str | None
    changes: dict[str, Any]


def prepare_settlement(settlement: Settlement) -> PreparedSettlement:
    job, attempt = settlement.job, settlement.attempt
    return PreparedSettlement(
        id=attempt.job_id,
        token=attempt.token,
        worker=attempt.worker,
        state=job.state.value,
        ends=job.is_final,
        at=micros(attempt.finished_at),
        record=to_json(attempt),
        held=held_by(settlement),
        job=job,
        awaits=settlement.awaits,
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
        "fault": job.fault,
        "progress": None if job.progress is None else to_json(job.progress),
        "suspicion": None if job.suspicion is None else to_json(job.suspicion),
        "finished_at": micros(job.finished_at or attempt.finished_at),
    }


async def settle(transaction: Transaction, settlements: Sequence[PreparedSettlement]) -> list[bool]:
    """Apply the settlements of many callers; of several on one attempt the first counts."""
    first: dict[tuple[JobId, Token], PreparedSettlement] = {}
    for settlement in settlements:
        first.setdefault((settlement.id, settlement.token), settlement)
    leases, has_limits, wanted = await lock_leases(transaction, [id for id, _ in first])
    valid = [
        (settlement, leases[settlement.id])
        for settlement in first.values()
        if settlement.id in leases and is_valid(settlement, leases[settlement.id])
    ]
    await end(transaction, [pair for pair in valid if pair[0].ends], wanted)
    await requeue(transaction, [pair for pair in valid if not pair[0].ends])
    if valid and has_limits:
        transaction.hints.add(Hint.JOBS)
    if len(valid) == len(settlements):
        return [True] * len(settlements)
    return await find_written(transaction, settlements)


async def lock_leases(
    transaction: Transaction, ids: Sequence[JobId]
) -> tuple[dict[JobId, dict[str, Any]], bool, frozenset[str]]:
    """Lock the running ones among the jobs.

    Also whether any queue has limits, and which of Onbeat's own events are wanted.
    """
    if not ids:
        return {}, False, frozenset()
    sql = f"""
        SELECT {SHARED}, worker
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %s AND running = 1
        ORDER BY id
        FOR UPDATE
    """  # noqa: S608  values are bound
    request = (sql, HAS_LIMITS, WANTED)
    (rows, [(has_limits,)], types) = await transaction.tables(request, (tuple(ids),))
    leases = {row[0]: {**by_column(row), "worker": row[-1]} for row in rows}
    return leases, bool(has_limits), frozenset(type for (type,) in types)


def is_valid(settled: PreparedSettlement, lease: Mapping[str, Any]) -> bool:
    return (settled.token, settled.worker) == (lease["token"], lease["worker"])


async def end(transaction: Transaction, pairs: Sequence[Pair], wanted: frozenset[str]) -> None:
    """Move the jobs to `finished`, with the last noted progress."""
    if not pairs:
        return
    rows = [
        finished_row(
            {**lease, **pair.changes, "progress": lease["progress"]},
            state=pair.state,
            finished_at=pair.changes["finished_at"],
            last_attempt=pair.record,
        )
        for pair, lease in pairs
    ]
    await transaction.insert(INSERT_FINISHED, rows)
    await delete_live(transaction, [pair.id for pair, _ in pairs])
    transaction.hints.add(Hint.ENDED)
    await hold_keys(transaction, [pair.held for pair, _ in pairs if pair.held is not None])
    at = max(pair.at for pair, _ in pairs)
    await announce_ends(transaction, [pair.job for pair, _ in pairs], wanted, at)
    await drop_payloads(transaction, [pair.job for pair, _ in pairs])
    await cascade(transaction, {pair.id: pair.state for pair, _ in pairs}, at)


async def requeue(transaction: Transaction, pairs: Sequence[Pair]) -> None:
    """Return the jobs to waiting.

    A cancel request that an attempt did not see still prevents another attempt.
    """
    if not pairs:
        return
    await add_attempts(transaction, [(pair.id, pair.token, pair.record) for pair, _ in pairs])
    await transaction.run_each(
        """
        UPDATE jobs
        SET running = 0, worker = NULL, lease_until = NULL, reason = %(reason)s,
            due_at = %(due_at)s, attempt = %(attempt)s, lost = %(lost)s, released = %(released)s,
            started_at = %(started_at)s, result = %(result)s, error = %(error)s, fault = %(fault)s,
            progress = %(progress)s, start_by = %(start_by)s, suspicion = %(suspicion)s
        WHERE id = %(id)s AND token = %(token)s AND running = 1
        """,
        [{**pair.changes, "id": pair.id, "token": pair.token} for pair, _ in pairs],
    )
    transaction.hints.add(Hint.JOBS)
    at = max(pair.at for pair, _ in pairs)
    parked = [(pair.id, pair.awaits) for pair, _ in pairs if pair.awaits is not None]
    await wake_ended(transaction, parked, at)
    request = {
        pair.id: lease["cancel_reason"]
        for pair, lease in pairs
        if lease["cancel_reason"] is not None
    }
    await cancel_waiting(transaction, request, at)


async def find_written(
    transaction: Transaction, settlements: Sequence[PreparedSettlement]
) -> list[bool]:
    """Which of the attempts are stored, by this call or by an earlier one that it repeats.

    A different outcome of the same attempt is no repetition: its lease was lost, perhaps to a
    rescue of its worker's jobs.
    """
    ids = tuple({settlement.id for settlement in settlements})
    sql = """
        SELECT job_id, record FROM attempts WHERE job_id IN %(ids)s
        UNION ALL
        SELECT id, last_attempt FROM finished WHERE id IN %(ids)s AND last_attempt IS NOT NULL
    """
    kept = set(await transaction.rows(sql, {"ids": ids}))
    return [(settlement.id, settlement.record) in kept for settlement in settlements]


async def note_progress(transaction: Transaction, notes: Sequence[Note]) -> list[bool]:
    """The last of several notes on one job counts."""
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
