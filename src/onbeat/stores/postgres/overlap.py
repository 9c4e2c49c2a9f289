"""The other jobs of a schedule, for its overlap rule."""

from collections.abc import Mapping, Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Hint
from onbeat.rules.overlap import EarlierJob
from onbeat.stores.postgres.dependents import add_dependencies, cancel_waiting, lock_live
from onbeat.stores.postgres.history import note
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros


class OtherJobs(msgspec.Struct, frozen=True):
    """Within a transaction that holds the schedule's lock; see `sql.overlap.OtherJobs`."""

    transaction: Transaction
    now: int

    async def earlier(self, job: Job) -> list[EarlierJob]:
        sql = """
            SELECT id, running
            FROM jobs
            WHERE schedule_id = $1
              AND id <> $2
              AND (running
                   OR $3 = 0 AND token > 0
                   OR $3 = 0 AND (due_at, id) < ($4, $2) AND (start_by IS NULL OR start_by >= $5))
            ORDER BY running DESC, due_at DESC, id DESC
        """
        rows = await self.transaction.rows(
            sql, job.schedule_id, job.id, job.token, micros(job.due_at), self.now
        )
        return [EarlierJob(JobId(str(id)), running) for id, running in rows]

    async def cancel(self, reasons: Mapping[JobId, str]) -> None:
        await cancel_waiting(self.transaction, reasons, self.now)

    async def ask_to_stop(self, ids: Sequence[JobId], reason: str) -> None:
        await ask_to_stop(self.transaction, ids, reason, self.now)

    async def wait_for(self, id: JobId, others: Sequence[JobId]) -> bool:
        live = await lock_live(self.transaction, others)
        pairs = [(id, other) for other in others if other in live]
        await add_dependencies(self.transaction, pairs, any_end=True)
        return bool(live)


async def ask_to_stop(
    transaction: Transaction, ids: Sequence[JobId], reason: str, now: int
) -> None:
    """Note on running jobs why they should stop; an earlier reason is kept."""
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
    request = [JobId(str(id)) for id in await transaction.column(sql, list(ids), reason)]
    if request:
        await note(transaction, dict.fromkeys(request, reason), now, "cancel requested")
        transaction.hints.add(Hint.CANCELS)
