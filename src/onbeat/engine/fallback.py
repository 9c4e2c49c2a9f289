"""How jobs go on without the broker: who notices that it is away, and who claims meanwhile.

A worker that nobody can bring jobs to claims them from the store itself, as in a process without a
broker. The two ways may overlap: a job has one lease, whichever way it goes.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from onbeat.engine.dispatcher import Dispatcher
from onbeat.engine.receiver import take_on
from onbeat.engine.worker import Worker
from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.target import lane_of
from onbeat.model.worker import is_carried
from onbeat.ports.clock import Clock
from onbeat.ports.store import DispatcherStore, RenewerStore, RescuerStore, WorkerStore
from onbeat.ports.telemetry import Telemetry
from onbeat.ports.transport import Broker, Envelope
from onbeat.wire.work import NO_JOBS

PERIOD: Final = 1.0  # seconds between two looks
TROUBLED_PERIOD: Final = 0.5
ANSWER_SECONDS: Final = 1.5  # within which a broker that is there answers
PATIENCE: Final = 3.0  # seconds of trouble that are borne: a lost connection is back before
SILENCES_MIN: Final = 2  # one question without an answer may be this process's own fault


class BrokerWatch:
    """Whether jobs can go over the broker, as far as this process has seen.

    `is_away`: it has not answered for a while. `is_full`: it has taken no announcement for a while,
    whether it answers or not. `turned` is called when it becomes usable, and when it ceases to be.
    """

    def __init__(self, broker: Broker, clock: Clock, telemetry: Telemetry) -> None:
        self.broker = broker
        self.clock = clock
        self.telemetry = telemetry
        self.turned: Callable[[], None] = lambda: None
        self.is_away = False
        self.is_full = False
        self.asking: asyncio.Task[None] | None = None
        self.announcing: asyncio.Task[None] | None = None
        self.answered_at = clock.monotonic()
        self.silences = 0
        self.refused_at: float | None = None
        self.refused_queue = ""
        self.error: BaseException = Unavailable("the broker was not asked yet")

    @property
    def is_usable(self) -> bool:
        return not (self.is_away or self.is_full)

    async def step(self) -> float:
        """One look. While the broker cannot be used this does not end, so its loop is silent."""
        await self.look()
        while not self.is_usable:
            self.telemetry.loop_failed("broker", self.error)
            await asyncio.sleep(TROUBLED_PERIOD)
            await self.look()
        return PERIOD if self.silences == 0 else TROUBLED_PERIOD

    async def look(self) -> None:
        error = await self.trouble()
        if error is None:
            self.answered_at, self.silences = self.clock.monotonic(), 0
            self.judge(away=False, full=self.is_full)
            if self.is_full:
                await self.probe()
        else:
            self.error = error
            self.silences += 1
            silent = self.silences >= SILENCES_MIN and self.lasts(self.answered_at)
            self.judge(away=self.is_away or silent, full=self.is_full)

    async def trouble(self) -> BaseException | None:
        """What is wrong with the broker. A question without an answer is not asked once more."""
        self.asking = self.asking or asyncio.create_task(self.broker.ping())
        done, _ = await asyncio.wait({self.asking}, timeout=ANSWER_SECONDS)
        if not done:
            return Unavailable(f"{self.broker.url}: no answer within {ANSWER_SECONDS:g} s")
        self.asking = None
        return done.pop().exception()

    async def probe(self) -> None:
        """See whether it takes announcements again, by one that announces nothing."""
        try:
            await self.publish(
                self.refused_queue, [Envelope(body=NO_JOBS, id="no-jobs", fleeting=True)]
            )
        except Unavailable:
            return

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        """Announce jobs: the broker's verb, but within some seconds, and what comes of it counts.

        Raises `Unavailable`.
        """
        began = self.clock.monotonic()
        try:
            await self.taken(queue, envelopes)
        except Unavailable as error:
            self.refused(queue, began, error)
            raise
        self.refused_at = None
        self.judge(away=self.is_away, full=False)

    async def taken(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        """What takes longer goes on by itself: a slow broker would be asked the same for ever."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self.ended(self.announcing)
                self.announcing = asyncio.create_task(self.broker.publish(queue, envelopes))
                error = await self.ended(self.announcing)
        except TimeoutError as late:
            said = f"{self.broker.url}: {queue} took nothing within {PATIENCE:g} s"
            raise Unavailable(said) from late
        if error is not None:
            raise error

    async def ended(self, task: asyncio.Task[None] | None) -> BaseException | None:
        if task is None:
            return None
        await asyncio.wait({task})
        return task.exception()

    def refused(self, queue: str, began: float, error: Exception) -> None:
        self.error, self.refused_queue = error, queue
        self.refused_at = began if self.refused_at is None else self.refused_at
        self.judge(away=self.is_away, full=self.is_full or self.lasts(self.refused_at))

    def lasts(self, since: float) -> bool:
        return self.clock.monotonic() - since >= PATIENCE

    def judge(self, *, away: bool, full: bool) -> None:
        was_usable = self.is_usable
        self.is_away, self.is_full = away, full
        if self.is_usable is not was_usable:
            self.turned()

    async def stop(self) -> None:
        under_way = [task for task in (self.asking, self.announcing) if task is not None]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


