"""The workers with access to the store, as a dispatcher sees them."""

from typing import Final

from onbeat.model.worker import WorkerRecord, is_carried
from onbeat.ports.clock import Clock
from onbeat.ports.store import RescuerStore

FLEET_PERIOD: Final = 0.5
ALONE_PERIOD: Final = 0.1  # while there are no workers: the first one may find many waiting jobs
IN_FLIGHT_PER_SLOT: Final = (
    4  # enough to keep a worker busy until the dispatcher sees what it has started
)
IN_FLIGHT_MIN: Final = 200
IN_FLIGHT_MAX: Final = 10_000


class FleetView:
    """Reads the workers every half second, and remembers every lane that one has ever served.

    Reads more often while there are no workers, as jobs wait for the first one.
    """

    def __init__(self, store: RescuerStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.refreshed_at: float | None = None
        self.first_refreshed_at: float | None = None
        self.count = 0
        self.slots = 0
        self.lanes: frozenset[str] = frozenset()
        self.ever_seen: frozenset[str] = frozenset()

    async def refresh(self) -> None:
        """Read the workers from the store, unless that was done just now."""
        now = self.clock.monotonic()
        if self.refreshed_at is not None and now - self.refreshed_at < self.period:
            return
        self.update([row for row in await self.store.workers() if not is_carried(row.id)])
        self.refreshed_at = now
        if self.first_refreshed_at is None:
            self.first_refreshed_at = now

    @property
    def period(self) -> float:
        return ALONE_PERIOD if self.count == 0 else FLEET_PERIOD

    @property
    def age(self) -> float:
        """Seconds since the first read."""
        return (
            0.0
            if self.first_refreshed_at is None
            else self.clock.monotonic() - self.first_refreshed_at
        )

    def update(self, workers: list[WorkerRecord]) -> None:
        self.count = len(workers)
        self.slots = sum(worker.concurrency for worker in workers)
        self.lanes = frozenset(lane for worker in workers for lane in worker.lanes)
        self.ever_seen |= self.lanes

    @property
    def free_slots(self) -> int:
        """How many jobs may be in flight at once."""
        return min(IN_FLIGHT_MAX, max(IN_FLIGHT_MIN, self.slots * IN_FLIGHT_PER_SLOT))
