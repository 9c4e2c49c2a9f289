"""What follows when jobs end: they leave `jobs`, and what waited for them goes on or ends too.

Rows of `waits` that name a waiting job are written and deleted only by who has locked that job, and
rows that name an awaited job are written only by who has locked that one. A count of what blocks a
job is moved by as many rows as went or came.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from onbeat.model.ids import JobId
from onbeat.ports.store import Hint
from onbeat.stores.mysql.history import note
from onbeat.stores.mysql.rows import INSERT_FINISHED, SHARED, finished_row, named
from onbeat.stores.mysql.transaction import Transaction

ENDED_BADLY = frozenset({"failed", "cancelled"})


async def cancel_waiting(
    transaction: Transaction,
    reasons: Mapping[JobId, str],
    now: int,
    *,
    started_too: bool = True,
) -> list[JobId]:
    """End those of the jobs that wait, with each its reason; answers with which did.

    Without `started_too` only those that never started: one that came back unstarted is bounded.
    """
    if not reasons:
        return []
    sql = f"""
        SELECT {SHARED}
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %s AND running = 0 AND (token = 0 OR start_by IS NOT NULL OR %s)
        ORDER BY id
        FOR UPDATE
    """  # noqa: S608  values are bound
    found = [named(row) for row in await transaction.rows(sql, (tuple(reasons), started_too))]
    if not found:
        return []
    # It starts no more, so that by when it should have started is of no account.
    rows = [
        finished_row(
            {**stored, "reason": reasons[stored["id"]], "start_by": None},
            state="cancelled",
            finished_at=now,
        )
        for stored in found
    ]
    ids: list[JobId] = [stored["id"] for stored in found]
    await transaction.insert(INSERT_FINISHED, rows)
    await note(
        transaction,
        [(one["id"], now, "cancelled", reasons[one["id"]], one["attempt"], None) for one in found],
    )
    await leave(transaction, ids)
    await transaction.run("DELETE FROM waits WHERE job_id IN %s", (tuple(ids),))
    transaction.hints.add(Hint.ENDED)
    await free_waiting(transaction, dict.fromkeys(ids, "cancelled"), now)
    return ids


async def leave(transaction: Transaction, ids: Sequence[JobId]) -> int:
    """Delete what is in `finished` now. Only a statement of this form can be told the index."""
    sql = "DELETE jobs FROM jobs FORCE INDEX (PRIMARY) WHERE id IN %s"
    return await transaction.run(sql, (tuple(ids),))


async def free_waiting(transaction: Transaction, states: Mapping[JobId, str], now: int) -> None:
    """Free what waited for these jobs, or cancel it where it needed a success that did not come."""
    sql = """
        SELECT job_id, awaits, any_end FROM waits FORCE INDEX (PRIMARY) WHERE awaits IN %s
    """
    asked = (tuple(states),)
    seen = await transaction.rows(sql, asked)
    if not seen:
        return
    await lock_jobs(transaction, {row[0] for row in seen})
    waiting = await transaction.rows(sql, asked)  # some have been cancelled meanwhile
    delete = "DELETE waits FROM waits FORCE INDEX (PRIMARY) WHERE awaits IN %s"
    await transaction.run(delete, asked)
    await add_blocks(transaction, (job for job, *_ in waiting), -1)
    transaction.hints.add(Hint.JOBS)
    doomed = {
        job: cause(other, states[other])
        for job, other, any_end in waiting
        if not any_end and states[other] in ENDED_BADLY
    }
    await cancel_waiting(transaction, doomed, now)


def cause(other: JobId, state: str | None) -> str:
    """Why a job is cancelled that needed the success of another."""
    return f"job {other} it waited for {'failed' if state == 'failed' else 'was cancelled'}"


async def lock_jobs(
    transaction: Transaction, ids: Collection[JobId], *, waiting: bool = False
) -> set[JobId]:
    """Those of the jobs that have not ended (or still wait), nor will before this transaction has.

    Rows are locked in the order of their ids, so that two that lock several do not lock each other.
    """
    if not ids:
        return set()
    sql = """
        SELECT id
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %s AND running <= %s
        ORDER BY id
        FOR UPDATE
    """
    return set(await transaction.column(sql, (tuple(ids), 0 if waiting else 1)))


async def block(
    transaction: Transaction, pairs: Sequence[tuple[JobId, JobId]], *, any_end: bool = False
) -> None:
    """The first of each pair waits for the second, which the caller has locked."""
    if not pairs:
        return
    waiting = await lock_jobs(transaction, {job for job, _ in pairs}, waiting=True)
    sql = "SELECT job_id, awaits FROM waits WHERE job_id IN %s"
    known = set(await transaction.rows(sql, (tuple(job for job, _ in pairs),)))
    new = dict.fromkeys(pair for pair in pairs if pair[0] in waiting and pair not in known)
    await transaction.insert(
        "INSERT INTO waits (awaits, job_id, any_end) VALUES (%s, %s, %s)",
        [(other, job, any_end) for job, other in new],
    )
    await add_blocks(transaction, (job for job, _ in new), 1)


async def add_blocks(transaction: Transaction, ids: Iterable[JobId], each: int) -> None:
    await transaction.run_each(
        "UPDATE jobs SET blocked_by = blocked_by + %s WHERE id = %s AND running = 0",
        [(count * each, id) for id, count in sorted(Counter(ids).items())],
    )
