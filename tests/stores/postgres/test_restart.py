"""A server that goes down under load, and comes back."""

import asyncio
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from conditions import eventually
from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import JobState
from onbeat.stores.postgres.store import PostgresStore
from onbeat.testing.build import NOW, a_job, a_worker
from onbeat.testing.store_contract.steps import a_request, a_settlement, stored_job
from stores.postgres import server


@pytest.fixture(scope="module")
def private() -> Iterator[server.Server]:
    with server.private_server() as private:
        yield private


async def patient(ask: Any, *asked: Any) -> Any:
    """Repeats until it is answered; what is stored already may be asked for again."""
    while True:
        try:
            return await ask(*asked)
        except Unavailable:
            await asyncio.sleep(random.random() * 0.05)


class Load:
    """Callers that never give up, until told to stop."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.accepted: list[str] = []
        self.is_stopping = False
        self.is_all_sent = False

    async def produce(self) -> None:
        while not self.is_stopping:
            job = a_job()
            await patient(self.store.enqueue, [job])
            self.accepted.append(job.id)

    async def work(self) -> None:
        request = a_request(worker=WorkerId("worker"), limit=20)
        while not self.is_all_sent or await self.waiting():
            claim = await patient(self.store.claim, request)
            strays = await patient(self.store.abandoned_jobs, [request.worker], NOW, 100)
            for job in {one.id: one for one in (*claim.jobs, *strays)}.values():
                await patient(self.store.settle, [a_settlement(job)])

    async def waiting(self) -> int:
        counts = (await patient(self.store.stats, NOW)).jobs
        return counts["waiting"] + counts["running"]

    async def goes_on(self) -> None:
        goal = len(self.accepted) + 50
        await eventually(lambda: len(self.accepted) >= goal, "jobs are accepted")


async def test_a_restart_under_load_loses_nothing(private: server.Server) -> None:
    store = PostgresStore(private.url)
    await store.open()
    load = Load(store)
    producers = [asyncio.ensure_future(load.produce()) for _ in range(3)]
    worker = asyncio.ensure_future(load.work())
    for mode in ("immediate", "fast"):
        await load.goes_on()
        await asyncio.to_thread(private.stop, mode)
        with pytest.raises(Unavailable):
            await store.ping()
        await asyncio.to_thread(private.start)
    await load.goes_on()
    load.is_stopping = True
    async with asyncio.timeout(30):
        await asyncio.gather(*producers)
        load.is_all_sent = True
        await worker
    jobs = [await store.job(JobId(id)) for id in load.accepted]
    assert {job and job.state for job in jobs} == {JobState.SUCCEEDED}
    assert {len(await store.attempts(JobId(id))) for id in load.accepted} == {1}
    await store.close()


async def test_a_beat_is_answered_while_every_connection_is_busy(private: server.Server) -> None:
    store = PostgresStore(private.url, pool_max=1)
    await store.open()
    job = a_job()
    await store.enqueue([job])
    connections = store._home_connections
    assert connections is not None
    released = asyncio.Event()

    async def hold(transaction: Any) -> None:
        await transaction.value("SELECT 1")
        await released.wait()

    held = asyncio.ensure_future(connections.run(hold))
    async with asyncio.timeout(10):
        assert list(await store.heartbeat(a_worker())) == []
    released.set()
    await held
    assert await stored_job(store, job) == job
    await store.close()


def test_a_thread_with_a_loop_of_its_own_is_served_by_the_annex(private: server.Server) -> None:
    store = PostgresStore(private.url)
    heard: list[object] = []

    async def home() -> None:
        await store.open()
        thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
        thread.start()
        # The loop that opened the store is held up; a heartbeat must not notice.
        thread.join()
        await store.close()

    async def elsewhere() -> None:
        heard.append(await store.heartbeat(a_worker()))

    asyncio.run(home())
    assert heard == [[]]
