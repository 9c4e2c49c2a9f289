"""Workers as others see them: their beats, their leases, and what the dead left behind."""

from collections.abc import Collection, Sequence

import msgspec

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.worker import Worker
from onbeat.ports.store import Held
from onbeat.stores.mysql.rows import LIVE_COLUMNS, read_jobs, to_json
from onbeat.stores.mysql.transaction import Transaction

WORKER = msgspec.json.Decoder(Worker)


async def beat(transaction: Transaction, worker: Worker) -> list[Held]:
    await transaction.run(
        """
        INSERT INTO workers (id, record) VALUES (%(id)s, %(record)s)
        ON DUPLICATE KEY UPDATE record = %(record)s
        """,
        {"id": worker.id, "record": to_json(msgspec.structs.replace(worker, running=0))},
    )
    sql = """
        SELECT id, token, cancel_reason
        FROM jobs FORCE INDEX (jobs_running)
        WHERE worker = %s
        ORDER BY id
    """
    return [
        Held(job_id=id, token=token, cancel_reason=reason)
        for id, token, reason in await transaction.rows(sql, (worker.id,))
    ]


RUNNING = """
    SELECT worker, COUNT(*)
    FROM jobs FORCE INDEX (jobs_running)
    WHERE worker IS NOT NULL
    GROUP BY worker
"""


async def workers(transaction: Transaction, _: None) -> list[Worker]:
    asked = ("SELECT record FROM workers ORDER BY id", RUNNING)
    records, running = await transaction.tables(asked, ())
    counts: dict[WorkerId, int] = dict(running)
    found = [WORKER.decode(record) for (record,) in records]
    return [msgspec.structs.replace(one, running=counts.get(one.id, 0)) for one in found]


async def abandoned(
    transaction: Transaction, asked: tuple[Collection[WorkerId], int]
) -> Sequence[Job]:
    """By distinct worker first, so that the jobs of the living cost little."""
    dead, limit = asked
    holders, known = await transaction.tables((RUNNING, "SELECT id FROM workers"), ())
    living = {id for (id,) in known} - set(dead)
    lost = tuple(holder for holder, _ in holders if holder not in living)
    if not lost:
        return []
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM jobs FORCE INDEX (jobs_running)
        WHERE worker IN %s
        ORDER BY id
        LIMIT %s
    """  # noqa: S608  values are bound
    return read_jobs(await transaction.rows(sql, (lost, limit)))


async def forget_workers(transaction: Transaction, ids: Collection[WorkerId]) -> int:
    if not ids:
        return 0
    return await transaction.run(
        """
        DELETE FROM workers
        WHERE id IN %s
          AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.worker = workers.id)
        """,
        (tuple(ids),),
    )
