"""May this job of a schedule start while earlier ones are unfinished?"""

from collections.abc import Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Hint
from onbeat.stores.mysql.ends import block, cancel_waiting, lock_jobs
from onbeat.stores.mysql.history import note
from onbeat.stores.mysql.rows import micros
from onbeat.stores.mysql.transaction import Transaction

SKIPPED = "overlap: an earlier job of the schedule had not ended"
REPLACED = "overlap: replaced by a later job of the schedule"


class Earlier(msgspec.Struct, frozen=True):
    id: JobId
    running: bool


async def admit(transaction: Transaction, job: Job, now: int) -> bool:
    """Apply the overlap rule of a job that is ours to start. False when it may not start now.

    The caller holds the schedule's lock, so nobody else admits a job of it meanwhile.
    """
    while earlier := await find_earlier(transaction, job, now):
        match job.overlap:
            case Overlap.SKIP:
                await cancel_waiting(transaction, {job.id: SKIPPED}, now)
                return False
            case Overlap.WAIT:
                # Waiting for the last of them makes a chain, so that each end frees one job.
                if await wait_for(transaction, job.id, [earlier[-1].id]):
                    return False
            case Overlap.REPLACE:
                if await replace(transaction, job, earlier, now):
                    return False
            case Overlap.ALLOW:
                return True
    return True


async def find_earlier(transaction: Transaction, job: Job, now: int) -> list[Earlier]:
    """Unfinished jobs that come first, the running ones last.

    A job that was tried has had its turn: only a running one comes before it. Otherwise two that
    are both tried could wait for each other for ever. What has lapsed is in nobody's way.
    """
    sql = """
        SELECT id, running
        FROM jobs FORCE INDEX (jobs_of_schedule)
        WHERE schedule_id = %(schedule)s
          AND id <> %(id)s
          AND (running = 1
               OR %(token)s = 0 AND token > 0
               OR %(token)s = 0
                  AND (due_at < %(due_at)s OR due_at = %(due_at)s AND id < %(id)s)
                  AND (start_by IS NULL OR start_by >= %(now)s))
        ORDER BY running, due_at, id
    """
    bindings = {
        "schedule": job.schedule_id,
        "id": job.id,
        "token": job.token,
        "due_at": micros(job.due_at),
        "now": now,
    }
    return [Earlier(id, bool(running)) for id, running in await transaction.rows(sql, bindings)]


async def wait_for(transaction: Transaction, id: JobId, others: Sequence[JobId]) -> bool:
    """False where all of the others have just ended."""
    live = await lock_jobs(transaction, others)
    await block(transaction, [(id, other) for other in others if other in live], any_end=True)
    return bool(live)


async def replace(transaction: Transaction, job: Job, earlier: Sequence[Earlier], now: int) -> bool:
    """True where the job has to wait for the end of running ones."""
    running = [one.id for one in earlier if one.running]
    waiting = [one.id for one in earlier if not one.running]
    await cancel_waiting(transaction, dict.fromkeys(waiting, REPLACED), now)
    if not running:
        return False
    await ask_to_stop(transaction, running, REPLACED, now)
    return await wait_for(transaction, job.id, running)


async def ask_to_stop(
    transaction: Transaction, ids: Sequence[JobId], reason: str, now: int
) -> None:
    """Note on running jobs why they should stop; a reason given earlier stays."""
    if not ids:
        return
    sql = """
        SELECT id, attempt, worker
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %s AND running = 1 AND cancel_reason IS NULL
        ORDER BY id
        FOR UPDATE
    """
    asked = await transaction.rows(sql, (tuple(ids),))
    if asked:
        await transaction.run_each(
            "UPDATE jobs SET cancel_reason = %s WHERE id = %s", [(reason, row[0]) for row in asked]
        )
        await note(
            transaction,
            [(id, now, "cancel requested", reason, attempt, at) for id, attempt, at in asked],
        )
        transaction.hints.add(Hint.CANCELS)