class FallbackStore(DispatcherStore, WorkerStore, RenewerStore, RescuerStore, Protocol):
    """What a fall-back asks of the store."""


class Fallback:
    """Claims for this process's worker while jobs cannot come to it over the broker.

    That is while the broker is away as seen from here, or every carrier's row says that it can
    announce nothing.
    """

    def __init__(
        self,
        store: FallbackStore,
        clock: Clock,
        watch: BrokerWatch,
        worker: Worker,
        dispatcher: Dispatcher,
    ) -> None:
        self.store = store
        self.clock = clock
        self.watch = watch
        self.worker = worker
        self.dispatcher = dispatcher
        self.is_needed = False
        self.looked_at = -math.inf
        self.foreign: set[JobId] = set()

    async def step(self) -> float:
        """One round; the answer is the seconds until there may be something to do."""
        if self.worker.capacity() == 0:
            return PERIOD
        now = self.clock.monotonic()
        if now - self.looked_at >= PERIOD:
            await self.look()
            self.looked_at = now
        if not self.is_needed:
            return PERIOD
        return min(PERIOD, await self.dispatcher.step())

    def look_soon(self) -> None:
        self.looked_at = -math.inf

    async def look(self) -> None:
        """Judge whether this is needed, and take on what carriers hold and cannot bring here."""
        rows = await self.store.workers()
        carriers = [row for row in rows if is_carried(row.id)]
        stuck = bool(carriers) and all(row.queues == () for row in carriers)
        self.is_needed = self.watch.is_away or stuck
        if self.watch.is_away:
            await self.take_over([row.id for row in carriers])

    async def take_over(self, carriers: Sequence[WorkerId]) -> None:
        """Start what these hold: they may still reach the broker, and bring jobs to others only."""
        held = [lease for carrier in carriers for lease in await self.store.held(carrier)]
        self.foreign &= {lease.job_id for lease in held}
        fresh = [lease for lease in held if lease.job_id not in self.foreign]
        leases: list[tuple[JobId, Token]] = []
        for lease in fresh[: self.worker.capacity()]:
            job = await self.store.job(lease.job_id)
            if job is None or not self.can_run(job):
                self.foreign.add(lease.job_id)
            else:
                leases.append((lease.job_id, lease.token))
        if leases:
            async with self.dispatcher.claiming:
                now = self.clock.now()
                jobs = await self.store.start(self.dispatcher.worker, leases, now)
                take_on(self.worker, [job for job in jobs if job is not None])

    def can_run(self, job: Job) -> bool:
        queues = self.dispatcher.queues
        return lane_of(job.target) in self.dispatcher.lanes() and (
            queues is None or job.queue in queues
        )
