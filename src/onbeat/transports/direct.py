"""The default transport, within one event loop and without a broker."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from onbeat.model.job import Job


class DirectTransport:
    """Hands jobs over within one event loop; `capacity` returns how many the worker can take."""

    def __init__(self, capacity: Callable[[], int]) -> None:
        self.capacity = capacity
        self.in_flight: deque[Job] = deque()
        self.arrived = asyncio.Event()

    def free_slots(self) -> int:
        return max(0, self.capacity() - len(self.in_flight))

    async def send(self, jobs: Sequence[Job]) -> None:
        self.in_flight.extend(jobs)
        self.arrived.set()

    async def receive(self) -> Sequence[Job]:
        await self.arrived.wait()
        self.arrived.clear()
        jobs = tuple(self.in_flight)
        self.in_flight.clear()
        return jobs
