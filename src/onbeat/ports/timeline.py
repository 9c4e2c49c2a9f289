"""Runs of schedules within a span of time. The rules of `onbeat.ports.store` apply."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from onbeat.model.ids import ScheduleId
from onbeat.model.timeline import ForgottenRun, JobRun, RunCount, SkippedSpan


class TimelineStore(Protocol):
    async def runs_between(
        self, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
    ) -> Sequence[JobRun]:
        """Jobs of these schedules that are due from `first` to just before `last`.

        At most `limit` of each schedule: the latest, which come first. A schedule that was deleted
        has its jobs still.
        """
        ...

    async def run_counts(
        self,
        ids: Collection[ScheduleId],
        first: datetime,
        last: datetime,
        width: timedelta,
        limit: int,
    ) -> Sequence[RunCount]:
        """The same jobs, counted by state in spans of `width` from `first` on.

        At most `limit` live and `limit` ended jobs of each schedule are counted: the latest.
        """
        ...

    async def skips_between(
        self, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
    ) -> Sequence[SkippedSpan]:
        """Skips that overlap the time from `first` to `last`, both included.

        At most `limit` dispositions of each schedule are looked at: the latest.
        """
        ...

    async def forgotten_between(
        self, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
    ) -> Sequence[ForgottenRun]:
        """Occurrences from `first` to `last`, both included, whose jobs were deleted.

        At most `limit` dispositions of each schedule are looked at: the latest.
        """
        ...
