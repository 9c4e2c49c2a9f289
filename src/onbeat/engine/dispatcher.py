"""Claims due jobs for this process, as many as its worker has room for, and starts them."""

import asyncio
from datetime import datetime

from onbeat.engine.worker import JobRunner
from onbeat.model.ids import WorkerId
from onbeat.model.limits import CLAIM_MAX
from onbeat.ports.clock import Clock
from onbeat.ports.store import ClaimRequest, DispatcherStore
from onbeat.ports.target import Lanes

# A long sleep is split, so that a clock step or a suspended machine is noticed within one piece.
LOOK_AGAIN_MAX = 1.0

ROUNDS_MAX = 16  # claims in a row, while each brings as many jobs as one may


class Dispatcher:
    def __init__(
        self,
        store: DispatcherStore,
        worker: JobRunner,
        clock: Clock,
        id: WorkerId,
        lanes: Lanes,
        queues: tuple[str, ...] | None,
    ) -> None:
        self.store = store
        self.worker = worker
        self.clock = clock
        self.id = id
        self.lanes = lanes
        self.queues = queues
        self.claiming = asyncio.Lock()

    async def dispatch_due(self) -> tuple[int, datetime | None]:
        """Claim and start. Returns how many, and when the next job could be due."""
        async with self.claiming:
            return await self.claim_and_start()

    async def claim_and_start(self) -> tuple[int, datetime | None]:
        """Where there is room for more than one claim, the next one is sent before the jobs run."""
        count, next_due_at = 0, None
        for _ in range(ROUNDS_MAX):
            room = min(self.worker.room_for_claim(), CLAIM_MAX)
            if room == 0:
                break
            claimed = await self.store.claim(
                ClaimRequest(
                    worker=self.id,
                    now=self.clock.now(),
                    limit=room,
                    lanes=self.lanes(),
                    queues=self.queues,
                )
            )
            if claimed.jobs:
                self.worker.accept(claimed.jobs)
            count, next_due_at = count + len(claimed.jobs), claimed.next_due_at
            if len(claimed.jobs) < room:
                break
        return count, next_due_at

    async def step(self) -> float:
        """One round; returns the seconds until a job may be due."""
        self.worker.return_surplus()
        count, next_due_at = await self.dispatch_due()
        if count > 0 and self.worker.room_for_claim() > 0:
            return 0.0
        return seconds_until(next_due_at, self.clock)


def seconds_until(due_at: datetime | None, clock: Clock, most: float = LOOK_AGAIN_MAX) -> float:
    """Seconds that an idle loop may sleep until `due_at`, at most `most`."""
    if due_at is None:
        return most
    return min(most, max(0.0, (due_at - clock.now()).total_seconds()))
