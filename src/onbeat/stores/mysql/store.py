"""The store: a verb runs on the connections for the caller's event loop."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from weakref import WeakKeyDictionary

from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
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
from onbeat.stores.mysql import claim, doctor, enqueue, settle
from onbeat.stores.mysql.connection import parse_dsn
from onbeat.stores.mysql.enqueue import KEYS, enqueue_in_one
from onbeat.stores.mysql.errors import is_misconfiguration
from onbeat.stores.mysql.hints import Hints
from onbeat.stores.mysql.leases import Takeover, abandoned_jobs, renew
from onbeat.stores.mysql.loop_connections import LoopConnections
from onbeat.stores.mysql.migrate import migrate, migrations
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.doctor import commit_time
from onbeat.stores.sql.migrate import change_to
from onbeat.stores.sql.session import Answer
from onbeat.stores.sql.store import POOL_MAX, ServerStore
from onbeat.stores.sql.values import micros
from onbeat.stores.sql.verbs.enqueue import prepare_batch
from onbeat.stores.sql.verbs.prune import prune
from onbeat.stores.successes import settlement_of

KEYED_JOBS_MAX = 100  # a request with more jobs has its own transaction


class MysqlStore(ServerStore[LoopConnections, Transaction]):
    """All state in one database of a MySQL or MariaDB server, which many machines may share.

    It opens up to `pool_max` connections for each event loop that uses it, one more for heartbeats,
    and one while there are listeners.
    """

    def __init__(self, url: str, *, pool_max: int = POOL_MAX) -> None:
        super().__init__(KEYS)
        self._dsn = parse_dsn(url)
        self._pool_max = pool_max
        self._hints = Hints(self._dsn)
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopConnections] = (
            WeakKeyDictionary()
        )
        self._lock = threading.Lock()
        self._opened = False

    @property
    def _connections(self) -> LoopConnections:
        """The connections of the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            connections = self._by_loop.get(loop)
            if connections is None:
                if not self._opened:
                    raise Unavailable("the store is not open")
                connections = self._by_loop[loop] = LoopConnections(
                    self._dsn, self._hints, self._pool_max
                )
            return connections

    @property
    def url(self) -> str:
        return self._dsn.url

    async def open(self) -> None:
        self._opened = True
        try:
            before = await self._connections.run(migrate, self._dsn)
            self._schema_change = change_to(self.url, migrations(), before)
        except Exception as error:
            await self.close()
            if is_misconfiguration(error.__cause__):
                raise Misconfigured(str(error), key="store") from error.__cause__
            raise
        self._hints.open()

    async def close(self) -> None:
        self._opened = False
        with self._lock:
            sites = list(self._by_loop.values())
            self._by_loop.clear()
        for connections in sites:
            await connections.close()
        await asyncio.to_thread(self._hints.close)

    async def _at(self, act: Callable[[LoopConnections], Awaitable[Answer]]) -> Answer:
        return await act(self._connections)

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
        return await claim.claim(self._connections, request)

    async def start(
        self, worker: WorkerId, leases: Sequence[tuple[JobId, Token]], now: datetime
    ) -> Sequence[Job | None]:
        return await self._connections.start.submit(
            [Takeover(worker, *lease, now) for lease in leases]
        )

    async def enqueue_from(self, sent: Sequence[SentJobs]) -> Sequence[bool]:
        batches = [prepare_batch(one, enqueue.new_job) for one in sent]
        return await self._transact(enqueue.enqueue_from, batches)

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        return await self._connections.settle.submit(
            list(map(settle.prepare_settlement, settlements))
        )

    async def succeed(self, successes: Sequence[SucceededAttempt]) -> Sequence[bool]:
        return await self.settle(list(map(settlement_of, successes)))

    async def renew(
        self, leases: Sequence[tuple[JobId, Token]], until: datetime
    ) -> Sequence[HeldLease | None]:
        return await self._transact(renew, leases, micros(until))

    async def abandoned_jobs(
        self, dead: Collection[WorkerId], now: datetime, limit: int
    ) -> Sequence[Job]:
        return await self._read(abandoned_jobs, dead, micros(now), limit)

    async def prune(self, *, finished_before: datetime, failed_before: datetime, limit: int) -> int:
        ages = micros(finished_before), micros(failed_before)
        return await self._transact(prune, "finished", *ages, limit)

    async def enqueue(
        self, jobs: Sequence[Job], keyed: KeyedRequest | None = None
    ) -> Sequence[Enqueued]:
        new = list(map(enqueue.new_job, jobs))
        if keyed is None:
            return await self._connections.enqueue.submit(new)
        if len(new) >= KEYED_JOBS_MAX:
            return await self._write(keyed, enqueue_in_one, new)
        return await self._enqueue_keyed(keyed, new)
