"""Sends the jobs of a load at their times, whatever the service needs to answer."""

import asyncio
from collections.abc import Iterator

from onbeat.app.backend import Backend
from onbeat.model.errors import OnbeatError
from onbeat.model.load import LoadPlan
from onbeat.operations.tables.jobs import JOB_ENQUEUE
from onbeat.ports.clock import Clock
from onbeat.rules.load_tally import LoadTally
from onbeat.wire.errors import status_of
from onbeat.wire.load_marks import load_body
from onbeat.wire.requests import Enqueue
from onbeat.wire.targets import TargetBody

ERROR_CHARS = 200


class LoadSender:
    """An open loop: the time of a request does not depend on the answers before it.

    Where all connections are in use a request is late, and its latency counts from its time. So a
    service that stalls shows in the latency of all requests that were to be sent meanwhile.
    """

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        plan: LoadPlan,
        target: TargetBody,
        times: Iterator[float],
        tally: LoadTally,
    ) -> None:
        self.backend = backend
        self.clock = clock
        self.plan = plan
        self.target = target
        self.times = times
        self.tally = tally
        self.start = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Send until the times are over, or until `stop` is set, and wait for the answers."""
        self.start = self.clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(self.plan.connections):
                group.create_task(self.send_in_turn(stop))

    async def send_in_turn(self, stop: asyncio.Event) -> None:
        """One connection: whichever is free takes the next time."""
        for after in self.times:
            await self.wait_until(after, stop)
            if stop.is_set():
                return
            await self.send_one(after)

    async def wait_until(self, after: float, stop: asyncio.Event) -> None:
        left = after - self.passed()
        if left <= 0:
            # Other connections and the interrupt go on, also where this one is always late.
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(left):
                await stop.wait()
        except TimeoutError:
            return

    async def send_one(self, after: float) -> None:
        body = load_body(self.plan.run, after, self.plan.queue, self.target)
        self.tally.offer(self.passed() - after)
        try:
            await self.backend.call(JOB_ENQUEUE, Enqueue(body))
        except OnbeatError as error:
            self.tally.refuse(kind_of(error), self.passed())
        else:
            at = self.passed()
            self.tally.accept(at - after, at)

    def passed(self) -> float:
        """Seconds since the start."""
        return self.clock.monotonic() - self.start


def kind_of(error: OnbeatError) -> str:
    """Errors that are alike have the same text."""
    return f"{status_of(error).code}: {' '.join(str(error).split())}"[:ERROR_CHARS]
