"""A queue: a named line of jobs, and what it may give out."""

from datetime import datetime, timedelta

import msgspec


class Rate(msgspec.Struct, frozen=True):
    """So many starts in a span of time, evenly refilled; as many may come at once."""

    count: int
    span: timedelta


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a queue may give out, over all workers; None where it is not limited.

    `concurrency` bounds the jobs that run at once, `rate` the starts. Those of a group hold for
    each group of the queue by itself; jobs without a group are not in any. With `fair` the groups
    take turns within a priority, and jobs without a group do so as if they had one in common.
    """

    concurrency: int | None = None
    rate: Rate | None = None
    group_concurrency: int | None = None
    group_rate: Rate | None = None
    fair: bool = False

    @property
    def by_group(self) -> bool:
        """Whether a claim has to tell the groups apart."""
        return self.fair or self.group_concurrency is not None or self.group_rate is not None


NO_LIMITS = Limits()


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it stands now. `oldest_due_at` is the due time of its longest-waiting due job."""

    name: str
    paused: bool = False
    limits: Limits = NO_LIMITS
    waiting: int = 0
    due: int = 0
    running: int = 0
    oldest_due_at: datetime | None = None
