"""A process that enqueues until it is killed, and says of each job when it was acknowledged."""

import asyncio
import os
import sys

from onbeat.ports.store import ClaimRequest
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.steps import WORKER, a_settlement


async def main(path: str, prefix: str) -> None:
    store = SqliteStore(path)
    await store.open()
    async with asyncio.TaskGroup() as group:
        for caller in range(8):
            group.create_task(call(store, f"{prefix}-{caller}"))
        group.create_task(work(store))


async def call(store: SqliteStore, prefix: str) -> None:
    number = 0
    while True:
        number += 1
        job = a_job(id=f"{prefix}-{number:08d}")
        await store.enqueue([job])
        os.write(1, f"enqueued {job.id}\n".encode())


async def work(store: SqliteStore) -> None:
    request = ClaimRequest(worker=WORKER, now=NOW, limit=3, lanes=frozenset({"work"}))
    while True:
        jobs = (await store.claim(request)).jobs
        answers = await store.settle([a_settlement(job) for job in jobs])
        for job, settled in zip(jobs, answers, strict=True):
            if settled:
                os.write(1, f"settled {job.id}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
