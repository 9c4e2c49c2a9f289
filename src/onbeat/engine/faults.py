"""Stores what failed, by fault, every few seconds: a storm of failures makes no hot row."""

from typing import Final

from onbeat.ports.faults import FaultStore
from onbeat.rules.fault_tally import FaultTally

FAULT_PERIOD: Final = 2.0


class FaultRecorder:
    """Counts of a process that is killed are lost, for these seconds; its jobs are not."""

    def __init__(self, store: FaultStore, tally: FaultTally) -> None:
        self.store = store
        self.tally = tally

    async def step(self) -> float:
        await self.flush()
        return FAULT_PERIOD

    async def flush(self) -> None:
        """Store what is pending. Where that fails it stays pending."""
        changes = self.tally.take()
        if not changes:
            return
        try:
            await self.store.note_faults(changes)
        except BaseException:
            for change in changes:
                self.tally.add(change)
            raise
