"""Workers as others see them: their beats, their leases, and what the dead left behind."""

from collections.abc import Collection, Sequence

import msgspec

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.worker import Worker
from onbeat.ports.store import Held
from onbeat.stores.sqlite.rows import read_jobs, to_json
from onbeat.stores.sqlite.transaction import Transaction, listed

WORKERS = msgspec.json.Decoder(list[Worker])


def beat(transaction: Transaction, worker: Worker) -> list[Held]:
    transaction.run(
        """
        INSERT INTO workers (id, record) VALUES (?, ?)
        ON CONFLICT DO UPDATE SET record = excluded.record
        """,
        (worker.id, to_json(msgspec.structs.replace(worker, running=0))),
    )
    sql = """
        SELECT json_group_array(json_array(id, token, cancel_reason) ORDER BY id)
        FROM jobs
        WHERE worker = ? AND state = 'running'
    """
    return [
        Held(job_id=job_id, token=token, cancel_reason=reason)
        for job_id, token, reason in transaction.values(sql, (worker.id,))
    ]


def workers(transaction: Transaction, _: None) -> list[Worker]:
    text = transaction.value(
        "SELECT '[' || group_concat(record, ',' ORDER BY id) || ']' FROM workers"
    )
    counts = dict(
        transaction.values(
            """
            SELECT json_group_array(json_array(worker, n))
            FROM (SELECT worker, count(*) AS n FROM jobs INDEXED BY jobs_running
                  WHERE state = 'running' GROUP BY worker)
            """
        )
    )
    return [
        msgspec.structs.replace(worker, running=counts.get(worker.id, 0))
        for worker in (WORKERS.decode(text) if text else [])
    ]


def abandoned(transaction: Transaction, asked: tuple[Collection[WorkerId], int]) -> Sequence[Job]:
    """By distinct worker first, so that the jobs of the living cost nothing."""
    sql = """
        WITH RECURSIVE holders (worker) AS (
          SELECT (SELECT min(worker) FROM jobs INDEXED BY jobs_running WHERE state = 'running')
          UNION ALL
          SELECT (SELECT min(jobs.worker) FROM jobs INDEXED BY jobs_running
                  WHERE jobs.state = 'running' AND jobs.worker > holders.worker)
          FROM holders
          WHERE holders.worker IS NOT NULL
        )
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT live_jobs.record
          FROM holders
          CROSS JOIN jobs INDEXED BY jobs_running
            ON jobs.worker = holders.worker AND jobs.state = 'running'
          CROSS JOIN live_jobs USING (seq)
          WHERE holders.worker IN (SELECT value FROM json_each(?))
             OR holders.worker NOT IN (SELECT id FROM workers)
          ORDER BY jobs.id
          LIMIT ?
        )
    """
    dead, limit = asked
    return read_jobs(transaction.value(sql, (listed(dead), limit)))


def forget_workers(transaction: Transaction, ids: Collection[WorkerId]) -> int:
    return transaction.run(
        """
        DELETE FROM workers
        WHERE id IN (SELECT value FROM json_each(?))
          AND NOT EXISTS (SELECT 1 FROM jobs WHERE worker = workers.id AND state = 'running')
        """,
        (listed(ids),),
    )
