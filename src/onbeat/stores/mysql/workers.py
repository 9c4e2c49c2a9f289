"""Workers as others see them: their beats, and what each runs."""

from collections.abc import Collection

import msgspec

from onbeat.model.ids import WorkerId
from onbeat.model.worker import Worker
from onbeat.ports.store import Held
from onbeat.stores.mysql.leases import held
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import to_json

WORKER = msgspec.json.Decoder(Worker)


async def beat(transaction: Transaction, worker: Worker) -> list[Held]:
    await transaction.run(
        """
        INSERT INTO workers (id, record) VALUES (%(id)s, %(record)s)
        ON DUPLICATE KEY UPDATE record = %(record)s
        """,
        {"id": worker.id, "record": to_json(msgspec.structs.replace(worker, running=0))},
    )
    return await held(transaction, worker.id)


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
