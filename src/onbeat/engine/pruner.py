"""Deletes what has been kept long enough."""

from datetime import timedelta

from onbeat.model.limits import PRUNE_MAX
from onbeat.ports.clock import Clock
from onbeat.ports.store import PrunerStore
from onbeat.ports.telemetry import Telemetry

PRUNE_PERIOD = 60.0


class Pruner:
    def __init__(
        self,
        store: PrunerStore,
        clock: Clock,
        telemetry: Telemetry,
        *,
        keep: timedelta,
        keep_failed: timedelta,
    ) -> None:
        self.store = store
        self.clock = clock
        self.telemetry = telemetry
        self.keep = keep
        self.keep_failed = keep_failed

    async def prune_finished(self) -> int:
        """Delete one small batch, so that nobody waits long for it. Returns how many jobs went."""
        now = self.clock.now()
        count = await self.store.prune(
            finished_before=now - self.keep,
            failed_before=now - self.keep_failed,
            limit=PRUNE_MAX,
        )
        if count:
            self.telemetry.pruned(count)
        return count

    async def step(self) -> float:
        return 0.0 if await self.prune_finished() == PRUNE_MAX else PRUNE_PERIOD
