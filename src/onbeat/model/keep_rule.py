"""How long ended jobs are kept."""

from datetime import datetime, timedelta

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import JobState


class KeepRule(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a queue and with a final state are kept for `after`; None stands for all."""

    after: timedelta
    queue: str | None = None
    state: JobState | None = None


class Keeping(msgspec.Struct, frozen=True, kw_only=True):
    """The first rule that a job meets counts; others are kept for `after` or `failed_after`."""

    after: timedelta
    failed_after: timedelta
    rules: tuple[KeepRule, ...] = ()


EndPlace = tuple[datetime, JobId]
"""A place in the order in which jobs ended."""


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """Ended jobs to delete: those of a state that ended before an instant.

    They are of `queue`, or of every queue but `others` where it is None. `place` is up to where
    they have been examined.
    """

    state: JobState
    before: datetime
    queue: str | None = None
    others: tuple[str, ...] = ()
    place: EndPlace | None = None

    def takes(self, queue: str) -> bool:
        return queue not in self.others if self.queue is None else queue == self.queue


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What one step of a sweep did; `place` is where to continue, None at the end."""

    deleted: int
    place: EndPlace | None = None
