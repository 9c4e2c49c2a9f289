"""A queue: a named line of jobs, with limits on how many run and start."""

from datetime import datetime, timedelta

import msgspec


class Rate(msgspec.Struct, frozen=True):
    """A number of starts in a span of time, refilled evenly; the burst is `count`."""

    count: int
    span: timedelta


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of a queue over all workers; None means no limit.

    `concurrency` bounds the running jobs, `rate` the starts. The group limits hold for each group
    of the queue separately; jobs without a group are in no group. With `fair` the groups take turns
    within a priority, and jobs without a group share one turn.
    """

    concurrency: int | None = None
    rate: Rate | None = None
    group_concurrency: int | None = None
    group_rate: Rate | None = None
    fair: bool = False

    @property
    def by_group(self) -> bool:
        """Whether a claim has to distinguish groups."""
        return self.fair or self.group_concurrency is not None or self.group_rate is not None


NO_LIMITS = Limits()


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with its current counts. `oldest_due_at` is the due time of its oldest due job."""

    name: str
    paused: bool = False
    limits: Limits = NO_LIMITS
    waiting: int = 0
    due: int = 0
    running: int = 0
    oldest_due_at: datetime | None = None
