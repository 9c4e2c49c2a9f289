"""Failures by fault, and dead letters by group. The rules of `onbeat.ports.store` apply."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from onbeat.model.fault import (
    DeadLetterHead,
    FaultChange,
    FaultJobs,
    FaultRecord,
    OperatorNote,
)
from onbeat.model.ids import DeadLetterId


class FaultStore(Protocol):
    async def note_faults(self, changes: Sequence[FaultChange]) -> None:
        """Add failed attempts to their faults, in order of their keys.

        Beyond `FAULTS_MAX` faults, new ones are counted as `model.fault.OTHER`.
        """
        ...

    async def faults(self) -> Sequence[FaultRecord]:
        """All faults, by key: at most `FAULTS_MAX` and the one for others."""
        ...

    async def fault(self, key: int) -> FaultRecord | None: ...

    async def silence_fault(self, key: int, until: datetime | None, note: str | None) -> bool:
        """Silence the fault until an instant; None ends that. False where it does not exist."""
        ...

    async def write_fault_note(self, key: int, note: OperatorNote | None) -> bool:
        """Replace the operator's note of the fault. False where the fault does not exist."""
        ...

    async def fault_jobs(self, keys: Collection[int], limit: int) -> Mapping[int, FaultJobs]:
        """How many jobs of these faults failed, and wait again; each counted up to `limit`."""
        ...

    async def prune_faults(self, before: datetime) -> int:
        """Delete faults that have not failed since `before`. Returns how many."""
        ...

    async def dead_letter_heads(
        self, before: DeadLetterId | None, limit: int
    ) -> Sequence[DeadLetterHead]:
        """Dead letters without their bodies, newest first, with an id below `before`."""
        ...
