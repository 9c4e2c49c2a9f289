"""Workers as others see them, and their beats."""

from collections.abc import Collection

import msgspec

from onbeat.model.ids import WorkerId
from onbeat.model.worker import Worker
from onbeat.ports.store import Held
from onbeat.stores.sql.values import to_json
from onbeat.stores.sqlite.leasing import held
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
    return held(transaction, worker.id)


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


def forget_workers(transaction: Transaction, ids: Collection[WorkerId]) -> int:
    return transaction.run(
        """
        DELETE FROM workers
        WHERE id IN (SELECT value FROM json_each(?))
          AND NOT EXISTS (SELECT 1 FROM jobs WHERE worker = workers.id AND state = 'running')
        """,
        (listed(ids),),
    )
