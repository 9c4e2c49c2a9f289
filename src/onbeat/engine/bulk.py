"""Runs bulks, chunk by chunk."""

from datetime import datetime
from typing import Final

from onbeat.model.bulk import Bulk
from onbeat.model.errors import Conflict
from onbeat.model.limits import BULK_CHUNK
from onbeat.model.live import LiveEvent
from onbeat.ports.bulks import BulkStore
from onbeat.ports.clock import Clock
from onbeat.rules.live_feed import LiveFeed

BULK_PERIOD: Final = 1.0


class BulkRunner:
    """Any number of processes may run the same bulks: each chunk is done by one of them.

    `live` is told how far they are, and that jobs of the past were changed.
    """

    def __init__(self, store: BulkStore, clock: Clock, live: LiveFeed | None = None) -> None:
        self.store = store
        self.clock = clock
        self.live = LiveFeed() if live is None else live
        self.limit = BULK_CHUNK

    async def step(self) -> float:
        """One chunk of the bulk that is due first; returns the seconds until the next."""
        bulk, now = await self.store.next_bulk(), self.clock.now()
        if bulk is None or bulk.next_at is None:
            return BULK_PERIOD
        if bulk.next_at > now:
            return min(BULK_PERIOD, (bulk.next_at - now).total_seconds())
        await self.run(bulk)
        return 0.0

    async def run(self, bulk: Bulk) -> None:
        """One job that cannot be changed, since another has its key, would stop its whole chunk.

        So the chunk is halved until it is that job alone, which is then left out.
        """
        now = self.clock.now()
        try:
            moved = await self.store.run_bulk(bulk.id, now, self.limit)
        except Conflict:
            if self.limit == 1:
                moved = await self.store.run_bulk(bulk.id, now, 1, skip=True)
                self.tell(bulk, moved, now)
            self.limit = max(1, self.limit // 2)
        else:
            self.tell(bulk, moved, now)
            self.limit = min(BULK_CHUNK, self.limit * 2)
        finally:
            self.live.on_past(None)

    def tell(self, before: Bulk, moved: Bulk | None, now: datetime) -> None:
        """Of the jobs another process may have told some."""
        if moved is None or moved == before:
            return
        jobs, done = max(0, moved.done - before.done), moved.done
        self.live.note(
            LiveEvent(kind="bulk", id=moved.id, at=now, to=moved.state, jobs=jobs, done=done)
        )
