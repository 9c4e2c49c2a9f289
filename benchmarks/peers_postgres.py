"""The peers on PostgreSQL, each used as its documentation says, with its best settings.

All peers have one interface: a peer is opened on an empty database, takes jobs one at a time or in
bulk, and drains them in one worker process until the last is recorded as done.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol

import asyncpg

from benchmarks.bare_postgres import BATCH, POOL, BareAnnounced, BareDriver, until_empty
from benchmarks.peer_graphile import GraphileWorker

CONCURRENCY = 1_000


class Peer(Protocol):
    name: str
    package: str

    def opened(self, url: str) -> contextlib.AbstractAsyncContextManager[None]: ...

    async def enqueue(self) -> None: ...

    async def enqueue_many(self, count: int) -> None: ...

    async def drain(self, count: int) -> None:
        """Returns when this number of jobs has run and is recorded as done."""
        ...

    async def serve(self, ran: Callable[[], None]) -> None:
        """Run a worker forever; `ran` is called in the handler."""
        ...


async def stopped(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


class PgQueuer:
    name = package = "pgqueuer"

    @contextlib.asynccontextmanager
    async def opened(self, url: str) -> AsyncIterator[None]:
        from pgqueuer.db import AsyncpgPoolDriver
        from pgqueuer.queries import Queries

        self.url = url
        async with asyncpg.create_pool(url, min_size=2, max_size=POOL) as pool:
            self.driver = AsyncpgPoolDriver(pool)
            self.queries = Queries(self.driver)
            if not await self.queries.schema_is_installed():
                await self.queries.install()
            yield

    async def enqueue(self) -> None:
        await self.queries.enqueue("work", b"7")

    async def enqueue_many(self, count: int) -> None:
        await self.queries.enqueue(["work"] * count, [b"7"] * count, [0] * count)

    async def drain(self, count: int) -> None:
        done = asyncio.Event()
        left = count

        def ran() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done.set()

        task = asyncio.create_task(self.serve(ran))
        await done.wait()
        await until_empty(self.url, "SELECT 1 FROM pgqueuer LIMIT 1")
        await stopped(task)

    async def serve(self, ran: Callable[[], None]) -> None:
        from pgqueuer import PgQueuer as Program

        program = Program(self.driver)

        @program.entrypoint("work")
        async def work(_job: object) -> None:
            ran()

        try:
            await program.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=1))
        finally:
            program.shutdown.set()


class Procrastinate:
    name = package = "procrastinate"

    @contextlib.asynccontextmanager
    async def opened(self, url: str) -> AsyncIterator[None]:
        import procrastinate

        self.url = url
        connector = procrastinate.PsycopgConnector(conninfo=url, min_size=2, max_size=POOL)
        self.app = procrastinate.App(connector=connector)
        self.told: Callable[[], None] = lambda: None

        @self.app.task(name="work")
        async def work(n: int) -> None:  # noqa: ARG001  it is what is sent
            self.told()

        self.work = work
        async with self.app.open_async():
            if not await self.app.check_connection_async():
                await self.app.schema_manager.apply_schema_async()
            yield

    async def enqueue(self) -> None:
        await self.work.defer_async(n=7)

    async def enqueue_many(self, count: int) -> None:
        await self.work.batch_defer_async(*[{"n": 7} for _ in range(count)])

    async def drain(self, count: int) -> None:
        await self.app.run_worker_async(
            wait=False, concurrency=50, install_signal_handlers=False, listen_notify=False
        )

    async def serve(self, ran: Callable[[], None]) -> None:
        self.told = ran
        await self.app.run_worker_async(concurrency=50, install_signal_handlers=False)


class Saq:
    name = package = "saq"

    @contextlib.asynccontextmanager
    async def opened(self, url: str) -> AsyncIterator[None]:
        from saq import Queue

        self.queue = Queue.from_url(url)
        await self.queue.connect()
        try:
            yield
        finally:
            await self.queue.disconnect()

    async def enqueue(self) -> None:
        await self.queue.enqueue("work", n=7)

    async def enqueue_many(self, count: int) -> None:
        """It has no bulk operation, so many are sent at the same time."""
        await asyncio.gather(*(self.queue.enqueue("work", n=7) for _ in range(count)))

    async def drain(self, count: int) -> None:
        done = asyncio.Event()
        left = count

        async def after(_context: object) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done.set()

        await self.run_until(done.wait, lambda: None, after)

    async def serve(self, ran: Callable[[], None]) -> None:
        await self.run_until(asyncio.Event().wait, ran, None)

    async def run_until(
        self, ended: Callable[[], Awaitable[object]], ran: Callable[[], None], after: object
    ) -> None:
        from saq import Worker

        async def work(_context: object, *, n: int) -> None:  # noqa: ARG001  it is what is sent
            ran()

        worker = Worker(
            self.queue, functions=[("work", work)], concurrency=100, after_process=after
        )
        worker.SIGNALS = []
        task = asyncio.create_task(worker.start())
        try:
            await ended()
        finally:
            await worker.stop()
            await stopped(task)


PEERS: tuple[type[Peer], ...] = (
    PgQueuer,
    Procrastinate,
    Saq,
    GraphileWorker,
    BareDriver,
    BareAnnounced,
)
