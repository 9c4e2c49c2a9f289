"""May this job of a schedule start while earlier ones are unfinished?"""

from collections.abc import Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Hint
from onbeat.stores.postgres.ends import block, cancel_waiting, keep_alive
from onbeat.stores.postgres.history import note
from onbeat.stores.postgres.rows import micros
from onbeat.stores.postgres.transaction import Transaction

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
        FROM jobs
        WHERE schedule_id = $1
          AND id <> $2
          AND (running
               OR $3 = 0 AND token > 0
               OR $3 = 0 AND (due_at, id) < ($4, $2) AND (start_by IS NULL OR start_by >= $5))
        ORDER BY running, due_at, id
    """
    found = await transaction.rows(sql, job.schedule_id, job.id, job.token, micros(job.due_at), now)
    return [Earlier(JobId(str(id)), running) for id, running in found]


async def wait_for(transaction: Transaction, id: JobId, others: Sequence[JobId]) -> bool:
    """False where all of the others have just ended."""
    live = await keep_alive(transaction, others)
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
    sql = """
        WITH asked AS MATERIALIZED (
          SELECT id FROM jobs WHERE id = ANY($1::uuid[]) AND running ORDER BY id
          FOR NO KEY UPDATE
        )
        UPDATE jobs
        SET cancel_reason = $2
        FROM asked
        WHERE jobs.id = asked.id
          AND running
          AND cancel_reason IS NULL
        RETURNING jobs.id
    """
    asked = [JobId(str(id)) for id in await transaction.column(sql, list(ids), reason)]
    if asked:
        await note(transaction, dict.fromkeys(asked, reason), now, "cancel requested")
        transaction.hints.add(Hint.CANCELS)
