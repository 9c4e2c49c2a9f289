"""Workers as others see them: their beats, their leases, and what the dead left behind."""

from collections.abc import Collection, Sequence

import msgspec

from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.worker import Worker
from onbeat.ports.store import Held
from onbeat.stores.postgres.rows import LIVE_COLUMNS, read_jobs, to_json
from onbeat.stores.postgres.transaction import Transaction

WORKER = msgspec.json.Decoder(Worker)


async def beat(transaction: Transaction, worker: Worker) -> list[Held]:
    """One statement; it sees no lease that its own writing could touch."""
    sql = """
        WITH kept AS (
          INSERT INTO workers (id, record) VALUES ($1, $2)
          ON CONFLICT (id) DO UPDATE SET record = excluded.record
        )
        SELECT id, token, cancel_reason
        FROM jobs
        WHERE worker = $1 AND running
        ORDER BY id
    """
    record = to_json(msgspec.structs.replace(worker, running=0))
    return [
        Held(job_id=JobId(str(id)), token=Token(token), cancel_reason=reason)
        for id, token, reason in await transaction.rows(sql, worker.id, record)
    ]


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


async def abandoned(
    transaction: Transaction, asked: tuple[Collection[WorkerId], int]
) -> Sequence[Job]:
    """By distinct worker first, so that the jobs of the living cost nothing."""
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
        )
        SELECT {LIVE_COLUMNS}
        FROM jobs
        WHERE running
          AND worker = ANY(ARRAY(SELECT worker FROM dead))
        ORDER BY jobs.id
        LIMIT $2
    """  # noqa: S608  no value in it
    dead, limit = asked
    return read_jobs(await transaction.rows(sql, list(dead), limit))


async def forget_workers(transaction: Transaction, ids: Collection[WorkerId]) -> int:
    return await transaction.run(
        """
        DELETE FROM workers
        WHERE id = ANY($1::text[])
          AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.worker = workers.id AND running)
        """,
        list(ids),
    )
