"""The effects of jobs that end: they leave `jobs`; dependents are freed or cancelled.

A row of `waits` is written only while both its jobs are locked, and deleted only while the waiting
job is locked. `blocked_by` changes by the number of rows written or deleted.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.ports.store import Hint
from onbeat.rules.dependents import Cascade, Wait
from onbeat.stores.mysql.rows import INSERT_FINISHED, SHARED, by_column, finished_row
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.verbs.history import add_transitions


async def cancel_waiting(
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
    ids = await move_cancelled(transaction, reasons, now, started_too=started_too)
    await cascade(transaction, dict.fromkeys(ids, JobState.CANCELLED), now)
    return ids


async def move_cancelled(
    transaction: Transaction, reasons: Mapping[JobId, str], now: int, *, started_too: bool
) -> list[JobId]:
    if not reasons:
        return []
    sql = f"""
        SELECT {SHARED}
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %s AND running = 0 AND (token = 0 OR start_by IS NOT NULL OR %s)
        ORDER BY id
        FOR UPDATE
    """  # noqa: S608  values are bound
    found_rows = [
        by_column(row) for row in await transaction.rows(sql, (tuple(reasons), started_too))
    ]
    if not found_rows:
        return []
    # A cancelled job does not start, so its `start_by` is cleared.
    rows = [
        finished_row(
            {**stored, "reason": reasons[stored["id"]], "start_by": None},
            state="cancelled",
            finished_at=now,
        )
        for stored in found_rows
    ]
    ids: list[JobId] = [stored["id"] for stored in found_rows]
    await transaction.insert(INSERT_FINISHED, rows)
    await add_transitions(
        transaction,
        [
            (one["id"], now, "cancelled", reasons[one["id"]], one["attempt"], None)
            for one in found_rows
        ],
    )
    await remove_live(transaction, ids)
    await transaction.run("DELETE FROM waits WHERE job_id IN %s", (tuple(ids),))
    transaction.hints.add(Hint.ENDED)
    return ids


async def remove_live(transaction: Transaction, ids: Sequence[JobId]) -> int:
    """Delete jobs that are in `finished` now. Only this form of DELETE takes an index hint."""
    sql = "DELETE jobs FROM jobs FORCE INDEX (PRIMARY) WHERE id IN %s"
    return await transaction.run(sql, (tuple(ids),))


async def cascade(transaction: Transaction, ended: Mapping[JobId, str], now: int) -> None:
    """Free or cancel the dependents of these jobs, and the dependents of those it cancels.

    The ended jobs are locked, so that no new job waits for them. Dependents are locked before their
    own dependents are read.
    """
    cascade_state = Cascade(ended)
    while cascade_state.level:
        waits = await waits_for(transaction, cascade_state.level, cascade_state.room)
        # Others ended meanwhile; transactions that ended them handle their dependents.
        waiting = await lock_jobs(transaction, {wait.job_id for wait in waits}, waiting=True)
        cascade_state.take((wait for wait in waits if wait.job_id in waiting), len(waits))
    await free(transaction, cascade_state.freed_waits())
    await move_cancelled(transaction, cascade_state.cancelled, now, started_too=True)
    await transaction.insert(
        """
        INSERT INTO cascades (job_id, state)
        VALUES (%s, %s)
        ON DUPLICATE KEY UPDATE state = VALUES(state)
        """,
        list(cascade_state.unfinished.items()),
    )


async def waits_for(transaction: Transaction, ended: Iterable[JobId], limit: int) -> list[Wait]:
    sql = """
        SELECT job_id, awaits, any_end
        FROM waits FORCE INDEX (PRIMARY)
        WHERE awaits IN %s
        LIMIT %s
    """
    rows = await transaction.rows(sql, (tuple(ended), limit))
    return [Wait(id, awaits, bool(any_end)) for id, awaits, any_end in rows]


async def free(transaction: Transaction, waits: Sequence[Wait]) -> None:
    """Delete these waits and unblock their jobs."""
    if not waits:
        return
    by_awaited: dict[JobId, list[JobId]] = defaultdict(list)
    for wait in waits:
        by_awaited[wait.awaits].append(wait.job_id)
    await transaction.run_each(
        "DELETE waits FROM waits FORCE INDEX (PRIMARY) WHERE awaits = %s AND job_id IN %s",
        [(awaited, tuple(ids)) for awaited, ids in by_awaited.items()],
    )
    await add_blocks(transaction, (wait.job_id for wait in waits), -1)
    transaction.hints.add(Hint.JOBS)


async def has_cascades(transaction: Transaction) -> bool:
    return bool(await transaction.value("SELECT EXISTS (SELECT 1 FROM cascades)"))


async def continue_cascades(transaction: Transaction, now: int) -> int:
    """A job that was retried meanwhile is skipped: its dependents wait for it again."""
    sql = "SELECT job_id, state FROM cascades LIMIT %s FOR UPDATE SKIP LOCKED"
    begun: dict[JobId, str] = dict(await transaction.rows(sql, (DEPENDENTS_MAX,)))
    if not begun:
        return 0
    ids = (tuple(begun),)
    await transaction.run("DELETE FROM cascades WHERE job_id IN %s", ids)
    # A retry locks the row of the ended job, so it comes entirely before or after this.
    sql = "SELECT id FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s ORDER BY id FOR UPDATE"
    await transaction.rows(sql, ids)
    live = set(await transaction.column("SELECT id FROM jobs WHERE id IN %s", ids))
    ended = {id: state for id, state in begun.items() if id not in live}
    await cascade(transaction, ended, now)
    return len(begun)


async def lock_jobs(
    transaction: Transaction, ids: Collection[JobId], *, waiting: bool = False
) -> set[JobId]:
    """The live (or only waiting) ones among the jobs, locked until the end of the transaction.

    Rows are locked in the order of ids, so that concurrent transactions cannot deadlock.
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


async def add_dependencies(
    transaction: Transaction, pairs: Sequence[tuple[JobId, JobId]], *, any_end: bool = False
) -> None:
    """Let the first of each pair wait for the second, which the caller has locked."""
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
    by_count: dict[int, list[JobId]] = defaultdict(list)
    for id, count in sorted(Counter(ids).items()):
        by_count[count * each].append(id)
    for change, changed in by_count.items():
        await transaction.run(
            "UPDATE jobs SET blocked_by = blocked_by + %s WHERE id IN %s AND running = 0",
            (change, tuple(changed)),
        )
