"""One load from its start to its figures."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import msgspec

from onbeat.app.backend import Backend
from onbeat.app.load.reader import ClockDifference, LoadReader, QueueCounts
from onbeat.app.load.sender import LoadSender
from onbeat.app.remote_backend import RemoteBackend
from onbeat.app.system import SystemClock, SystemRandomness
from onbeat.model.bulk import BulkAction
from onbeat.model.errors import Conflict, OnbeatError, Unavailable
from onbeat.model.load import LoadPlan
from onbeat.operations.tables.jobs import JOB_BULK
from onbeat.rules.load_tally import LoadEnds, LoadReport, LoadTally
from onbeat.rules.load_times import send_times
from onbeat.wire.bulks import BulkBody, JobWhere, MakeBulk
from onbeat.wire.load_marks import load_filter
from onbeat.wire.targets import TargetBody

SECOND = 1.0


class LoadProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in the last second; None where the service did not tell."""

    seconds: float
    sent: int
    ended: int | None
    waiting: int | None
    running: int | None
    errors: int


OnProgress = Callable[[LoadProgress], None]


class Load:
    """Sends the jobs of a plan, waits for their ends and reads them."""

    def __init__(self, backend: Backend, plan: LoadPlan, target: TargetBody) -> None:
        self.backend = backend
        self.plan = plan
        self.clock = SystemClock()
        self.tally = LoadTally()
        self.reader = LoadReader(backend, plan)
        times = send_times(plan, SystemRandomness().fraction)
        self.sender = LoadSender(backend, self.clock, plan, target, times, self.tally)
        self.counts: QueueCounts | None = None

    async def check(self) -> None:
        """Raises `Invalid` for a queue with other jobs, `Conflict` where nobody runs the task."""
        await self.reader.check_queue()
        if self.plan.patience and not await self.reader.is_served():
            raise Conflict(
                f"no live worker runs the task {self.plan.task} on queue {self.plan.queue}; start"
                " one, or give --wait 0s to measure sending alone"
            )

    async def run(self, stop: asyncio.Event, on_progress: OnProgress) -> LoadReport:
        """The figures, also where `stop` is set before all was sent or has ended.

        Raises what `check` raises, and `Unavailable` where nothing answers at all.
        """
        async with kept_connections(self.backend, self.plan.connections):
            await self.check()
            difference = await self.reader.clock_difference(self.clock)
            start = self.clock.now() + timedelta(seconds=difference.seconds)
            showing = asyncio.create_task(self.show_progress(on_progress))
            try:
                await self.sender.run(stop)
                is_read = await self.read(stop, start)
            finally:
                showing.cancel()
                await asyncio.gather(showing, return_exceptions=True)
            return self.report(start, difference, is_read=is_read, is_interrupted=stop.is_set())

    async def read(self, stop: asyncio.Event, start: datetime) -> bool:
        """Wait for the ends and count them; whether that was wanted and possible."""
        if not self.plan.patience:
            return False
        try:
            await self.reader.wait_for_ends(self.clock, stop, self.note_counts)
            await self.reader.read_ends(self.tally.ends, start)
        except Unavailable:
            # Half of the jobs would look as if the others were lost.
            self.tally.ends = LoadEnds()
            return False
        return True

    def note_counts(self, counts: QueueCounts) -> None:
        self.counts = counts

    def report(
        self, start: datetime, difference: ClockDifference, *, is_read: bool, is_interrupted: bool
    ) -> LoadReport:
        return self.tally.report(
            self.plan,
            start=start,
            clock_error=difference.error,
            is_read=is_read,
            is_interrupted=is_interrupted,
        )

    async def show_progress(self, on_progress: OnProgress) -> None:
        """Once a second, until it is cancelled."""
        sent = ended = 0
        began = self.clock.monotonic()
        while True:
            await asyncio.sleep(SECOND)
            counts = await self.current_counts()
            now_sent = self.tally.sent
            live = None if counts is None else counts.waiting + counts.running
            now_ended = ended if live is None else max(ended, now_sent - live)
            progress = LoadProgress(
                seconds=self.clock.monotonic() - began,
                sent=now_sent - sent,
                ended=None if live is None else now_ended - ended,
                waiting=None if counts is None else counts.waiting,
                running=None if counts is None else counts.running,
                errors=sum(self.tally.errors.values()),
            )
            on_progress(progress)
            sent, ended = now_sent, now_ended

    async def current_counts(self) -> QueueCounts | None:
        with contextlib.suppress(OnbeatError):
            return await self.reader.counts()
        return None

    async def cancel_rest(self) -> int:
        """Cancel the jobs of the load that still wait, in the background; answers their number."""
        where = JobWhere(label=load_filter(self.plan.run))
        answer = await self.backend.call(
            JOB_BULK, MakeBulk(BulkBody(do=BulkAction.CANCEL, where=where))
        )
        return answer.count


@asynccontextmanager
async def kept_connections(backend: Backend, number: int) -> AsyncGenerator[None]:
    """Connections that stay open, where the backend is a service."""
    if isinstance(backend, RemoteBackend):
        # One more reads the counts, however busy the others are.
        async with backend.client.measured(number + 1):
            yield
    else:
        yield
