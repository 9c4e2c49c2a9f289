"""Claims due jobs for this process, as many as its transport has room for, and sends them on."""

import asyncio
from datetime import datetime

from onbeat.model.ids import WorkerId
from onbeat.model.limits import CLAIM_MAX
from onbeat.ports.clock import Clock
from onbeat.ports.store import ClaimRequest, DispatcherStore
from onbeat.ports.target import Lanes
from onbeat.ports.transport import Transport

# A long sleep is split, so that a clock step or a suspended machine is noticed within one piece.
LOOK_AGAIN_MAX = 1.0


class Dispatcher:
    def __init__(
        self,
        store: DispatcherStore,
        transport: Transport,
        clock: Clock,
        worker: WorkerId,
        lanes: Lanes,
        queues: tuple[str, ...] | None,
    ) -> None:
        self.store = store
        self.transport = transport
        self.clock = clock
        self.worker = worker
        self.lanes = lanes
        self.queues = queues
        self.claiming = asyncio.Lock()

    async def dispatch_due(self) -> tuple[int, datetime | None]:
        """Claim and send. Returns how many, and when the next job could be due."""
        async with self.claiming:
            return await self.claim_and_start()

    async def claim_and_start(self) -> tuple[int, datetime | None]:
        room = min(self.transport.free_slots(), CLAIM_MAX)
        if room == 0:
            return 0, None
        claimed = await self.store.claim(
            ClaimRequest(
                worker=self.worker,
                now=self.clock.now(),
                limit=room,
                lanes=self.lanes(),
                queues=self.queues,
            )
        )
        if claimed.jobs:
            await self.transport.send(claimed.jobs)
        return len(claimed.jobs), claimed.next_due_at

    async def step(self) -> float:
        """One round; returns the seconds until a job may be due."""
        count, next_due_at = await self.dispatch_due()
        if count > 0 and self.transport.free_slots() > 0:
            return 0.0
        return seconds_until(next_due_at, self.clock)


def seconds_until(due_at: datetime | None, clock: Clock, most: float = LOOK_AGAIN_MAX) -> float:
    """Seconds that an idle loop may sleep until `due_at`, at most `most`."""
    if due_at is None:
        return most
    return min(most, max(0.0, (due_at - clock.now()).total_seconds()))
