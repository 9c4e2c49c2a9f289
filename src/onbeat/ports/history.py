"""The history of rates and depths. The rules of `onbeat.ports.store` apply."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from onbeat.model.pulse import EndedCounts, Gauges, Pulse


class HistoryStore(Protocol):
    async def put_pulses(self, pulses: Sequence[Pulse]) -> int:
        """Store rows; one that is stored already, by resolution, `at` and source, stays.

        Returns how many were new.
        """
        ...

    async def pulses(
        self, resolution: int, first: datetime, last: datetime, limit: int, *, series: bool = True
    ) -> Sequence[Pulse]:
        """The newest rows from `first` on and before `last`, newest first.

        Without `series` these are left out.
        """
        ...

    async def oldest_history(self, resolution: int) -> datetime | None:
        """The `at` of the oldest row of this resolution, of pulses or of samples."""
        ...

    async def fold_history(
        self,
        resolution: int,
        first: datetime,
        last: datetime,
        pulses: Sequence[Pulse],
        samples: Sequence[tuple[int, Gauges]],
    ) -> int:
        """Replace the rows of `resolution` from `first` on and before `last` by these.

        One that is stored already stays, so of several that fold the same rows the first wins.
        Returns how many rows were deleted.
        """
        ...

    async def put_sample(self, resolution: int, sample: Gauges) -> bool:
        """Store a sample of depths; False where its `resolution` seconds have one."""
        ...

    async def samples(
        self, resolution: int, first: datetime, last: datetime, limit: int, *, queues: bool = True
    ) -> Sequence[Gauges]:
        """The newest samples from `first` on and before `last`, newest first.

        Without `queues` they have their instant, their duration and their total only.
        """
        ...

    async def newest_sample(self, resolution: int) -> Gauges | None: ...

    async def count_depths(self, now: datetime, queues_max: int) -> Gauges:
        """A new sample, without ended jobs; it is not stored. All live jobs are counted.

        It has at most so many queues, the deepest ones.
        """
        ...

    async def count_ended(self, now: datetime) -> EndedCounts:
        """Ended jobs by state. Reads all of them, or an index."""
        ...
