"""Connections that are killed, servers that do not answer, and URLs that cannot be right."""

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest
import uvloop
from asyncmy.errors import MySQLError

from conditions import eventually
from free_ports import free_port
from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import JobState
from onbeat.stores.mysql.store import MysqlStore
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.store import POOL_MAX
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.steps import a_settlement, claim_jobs, ids_of
from stores.mysql.server import Private, database, execute, server

KILLS = 60
CALLERS = 4
RESTARTS = 3


def kill_all(url: str) -> int:
    """Every connection to the database, as a proxy or an operator may."""
    name = url.partition("?")[0].rpartition("/")[2]
    result = execute(server(), f"SELECT id FROM information_schema.processlist WHERE db = '{name}'")
    for (id,) in result:
        # One may have ended by itself.
        with suppress(MySQLError):
            execute(server(), f"KILL CONNECTION {id}")
    return len(result)


class Load:
    """Jobs sent and worked on until it is over, by whoever is answered."""

    def __init__(self, store: MysqlStore) -> None:
        self.store = store
        self.accepted: set[str] = set()
        self.ended: set[str] = set()
        self.seen = 0
        self.over = asyncio.Event()

    def begin(self) -> list[asyncio.Task[None]]:
        acts: list[Callable[[], Awaitable[None]]] = [self.send] * CALLERS
        acts += [partial(self.work, WorkerId(f"worker-{n}")) for n in range(CALLERS)]
        return [asyncio.ensure_future(self.until_over(act)) for act in acts]

    async def until_over(self, act: Callable[[], Awaitable[None]]) -> None:
        while not self.over.is_set():
            with suppress(Unavailable):
                await act()
            await asyncio.sleep(0)

    async def send(self) -> None:
        job = a_job()
        await self.store.enqueue([job])
        self.accepted.add(job.id)

    async def work(self, worker: WorkerId) -> None:
        jobs = await claim_jobs(self.store, limit=5, worker=worker)
        answers = await self.store.settle([a_settlement(job) for job in jobs])
        assert all(answers), "a repeated settlement answers True"
        self.ended.update(ids_of(jobs))

    def has_gone_on(self) -> bool:
        """Since this was last asked."""
        seen, self.seen = self.seen, len(self.ended)
        return self.seen > seen

    async def check(self) -> None:
        """All that was accepted is there, and what was ended has ended once."""
        assert self.accepted
        assert self.ended
        for id in self.accepted:
            job = await self.store.job(JobId(id))
            assert job is not None, "an accepted job is gone"
            assert job.state is JobState.SUCCEEDED or id not in self.ended
            assert len(await self.store.attempts(job.id)) == (job.state is JobState.SUCCEEDED)


async def test_killed_connections_lose_nothing_that_was_accepted(
    store: MysqlStore, dsn: str
) -> None:
    load = Load(store)
    tasks = load.begin()
    killed = [await asyncio.to_thread(kill_all, dsn) for _ in range(KILLS)]
    load.over.set()
    await asyncio.gather(*tasks)
    assert sum(killed)
    await load.check()


async def test_a_server_that_is_killed_and_started_again_has_lost_nothing() -> None:
    private = Private()
    private.start()
    try:
        with database(private.url) as url:
            store = MysqlStore(url)
            await store.open()
            load = Load(store)
            tasks = load.begin()
            for _ in range(RESTARTS):
                await eventually(load.has_gone_on, "the load goes on by itself")
                await asyncio.to_thread(private.kill)
                await asyncio.to_thread(private.start)
            await eventually(load.has_gone_on, "the load goes on by itself")
            load.over.set()
            await asyncio.gather(*tasks)
            await load.check()
            await store.close()
    finally:
        private.stop()


async def test_a_connection_that_died_idle_is_not_noticed(store: MysqlStore, dsn: str) -> None:
    job = a_job()
    await store.enqueue([job])
    await asyncio.to_thread(kill_all, dsn)
    assert await store.job(job.id) == job


