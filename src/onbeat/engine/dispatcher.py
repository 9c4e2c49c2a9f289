"""Claims due jobs for this process, as many as its worker has room for, and starts them."""

import asyncio
from datetime import datetime
from typing import NamedTuple

from onbeat.engine.worker import JobRunner
from onbeat.model.ids import WorkerId
from onbeat.model.limits import CLAIM_MAX
from onbeat.ports.clock import Clock
from onbeat.ports.store import Claimed, ClaimRequest, DispatcherStore
from onbeat.ports.target import Lanes

# A long sleep is split, so that a clock step or a suspended machine is noticed within one piece.
LOOK_AGAIN_MAX = 1.0

ROUNDS_MAX = 16  # claims in a row, while each brings as many jobs as one may


class SentClaim(NamedTuple):
    limit: int
    sent_at: float
    answer: "asyncio.Future[Claimed]"


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
        self.has_left = True
        """Whether due jobs may be left: the last claim was filled, or there was no room for one."""

    async def dispatch_due(self) -> tuple[int, datetime | None]:
        """Claim and start. Returns how many, and when the next job could be due."""
        async with self.claiming:
            return await self.claim_and_start()

    async def claim_and_start(self) -> tuple[int, datetime | None]:
        """Claim until a claim is not filled, or there is no room for another.

        The next claim is sent before the jobs of the last one are read and run, so that the store
        works meanwhile.
        """
        count, next_due_at, self.has_left = 0, None, True
        claim = self.send_claim()
        try:
            for number in range(1, ROUNDS_MAX + 1):
                if claim is None:
                    break
                claimed, sent_at = await claim.answer, claim.sent_at
                taken = len(claimed.jobs)
                self.has_left = taken >= claim.limit
                is_last = not self.has_left or number == ROUNDS_MAX
                claim = None if is_last else self.send_claim(coming=taken)
                if claim is not None:
                    await asyncio.sleep(0)  # its task begins in this turn of the loop
                if taken:
                    self.worker.guard.on_claimed(sent_at)
                    self.worker.accept(claimed.jobs)
                count, next_due_at = count + taken, claimed.next_due_at
        finally:
            if claim is not None:
                claim.answer.cancel()
        return count, next_due_at

    def send_claim(self, coming: int = 0) -> SentClaim | None:
        """Claim what there is room for beside the `coming` jobs; None where there is none."""
        limit = min(self.worker.room_for_claim(coming), CLAIM_MAX)
        if limit == 0:
            return None
        request = ClaimRequest(
            worker=self.id,
            now=self.clock.now(),
            limit=limit,
            lanes=self.lanes(),
            queues=self.queues,
        )
        sent_at = self.clock.monotonic()
        return SentClaim(limit, sent_at, asyncio.ensure_future(self.store.claim(request)))

    async def step(self) -> float:
        """One round; returns the seconds until a job may be due."""
        self.worker.return_surplus()
        count, next_due_at = await self.dispatch_due()
        if count > 0 and self.may_find_more and self.worker.room_for_claim() > 0:
            return 0.0
        return seconds_until(next_due_at, self.clock)

    @property
    def may_find_more(self) -> bool:
        """Whether another claim is useful before a hint comes, or the next job is due."""
        return self.has_left or not self.store.hints_at_once


def seconds_until(due_at: datetime | None, clock: Clock, most: float = LOOK_AGAIN_MAX) -> float:
    """Seconds that an idle loop may sleep until `due_at`, at most `most`."""
    if due_at is None:
        return most
    return min(most, max(0.0, (due_at - clock.now()).total_seconds()))
