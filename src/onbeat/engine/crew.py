"""The workers that have the store at hand, as a dispatcher sees them."""

from typing import Final

from onbeat.model.worker import Worker, is_carried
from onbeat.ports.clock import Clock
from onbeat.ports.store import RescuerStore

CREW_PERIOD: Final = 0.5
ALONE_PERIOD: Final = 0.1  # while there is nobody: the first worker may find much that waits
IN_FLIGHT_PER_SLOT: Final = (
    4  # enough to keep a worker busy while word of what it has started comes
)
IN_FLIGHT_MIN: Final = 200
IN_FLIGHT_MAX: Final = 10_000


class Crew:
    """Looked up anew every half second; what one has once been able to run is remembered.

    While nobody is there the store is asked more often: jobs wait for the first who comes.
    """

    def __init__(self, store: RescuerStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.looked_at: float | None = None
        self.first_at: float | None = None
        self.count = 0
        self.slots = 0
        self.lanes: frozenset[str] = frozenset()
        self.ever: frozenset[str] = frozenset()

    async def look(self) -> None:
        """Ask the store, unless that was done just now."""
        now = self.clock.monotonic()
        if self.looked_at is not None and now - self.looked_at < self.period:
            return
        self.see([row for row in await self.store.workers() if not is_carried(row.id)])
        self.looked_at = now
        if self.first_at is None:
            self.first_at = now

    @property
    def period(self) -> float:
        return ALONE_PERIOD if self.count == 0 else CREW_PERIOD

    @property
    def age(self) -> float:
        """Seconds since the first look."""
        return 0.0 if self.first_at is None else self.clock.monotonic() - self.first_at

    def see(self, workers: list[Worker]) -> None:
        self.count = len(workers)
        self.slots = sum(worker.concurrency for worker in workers)
        self.lanes = frozenset(lane for worker in workers for lane in worker.lanes)
        self.ever |= self.lanes

    @property
    def room(self) -> int:
        """How many jobs may be on their way at once."""
        return min(IN_FLIGHT_MAX, max(IN_FLIGHT_MIN, self.slots * IN_FLIGHT_PER_SLOT))
