"""When a claimant takes one job by its id, in place of a look through all ready lists.

The look takes a server about as long again as the change of the row. An idle claimant that hears of
a single new job needs none: it has seen shortly before that nothing else was due.
"""

from collections.abc import Hashable
from datetime import datetime
from typing import Final

import msgspec

from onbeat.model.ids import JobId

LOOK_SECONDS: Final = 1.0  # a look is good for so long: hints can be lost


class LastLook(msgspec.Struct, frozen=True):
    """A look at all ready lists of `scope` that has left no due job.

    It began at `at`, in seconds of a monotonic clock. The next job is due at `next_due_at`.
    """

    scope: Hashable
    at: float
    next_due_at: datetime | None

    def is_good(self, scope: Hashable, at: float, now: datetime) -> bool:
        """Whether it still tells that there are no due jobs, but for those announced since."""
        return (
            scope == self.scope
            and at - self.at < LOOK_SECONDS
            and (self.next_due_at is None or now < self.next_due_at)
        )


class Announcements:
    """What was announced since somebody asked: nothing, a single new job, or more than that.

    Threads may share it: who announces wakes a claimant afterwards, and one that finds nothing here
    looks at all ready lists.
    """

    __slots__ = ("is_more", "job")

    def __init__(self) -> None:
        self.job: JobId | None = None
        self.is_more = False

    def note(self, job: JobId | None) -> None:
        """A new job, or None for anything else that may have made jobs due."""
        if job is None or self.job not in (None, job):
            self.is_more = True
        self.job = job

    def take(self) -> JobId | None:
        """The job that was announced since the last call, if that was all."""
        job = None if self.is_more else self.job
        self.job, self.is_more = None, False
        return job