async def test_neither_is_it_where_all_connections_died(store: MysqlStore, dsn: str) -> None:
    """As after a restart of the server."""
    await store.enqueue([job := a_job()])
    together = asyncio.Barrier(POOL_MAX)

    async def look(transaction: Transaction, _: None) -> object:
        await together.wait()
        return await transaction.value("SELECT 1")

    await asyncio.gather(*(store._connections.run(look, None) for _ in range(POOL_MAX)))
    assert await asyncio.to_thread(kill_all, dsn) >= POOL_MAX
    assert await store.job(job.id) == job


async def test_a_cancelled_caller_leaves_a_store_that_works(store: MysqlStore) -> None:
    await store.enqueue([a_job() for _ in range(50)])
    for _ in range(20):
        task = asyncio.ensure_future(claim_jobs(store, limit=2))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (await store.stats(NOW)).jobs["waiting"] + (await store.stats(NOW)).jobs["running"] == 50
    assert await claim_jobs(store)


async def test_who_does_not_answer_is_unavailable() -> None:
    store = MysqlStore(f"mysql://root@127.0.0.1:{free_port()}/onbeat")
    with pytest.raises(Unavailable) as raised:
        await store.open()
    assert isinstance(raised.value.__cause__, MySQLError), "the cause is kept"


@pytest.fixture
def resetting() -> Iterator[int]:
    """The port of a proxy whose server is away: it takes connections and resets them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reset() -> None:
            with suppress(OSError):
                while True:
                    taken, _ = listener.accept()
                    at_once = struct.pack("ii", 1, 0)
                    taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
                    taken.close()

        proxy = threading.Thread(target=reset)
        proxy.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        proxy.join()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_proxy_whose_server_is_away_is_unavailable(
    run: Callable[[Awaitable[None]], None], resetting: int
) -> None:
    """However late the busy loop of a worker sees the end of the connection."""

    async def busy() -> None:
        while True:
            sum(range(100_000))
            await asyncio.sleep(0)

    async def opened() -> None:
        others = asyncio.create_task(busy())
        for _ in range(10):
            with pytest.raises(Unavailable, match="it did not answer"):
                await MysqlStore(f"mysql://root@127.0.0.1:{resetting}/onbeat").open()
        others.cancel()

    run(opened())


async def test_a_store_that_is_not_open_is_unavailable(dsn: str) -> None:
    with pytest.raises(Unavailable):
        await MysqlStore(dsn).ping()


async def test_a_database_that_does_not_exist_is_a_wrong_setting() -> None:
    store = MysqlStore(server().partition("?")[0] + "/onbeat_that_is_not_there")
    with pytest.raises(Misconfigured, match="create it"):
        await store.open()


@pytest.mark.parametrize(
    "url", ["mysql://host", "mysql://host/", "sqlite:///x", "mysql://h/d?a=b", "mysql://h:x/d"]
)
def test_a_url_that_cannot_be_right_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured):
        MysqlStore(url)


def test_a_url_is_shown_without_its_password() -> None:
    store = MysqlStore("mysql://me:p%40ss@db.example:3307/jobs?ssl=1")
    assert store.url == "mysql://me@db.example:3307/jobs?ssl=1"


async def test_a_newer_schema_is_refused() -> None:
    with database() as url:
        store = MysqlStore(url)
        await store.open()
        await store.close()
        execute(url, "INSERT INTO onbeat_schema (version) VALUES (99)")
        with pytest.raises(Misconfigured, match="schema 99"):
            await store.open()


async def test_tables_of_another_program_are_refused() -> None:
    with database() as url:
        execute(url, "CREATE TABLE jobs (id INT)")
        with pytest.raises(Misconfigured, match="another program"):
            await MysqlStore(url).open()
        assert execute(url, "SHOW TABLES") == [("jobs",)]


async def test_a_migration_that_was_cut_off_is_finished() -> None:
    with database() as url:
        store = MysqlStore(url)
        await store.open()
        await store.close()
        execute(url, "DELETE FROM onbeat_schema", "DROP TABLE workers", "DROP TABLE changes")
        await store.open()
        assert await store.workers() == []
        await store.close()
