"""A front that sends one request to two cells, and hangs before the part of the second.

Arguments: the URL of the map, and the groups of the jobs. It writes `stored` once the first cell
has its part.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import cast

from onbeat.app.stores import open_store
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued
from onbeat.stores.cells import CellStore
from onbeat.testing.build import a_job
from onbeat.testing.store_contract.idempotency import a_keyed_request


async def hang(_jobs: Sequence[Job], _keyed: KeyedRequest | None = None) -> Sequence[Enqueued]:
    os.write(1, b"stored\n")
    await asyncio.sleep(3600)
    raise AssertionError


async def main(url: str, *groups: str) -> None:
    front = cast("CellStore", open_store(url))
    await front.open()
    last = front.fleet.cells[-1].store
    vars(last)["enqueue"] = hang
    jobs = [a_job(group=group) for group in groups]
    await front.enqueue(jobs, a_keyed_request("one", *jobs))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
