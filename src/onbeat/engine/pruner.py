"""Deletes records whose retention period is over."""

from datetime import timedelta

from onbeat.engine.sweeper import Sweeper
from onbeat.model.job import JobState
from onbeat.model.keep_rule import Keeping
from onbeat.model.limits import PRUNE_MAX
from onbeat.ports.clock import Clock
from onbeat.ports.store import PrunerStore
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.keep_rules import longest

PRUNE_PERIOD = 60.0
FAULTS_KEPT = timedelta(days=30)
"""After the last failure of a fault."""


class Pruner:
    def __init__(
        self,
        store: PrunerStore,
        clock: Clock,
        telemetry: Telemetry,
        *,
        keeping: Keeping,
        keep_audit: timedelta,
        keep_keys: timedelta,
        keep_events: timedelta,
    ) -> None:
        self.store = store
        self.clock = clock
        self.telemetry = telemetry
        self.keep_failed = keeping.failed_after
        self.sweeper = Sweeper(store, clock, keeping)
        self.longest = longest(keeping, JobState.SUCCEEDED, JobState.CANCELLED)
        self.longest_failed = longest(keeping, JobState.FAILED)
        self.keep_audit = keep_audit
        self.keep_keys = keep_keys
        self.keep_events = keep_events

    async def prune_finished(self) -> int:
        """Delete one small batch of jobs, to block others only briefly. Returns how many."""
        now = self.clock.now()
        count = await self.store.prune(
            finished_before=now - self.longest,
            failed_before=now - self.longest_failed,
            limit=PRUNE_MAX,
        )
        if count:
            self.telemetry.pruned(count)
        return count

    async def sweep(self) -> bool:
        """Delete what rules keep for less than others. Returns whether there is more to look at."""
        deleted, has_more = await self.sweeper.sweep(PRUNE_MAX)
        if deleted:
            self.telemetry.pruned(deleted)
        return has_more

    async def prune_audit(self) -> int:
        """The same for audit records."""
        return await self.store.prune_audit(self.clock.now() - self.keep_audit, PRUNE_MAX)

    async def forget_requests(self) -> int:
        """The same for idempotency keys; returns how many were examined."""
        now = self.clock.now()
        return await self.store.forget_requests(
            before=now - self.keep_keys, now=now, limit=PRUNE_MAX
        )

    async def prune_events(self) -> int:
        """The same for events without stored jobs; returns how many were examined."""
        return await self.store.prune_events(self.clock.now() - self.keep_events, PRUNE_MAX)

    async def prune_faults(self) -> int:
        """Delete faults that are past; they are few."""
        return await self.store.prune_faults(self.clock.now() - FAULTS_KEPT)

    async def prune_held_keys(self) -> int:
        """The same for unique keys that ended jobs hold no longer."""
        return await self.store.prune_held_keys(self.clock.now(), PRUNE_MAX)

    async def prune_bulks(self) -> int:
        """The same for bulks, which are kept as long as failed jobs."""
        return await self.store.prune_bulks(self.clock.now() - self.keep_failed, PRUNE_MAX)

    async def step(self) -> float:
        counts = (
            await self.prune_finished(),
            await self.prune_audit(),
            await self.forget_requests(),
            await self.prune_events(),
            await self.prune_held_keys(),
            await self.prune_bulks(),
        )
        has_more = await self.sweep()
        await self.prune_faults()
        return 0.0 if has_more or max(counts) >= PRUNE_MAX else PRUNE_PERIOD
