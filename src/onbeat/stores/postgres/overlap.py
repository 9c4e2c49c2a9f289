"""The other jobs of a schedule, as its overlap rule sees them."""

from collections.abc import Mapping, Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Hint
from onbeat.stores.postgres.ends import block, cancel_waiting, keep_alive
from onbeat.stores.postgres.history import note
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.overlap import Earlier
from onbeat.stores.sql.values import micros


class Neighbours(msgspec.Struct, frozen=True):
    """Within a transaction that holds the schedule's lock; see `sql.overlap.Neighbours`."""

    transaction: Transaction
    now: int

    async def earlier(self, job: Job) -> list[Earlier]:
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
        found = await self.transaction.rows(
            sql, job.schedule_id, job.id, job.token, micros(job.due_at), self.now
        )
        return [Earlier(JobId(str(id)), running) for id, running in found]

    async def cancel(self, reasons: Mapping[JobId, str]) -> None:
        await cancel_waiting(self.transaction, reasons, self.now)

    async def ask_to_stop(self, ids: Sequence[JobId], reason: str) -> None:
        await ask_to_stop(self.transaction, ids, reason, self.now)

    async def wait_for(self, id: JobId, others: Sequence[JobId]) -> bool:
        live = await keep_alive(self.transaction, others)
        pairs = [(id, other) for other in others if other in live]
        await block(self.transaction, pairs, any_end=True)
        return bool(live)


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
