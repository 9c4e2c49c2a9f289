"""The way within one event loop: the default, without any broker."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from onbeat.model.job import Job


class DirectTransport:
    """Hands jobs over within one event loop; `capacity` says how many the worker can take."""

    def __init__(self, capacity: Callable[[], int]) -> None:
        self.capacity = capacity
        self.under_way: deque[Job] = deque()
        self.arrived = asyncio.Event()

    def room(self) -> int:
        return max(0, self.capacity() - len(self.under_way))

    async def send(self, jobs: Sequence[Job]) -> None:
        self.under_way.extend(jobs)
        self.arrived.set()

    async def receive(self) -> Sequence[Job]:
        await self.arrived.wait()
        self.arrived.clear()
        jobs = tuple(self.under_way)
        self.under_way.clear()
        return jobs
