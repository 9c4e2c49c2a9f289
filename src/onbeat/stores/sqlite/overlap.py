"""May this job of a schedule start while earlier ones are unfinished?"""

from collections.abc import Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Hint
from onbeat.stores.sql.values import micros
from onbeat.stores.sqlite.ends import cancel_waiting
from onbeat.stores.sqlite.history import note
from onbeat.stores.sqlite.transaction import Transaction, listed

SKIPPED = "overlap: an earlier job of the schedule had not ended"
REPLACED = "overlap: replaced by a later job of the schedule"


class Earlier(msgspec.Struct, frozen=True, array_like=True):
    id: JobId
    running: bool


def admit(transaction: Transaction, job: Job, now: int) -> bool:
    """Apply the overlap rule of a due job. False when it may not start now."""
    if not transaction.value("SELECT ready FROM jobs WHERE id = ?", (job.id,)):
        return False  # another job of this claim has just replaced it
    earlier = find_earlier(transaction, job, now)
    if not earlier:
        return True
    match job.overlap:
        case Overlap.SKIP:
            cancel_waiting(transaction, {job.id: SKIPPED}, now)
            return False
        case Overlap.WAIT:
            # Waiting for the last of them makes a chain, so that each end frees one job.
            wait_for(transaction, job.id, [earlier[-1].id])
            return False
        case Overlap.REPLACE:
            return replace(transaction, job, earlier, now)
        case Overlap.ALLOW:
            return True


def find_earlier(transaction: Transaction, job: Job, now: int) -> list[Earlier]:
    """Unfinished jobs that come first, the running ones last.

    A job that was tried has had its turn: only a running one comes before it. Otherwise two that
    are both tried could wait for each other for ever. What has lapsed is in nobody's way.
    """
    sql = """
        SELECT json_group_array(json_array(id, json(iif(state = 'running', 'true', 'false'))))
        FROM (
          SELECT id, state
          FROM jobs
          WHERE schedule_id = :schedule
            AND id <> :id
            AND (state = 'running'
                 OR :token = 0 AND token > 0
                 OR :token = 0 AND (due_at, id) < (:due_at, :id)
                    AND (start_by IS NULL OR start_by >= :now))
          ORDER BY state = 'running', due_at, id
        )
    """
    bindings = {
        "schedule": job.schedule_id,
        "id": job.id,
        "token": job.token,
        "due_at": micros(job.due_at),
        "now": now,
    }
    return msgspec.convert(transaction.values(sql, bindings), list[Earlier])


def wait_for(transaction: Transaction, id: JobId, others: Sequence[JobId]) -> None:
    transaction.run(
        """
        INSERT OR IGNORE INTO waits (awaits, job_id, any_end)
        SELECT value, ?, 1 FROM json_each(?)
        """,
        (id, listed(others)),
    )
    transaction.run(
        "UPDATE jobs SET blocked_by = (SELECT count(*) FROM waits WHERE job_id = ?1) WHERE id = ?1",
        (id,),
    )


def replace(transaction: Transaction, job: Job, earlier: Sequence[Earlier], now: int) -> bool:
    running = [one.id for one in earlier if one.running]
    waiting = [one.id for one in earlier if not one.running]
    cancel_waiting(transaction, dict.fromkeys(waiting, REPLACED), now)
    if running:
        ask_to_stop(transaction, running, REPLACED, now)
        wait_for(transaction, job.id, running)
    return not running


def ask_to_stop(transaction: Transaction, ids: Sequence[JobId], reason: str, now: int) -> None:
    """Note on running jobs why they should stop; a reason given earlier stays."""
    sql = """
        SELECT json_group_array(id)
        FROM jobs
        WHERE id IN (SELECT value FROM json_each(?)) AND state = 'running' AND cancel_reason IS NULL
    """
    asked = transaction.values(sql, (listed(ids),))
    if asked:
        transaction.run(
            "UPDATE jobs SET cancel_reason = ? WHERE id IN (SELECT value FROM json_each(?))",
            (reason, listed(asked)),
        )
        note(transaction, asked, now, "cancel requested", dict.fromkeys(asked, reason))
        transaction.hints.add(Hint.CANCELS)
