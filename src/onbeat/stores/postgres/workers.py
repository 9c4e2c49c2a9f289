"""Workers as others see them: their beats, their leases, and what the dead left behind."""

from collections.abc import Collection, Sequence

import msgspec

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.worker import Worker
from onbeat.ports.store import Held
from onbeat.stores.postgres.leases import HELD, read_held
from onbeat.stores.postgres.rows import LIVE_COLUMNS, read_jobs
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import to_json

WORKER = msgspec.json.Decoder(Worker)


async def beat(transaction: Transaction, worker: Worker) -> list[Held]:
    """One statement; it sees no lease that its own writing could touch."""
    sql = f"""
        WITH kept AS (
          INSERT INTO workers (id, record) VALUES ($1, $2)
          ON CONFLICT (id) DO UPDATE SET record = excluded.record
        )
        {HELD}
    """  # noqa: S608  no value in it
    record = to_json(msgspec.structs.replace(worker, running=0))
    return read_held(await transaction.rows(sql, worker.id, record))


async def workers(transaction: Transaction, _: None) -> list[Worker]:
    sql = """
        SELECT record,
               (SELECT count(*) FROM jobs WHERE jobs.worker = workers.id AND running)
        FROM workers
        ORDER BY id
    """
    return [
        msgspec.structs.replace(WORKER.decode(record), running=running)
        for record, running in await transaction.rows(sql)
    ]


class Abandoned(msgspec.Struct, frozen=True):
    dead: Collection[WorkerId]
    now: int
    limit: int


async def abandoned(transaction: Transaction, asked: Abandoned) -> Sequence[Job]:
    """By distinct worker first, so that the jobs of the living cost nothing.

    All are found before the first are chosen: else all jobs would be read in the order of ids.
    """
    sql = f"""
        WITH RECURSIVE holders (worker) AS (
          SELECT (SELECT min(worker) FROM jobs WHERE running)
          UNION ALL
          SELECT (SELECT min(jobs.worker) FROM jobs
                  WHERE running AND jobs.worker > holders.worker)
          FROM holders
          WHERE holders.worker IS NOT NULL
        ),
        dead AS MATERIALIZED (
          SELECT worker
          FROM holders
          WHERE worker = ANY($1::text[])
             OR NOT EXISTS (SELECT 1 FROM workers WHERE workers.id = holders.worker)
        ),
        lost AS MATERIALIZED (
          SELECT id
          FROM jobs
          WHERE running AND timed AND lease_until < $2
          UNION ALL
          SELECT id
          FROM jobs
          WHERE running AND timed IS NULL AND worker = ANY(ARRAY(SELECT worker FROM dead))
        )
        SELECT {LIVE_COLUMNS}
        FROM lost
        JOIN jobs ON jobs.id = lost.id
        ORDER BY jobs.id
        LIMIT $3
    """  # noqa: S608  no value in it
    return read_jobs(await transaction.rows(sql, list(asked.dead), asked.now, asked.limit))


async def forget_workers(transaction: Transaction, ids: Collection[WorkerId]) -> int:
    return await transaction.run(
        """
        DELETE FROM workers
        WHERE id = ANY($1::text[])
          AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.worker = workers.id AND running)
        """,
        list(ids),
    )
