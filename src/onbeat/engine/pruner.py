"""Deletes records whose retention period is over."""

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
        keep_audit: timedelta,
        keep_keys: timedelta,
    ) -> None:
        self.store = store
        self.clock = clock
        self.telemetry = telemetry
        self.keep = keep
        self.keep_failed = keep_failed
        self.keep_audit = keep_audit
        self.keep_keys = keep_keys

    async def prune_finished(self) -> int:
        """Delete one small batch of jobs, to block others only briefly. Returns how many."""
        now = self.clock.now()
        count = await self.store.prune(
            finished_before=now - self.keep,
            failed_before=now - self.keep_failed,
            limit=PRUNE_MAX,
        )
        if count:
            self.telemetry.pruned(count)
        return count

    async def prune_audit(self) -> int:
        """The same for audit records."""
        return await self.store.prune_audit(self.clock.now() - self.keep_audit, PRUNE_MAX)

    async def forget_requests(self) -> int:
        """The same for idempotency keys; returns how many were examined."""
        now = self.clock.now()
        return await self.store.forget_requests(
            before=now - self.keep_keys, now=now, limit=PRUNE_MAX
        )

    async def step(self) -> float:
        counts = (
            await self.prune_finished(),
            await self.prune_audit(),
            await self.forget_requests(),
        )
        return 0.0 if PRUNE_MAX in counts else PRUNE_PERIOD
