"""Deletes ended jobs that rules keep for less than others."""

from datetime import datetime, timedelta
from typing import Final, Protocol

from msgspec.structs import replace

from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.keep_rule import EndPlace, Keeping, Sweep, Swept
from onbeat.ports.clock import Clock
from onbeat.rules.keep_rules import sweeps

OVERLAP: Final = timedelta(minutes=5)
"""What ended so long before the last look is looked at again: its end may be stored late."""
NIL: Final = JobId("00000000-0000-0000-0000-000000000000")
LOOK_AGAIN: Final = timedelta(days=1)
"""All is looked at again: a copy or an import may have brought jobs that ended long ago."""


class SweepStore(Protocol):
    async def sweep(self, sweep: Sweep, limit: int) -> Swept:
        """See `PrunerStore.sweep`."""
        ...


class Sweeper:
    """Remembers how far each rule has been applied, so that no kept job is read each time."""

    def __init__(self, store: SweepStore, clock: Clock, keeping: Keeping) -> None:
        self.store = store
        self.clock = clock
        self.keeping = keeping
        self.places: dict[tuple[JobState, str | None], EndPlace] = {}
        self.began_at: datetime | None = None

    async def sweep(self, limit: int) -> tuple[int, bool]:
        """One step for each rule: examines up to `limit` jobs each.

        Returns how many were deleted, and whether a rule has more to examine.
        """
        now = self.clock.now()
        if self.began_at is None or now - self.began_at >= LOOK_AGAIN:
            self.began_at = now
            self.places.clear()
        deleted, has_more = 0, False
        for sweep in sweeps(self.keeping, now):
            key = (sweep.state, sweep.queue)
            swept = await self.store.sweep(replace(sweep, place=self.places.get(key)), limit)
            deleted += swept.deleted
            has_more = has_more or swept.place is not None
            self.places[key] = swept.place or (sweep.before - OVERLAP, NIL)
        return deleted, has_more
