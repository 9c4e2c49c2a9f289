"""The other jobs of a schedule, for its overlap rule."""

from collections.abc import Mapping, Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Hint
from onbeat.rules.overlap import EarlierJob
from onbeat.stores.mysql.dependents import add_dependencies, cancel_waiting, lock_jobs
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import micros
from onbeat.stores.sql.verbs.history import add_transitions


class OtherJobs(msgspec.Struct, frozen=True):
    """Within a transaction that holds the schedule's lock; see `sql.overlap.OtherJobs`."""

    transaction: Transaction
    now: int

    async def earlier(self, job: Job) -> list[EarlierJob]:
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
            ORDER BY running DESC, due_at DESC, id DESC
        """
        bindings = {
            "schedule": job.schedule_id,
            "id": job.id,
            "token": job.token,
            "due_at": micros(job.due_at),
            "now": self.now,
        }
        rows = await self.transaction.rows(sql, bindings)
        return [EarlierJob(id, bool(running)) for id, running in rows]

    async def cancel(self, reasons: Mapping[JobId, str]) -> None:
        await cancel_waiting(self.transaction, reasons, self.now)

    async def ask_to_stop(self, ids: Sequence[JobId], reason: str) -> None:
        await ask_to_stop(self.transaction, ids, reason, self.now)

    async def wait_for(self, id: JobId, others: Sequence[JobId]) -> bool:
        live = await lock_jobs(self.transaction, others)
        pairs = [(id, other) for other in others if other in live]
        await add_dependencies(self.transaction, pairs, any_end=True)
        return bool(live)


async def ask_to_stop(
    transaction: Transaction, ids: Sequence[JobId], reason: str, now: int
) -> None:
    """Note on running jobs why they should stop; an earlier reason is kept."""
    if not ids:
        return
    sql = """
        SELECT id, attempt, worker
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %s AND running = 1 AND cancel_reason IS NULL
        ORDER BY id
        FOR UPDATE
    """
    request = await transaction.rows(sql, (tuple(ids),))
    if request:
        await transaction.run_each(
            "UPDATE jobs SET cancel_reason = %s WHERE id = %s",
            [(reason, row[0]) for row in request],
        )
        await add_transitions(
            transaction,
            [(id, now, "cancel requested", reason, attempt, at) for id, attempt, at in request],
        )
        transaction.hints.add(Hint.CANCELS)
