"""Watches queues for lateness."""

from typing import Final

from onbeat.ports.clock import Clock
from onbeat.ports.lateness import LatenessStore
from onbeat.rules.lateness import lateness_changes

LATENESS_PERIOD: Final = 5.0


class LatenessWatch:
    """Any number of processes may watch; each change is stored by one of them."""

    def __init__(self, store: LatenessStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock

    async def step(self) -> float:
        now = self.clock.now()
        changes = lateness_changes(await self.store.watched_queues(now), now)
        if changes:
            await self.store.note_lateness(changes, now)
        return LATENESS_PERIOD
