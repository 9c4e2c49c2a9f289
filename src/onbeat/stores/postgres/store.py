"""The store: a verb runs on the connections for the caller's event loop."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime

from msgspec.structs import replace

from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.keep_rule import Sweep, Swept
from onbeat.model.worker import WorkerRecord
from onbeat.ports.store import (
    Claimed,
    ClaimRequest,
    Enqueued,
    Finding,
    HeldLease,
    Hint,
    SentJobs,
    Settlement,
    SucceededAttempt,
)
from onbeat.rules.dead_rows import LOOK_SECONDS, NO_NEED_SECONDS, DeadRows
from onbeat.stores.postgres import (
    bulk,
    claim,
    doctor,
    enqueue,
    leases,
    partitions,
    settle,
    vacuum,
)
from onbeat.stores.postgres.connection import connect, parse_dsn
from onbeat.stores.postgres.enqueue import KEYS, enqueue_in_one
from onbeat.stores.postgres.errors import SETTING, refusal, unavailable
from onbeat.stores.postgres.hints import Hints
from onbeat.stores.postgres.loop_connections import BackgroundLoop, LoopConnections
from onbeat.stores.postgres.migrate import migrate, migrations
from onbeat.stores.postgres.sessions import Sessions
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.doctor import commit_time
from onbeat.stores.sql.migrate import change_to
from onbeat.stores.sql.pool import CLOSE_SECONDS
from onbeat.stores.sql.session import Answer
from onbeat.stores.sql.store import POOL_MAX, ServerStore
from onbeat.stores.sql.values import micros
from onbeat.stores.sql.verbs.enqueue import prepare_batch

BACKGROUND_POOL_MAX = 4
SESSION_BYTES = 8  # of the name of a store's sessions, which no two processes share


class PostgresStore(ServerStore[LoopConnections, Transaction]):
    """All state in one schema of a PostgreSQL database: `postgresql://USER@HOST/DB?schema=onbeat`.

    Calls from the loop that opened the store use connections of that loop. Calls from any other
    loop or thread use those of a background thread, which other work cannot delay.
    """

    def __init__(self, url: str, *, pool_max: int = POOL_MAX) -> None:
        super().__init__(KEYS)
        self._dsn = replace(parse_dsn(url), session=secrets.token_hex(SESSION_BYTES))
        self.sessions = Sessions(self._dsn)
        self._pool_max = pool_max
        self._hints = Hints(self._dsn)
        self._dead_rows = DeadRows()
        self._home_connections: LoopConnections | None = None
        self._home_loop: asyncio.AbstractEventLoop | None = None
        self._background_loop = BackgroundLoop(
            lambda: LoopConnections(self._dsn, self._hints, BACKGROUND_POOL_MAX)
        )

    @property
    def url(self) -> str:
        return self._dsn.url

    @property
    def hints_at_once(self) -> bool:
        return self._hints.is_listening

    async def open(self) -> None:
        try:
            db = await connect(self._dsn)
            try:
                before = await migrate(db, self._dsn)
                self._schema_change = change_to(self.url, migrations(), before)
                await self.sessions.check_route(db)
            finally:
                await db.close(timeout=CLOSE_SECONDS)
        except SETTING as error:
            raise Misconfigured(str(unavailable(error, self.url)), key="store") from error
        except Exception as error:  # noqa: BLE001  raised again as an error of the store
            refused = refusal(error, self.url)
            raise refused from refused.__cause__
        home = LoopConnections(self._dsn, self._hints, self._pool_max)
        self._home_connections, self._home_loop = home, asyncio.get_running_loop()
        self._background_loop.open()
        self._hints.start(home.notify)
        await partitions.add_missing_days(home)

    async def close(self) -> None:
        home, loop = self._home_connections, self._home_loop
        self._home_connections = self._home_loop = None
        await asyncio.to_thread(self._background_loop.close)
        if home is None or loop is None or loop.is_closed():
            return
        if loop is asyncio.get_running_loop():
            await self._close_home(home)
        else:
            work = asyncio.run_coroutine_threadsafe(self._close_home(home), loop)
            await asyncio.wrap_future(work)

    async def _close_home(self, home: LoopConnections) -> None:
        await self._hints.stop()
        await home.close()

    async def _at(self, act: Callable[[LoopConnections], Awaitable[Answer]]) -> Answer:
        home = self._home_connections
        if home is None:
            raise Unavailable("the store is not open")
        if asyncio.get_running_loop() is self._home_loop:
            return await act(home)
        return await self._background_loop.run(act)

    async def ping(self) -> None:
        await self._run(doctor.ping)

    async def now(self) -> datetime | None:
        return await self._read(doctor.present)

    async def doctor(self) -> Sequence[Finding]:
        return [*await self._read(doctor.doctor), await commit_time(self.ping)]

    def listen(self, on_hint: Callable[[Hint], None]) -> Callable[[], None]:
        return self._hints.listen(on_hint)

    # Batched calls, and methods that differ by database

    async def claim(self, request: ClaimRequest) -> Claimed:
        return await self._at(lambda connections: claim.claim(connections, request))

    async def start(
        self, worker: WorkerId, leases: Sequence[tuple[JobId, Token]], now: datetime
    ) -> Sequence[Job | None]:
        at = micros(now)
        starts = [(id, token, worker, at) for id, token in leases]
        return await self._at(lambda connections: connections.start.submit(starts))

    async def heartbeat(self, worker: WorkerRecord) -> Sequence[HeldLease]:
        return await self._beat(leases.heartbeat, worker)

    async def enqueue_from(self, sent: Sequence[SentJobs]) -> Sequence[bool]:
        sendings = [prepare_batch(one, enqueue.new_job) for one in sent]
        return await self._at(lambda connections: connections.send_from.submit(sendings))

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        rows = list(map(settle.prepare_settlement, settlements))
        return await self._at(lambda connections: connections.settle.submit(rows))

    async def succeed(self, successes: Sequence[SucceededAttempt]) -> Sequence[bool]:
        return await self._at(lambda connections: connections.succeed.submit(successes))

    async def renew(
        self, leases: Sequence[tuple[JobId, Token]], until: datetime
    ) -> Sequence[HeldLease | None]:
        at = micros(until)
        renewals = [(id, token, at) for id, token in leases]
        return await self._at(lambda connections: connections.renew.submit(renewals))

    async def abandoned_jobs(
        self, dead: Collection[WorkerId], now: datetime, limit: int
    ) -> Sequence[Job]:
        return await self._read(leases.abandoned_jobs, dead, micros(now), limit)

    async def prune(self, *, finished_before: datetime, failed_before: datetime, limit: int) -> int:
        ages = micros(finished_before), micros(failed_before)
        return await self._at(
            lambda connections: partitions.prune_finished(connections, *ages, limit)
        )

    async def sweep(self, sweep: Sweep, limit: int) -> Swept:
        return await self._at(lambda connections: partitions.sweep(connections, sweep, limit))

    async def vacuum(self) -> float:
        counts, began = await self._read(vacuum.row_counts), time.monotonic()
        if self._dead_rows.is_vacuum_due(counts, began):
            await vacuum.vacuum_jobs(self._dsn)
            left = await self._read(vacuum.row_counts)
            self._dead_rows.note_vacuum(left, began, time.monotonic())
        return LOOK_SECONDS if counts.may_vacuum else NO_NEED_SECONDS

    async def enqueue(
        self, jobs: Sequence[Job], keyed: KeyedRequest | None = None
    ) -> Sequence[Enqueued]:
        if keyed is None:
            return await self._at(lambda connections: connections.enqueue.submit(jobs))
        if len(jobs) >= bulk.COPIED_MIN:
            return await self._write(keyed, enqueue_in_one, jobs)
        return await self._enqueue_keyed(keyed, jobs)
