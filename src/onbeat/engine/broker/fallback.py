"""Detects a broker that is unavailable, and claims jobs from the store in the meantime.

A worker that cannot receive jobs over the broker claims them from the store itself, as in a process
without a broker. Both ways may overlap, since a job has one lease at a time.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from onbeat.engine.broker.job_consumer import start_carried
from onbeat.engine.dispatcher import Dispatcher
from onbeat.engine.loop import cancel_all
from onbeat.engine.worker import JobRunner
from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.target import lane_of
from onbeat.model.worker import is_carried
from onbeat.ports.clock import Clock
from onbeat.ports.store import DispatcherStore, HeartbeatStore, RescuerStore, WorkerStore
from onbeat.ports.telemetry import Telemetry
from onbeat.ports.transport import Broker, Envelope
from onbeat.wire.broker_messages import NO_JOBS

PERIOD: Final = 1.0  # seconds between two checks
TROUBLED_PERIOD: Final = 0.5
ANSWER_SECONDS: Final = 1.5  # time limit for the answer to a ping
PATIENCE: Final = 3.0  # seconds of trouble that are tolerated: reconnecting takes less
SILENCES_MIN: Final = 2  # a single unanswered ping may be this process's own fault


class BrokerWatch:
    """Whether this process can send jobs over the broker.

    `is_away`: the broker has not answered for a while. `is_full`: it has accepted no announcement
    for a while, even if it answers. `on_change` is called when the broker becomes usable or
    unusable.
    """

    def __init__(
        self, broker: Broker, clock: Clock, telemetry: Telemetry, on_change: Callable[[], None]
    ) -> None:
        self.broker = broker
        self.clock = clock
        self.telemetry = telemetry
        self.on_change = on_change
        self.is_away = False
        self.is_full = False
        self.ping_task: asyncio.Task[None] | None = None
        self.publish_task: asyncio.Task[None] | None = None
        self.answered_at = clock.monotonic()
        self.failed_pings = 0
        self.refused_at: float | None = None
        self.refused_queue = ""
        self.error: BaseException = Unavailable("the broker was not asked yet")

    @property
    def is_usable(self) -> bool:
        return not (self.is_away or self.is_full)

    async def step(self) -> float:
        """One check. Does not return while the broker is unusable, so its loop counts as silent."""
        await self.check()
        while not self.is_usable:
            self.telemetry.loop_failed("broker", self.error)
            await asyncio.sleep(TROUBLED_PERIOD)
            await self.check()
        return PERIOD if self.failed_pings == 0 else TROUBLED_PERIOD

    async def check(self) -> None:
        error = await self.find_trouble()
        if error is None:
            self.answered_at, self.failed_pings = self.clock.monotonic(), 0
            self.update(away=False, full=self.is_full)
            if self.is_full:
                await self.probe()
        else:
            self.error = error
            self.failed_pings += 1
            silent = self.failed_pings >= SILENCES_MIN and self.lasts(self.answered_at)
            self.update(away=self.is_away or silent, full=self.is_full)

    async def find_trouble(self) -> BaseException | None:
        """What is wrong with the broker. A ping that is still unanswered is not sent again."""
        self.ping_task = self.ping_task or asyncio.create_task(self.broker.ping())
        done, _ = await asyncio.wait({self.ping_task}, timeout=ANSWER_SECONDS)
        if not done:
            return Unavailable(f"{self.broker.url}: no answer within {ANSWER_SECONDS:g} s")
        self.ping_task = None
        return done.pop().exception()

    async def probe(self) -> None:
        """Publish an announcement without jobs to see whether the broker accepts them again."""
        try:
            await self.publish(
                self.refused_queue, [Envelope(body=NO_JOBS, id="no-jobs", fleeting=True)]
            )
        except Unavailable:
            return

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        """Publish announcements within a time limit, and note whether the broker accepted them.

        Raises `Unavailable`.
        """
        began = self.clock.monotonic()
        try:
            await self.publish_in_time(queue, envelopes)
        except Unavailable as error:
            self.note_refusal(queue, began, error)
            raise
        self.refused_at = None
        self.update(away=self.is_away, full=False)

    async def publish_in_time(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        """A publish that takes longer continues in the background, so that it is not repeated."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self.wait_for_end(self.publish_task)
                self.publish_task = asyncio.create_task(self.broker.publish(queue, envelopes))
                error = await self.wait_for_end(self.publish_task)
        except TimeoutError as late:
            message = f"{self.broker.url}: {queue} took nothing within {PATIENCE:g} s"
            raise Unavailable(message) from late
        if error is not None:
            raise error

    async def wait_for_end(self, task: asyncio.Task[None] | None) -> BaseException | None:
        if task is None:
            return None
        await asyncio.wait({task})
        return task.exception()

    def note_refusal(self, queue: str, began: float, error: Exception) -> None:
        self.error, self.refused_queue = error, queue
        self.refused_at = began if self.refused_at is None else self.refused_at
        self.update(away=self.is_away, full=self.is_full or self.lasts(self.refused_at))

    def lasts(self, since: float) -> bool:
        return self.clock.monotonic() - since >= PATIENCE

    def update(self, *, away: bool, full: bool) -> None:
        was_usable = self.is_usable
        self.is_away, self.is_full = away, full
        if self.is_usable is not was_usable:
            self.on_change()

    async def stop(self) -> None:
        tasks = (self.ping_task, self.publish_task)
        await cancel_all([task for task in tasks if task is not None])


class FallbackStore(DispatcherStore, WorkerStore, HeartbeatStore, RescuerStore, Protocol):
    """The store operations that the fallback needs."""


class Fallback:
    """Claims for this process's worker while the broker cannot bring it jobs.

    That is while this process sees the broker as unavailable, or every carrier's row says that the
    carrier cannot announce.
    """

    def __init__(
        self,
        store: FallbackStore,
        clock: Clock,
        watch: BrokerWatch,
        worker: JobRunner,
        dispatcher: Dispatcher,
    ) -> None:
        self.store = store
        self.clock = clock
        self.watch = watch
        self.worker = worker
        self.dispatcher = dispatcher
        self.is_needed = False
        self.reassessed_at = -math.inf
        self.foreign: set[JobId] = set()

    async def step(self) -> float:
        """One round; returns the seconds until the next one is useful."""
        if self.worker.capacity() == 0:
            return PERIOD
        now = self.clock.monotonic()
        if now - self.reassessed_at >= PERIOD:
            await self.reassess()
            self.reassessed_at = now
        if not self.is_needed:
            return PERIOD
        return min(PERIOD, await self.dispatcher.step())

    def reassess_soon(self) -> None:
        self.reassessed_at = -math.inf

    async def reassess(self) -> None:
        """Decide whether the fallback is needed, and take over jobs that carriers hold."""
        rows = await self.store.workers()
        carriers = [row for row in rows if is_carried(row.id)]
        stuck = bool(carriers) and all(row.queues == () for row in carriers)
        self.is_needed = self.watch.is_away or stuck
        if self.watch.is_away:
            await self.take_over([row.id for row in carriers])

    async def take_over(self, carriers: Sequence[WorkerId]) -> None:
        """Start jobs of these carriers: they may still reach the broker, but not this worker."""
        held = [lease for carrier in carriers for lease in await self.store.held_leases(carrier)]
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
                await start_carried(self.store, self.worker, self.dispatcher.id, leases, self.clock)

    def can_run(self, job: Job) -> bool:
        queues = self.dispatcher.queues
        return lane_of(job.target) in self.dispatcher.lanes() and (
            queues is None or job.queue in queues
        )
