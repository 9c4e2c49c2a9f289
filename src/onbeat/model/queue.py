"""A queue: a named line of jobs, with limits on how many run and start."""

from datetime import datetime, timedelta

import msgspec

from onbeat.model.event import Event
from onbeat.model.ids import JobId


class Rate(msgspec.Struct, frozen=True):
    """A number of starts in a span of time, refilled evenly; the burst is `count`."""

    count: int
    span: timedelta


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of a queue over all workers; None means no limit.

    `concurrency` bounds the running jobs, `rate` the starts. The group limits hold for each group
    of the queue separately; jobs without a group are in no group. With `fair` the groups take turns
    within a priority, and jobs without a group share one turn. `late_after` limits no claim: a
    queue whose oldest due job waits for longer is late.
    """

    concurrency: int | None = None
    rate: Rate | None = None
    group_concurrency: int | None = None
    group_rate: Rate | None = None
    fair: bool = False
    late_after: timedelta | None = None

    @property
    def by_group(self) -> bool:
        """Whether a claim has to distinguish groups."""
        return self.fair or self.group_concurrency is not None or self.group_rate is not None


NO_LIMITS = Limits()


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """Who paused a queue, when, and why in their words."""

    by: str
    at: datetime
    note: str = ""


class GroupDepth(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of one group of a queue, "" for those without one.

    Of `waiting` ones are left out that wait for the end of others.

    `starts_since` counts the starts of the queue since the last one of the group; None where groups
    take no turns, or it had none lately.
    """

    group: str
    waiting: int = 0
    running: int = 0
    starts_since: int | None = None


class GroupDepths(msgspec.Struct, frozen=True):
    """The groups of a queue, the deepest first; with `more` not all jobs were looked at."""

    groups: tuple[GroupDepth, ...]
    more: bool


class WatchedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with `late_after`, and its oldest job that is due and may be claimed.

    `late_since` is when the queue was found to be late; None while it is in time.
    """

    name: str
    paused: bool
    late_after: timedelta
    late_since: datetime | None = None
    oldest: JobId | None = None
    oldest_due_at: datetime | None = None


class LatenessChange(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that has become late, with the event that says so; without, it is in time again."""

    queue: str
    event: Event | None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with its current counts. `oldest_due_at` is the due time of its oldest due job.

    `pause` is None where it is not paused, or was before pauses were described.
    """

    name: str
    paused: bool = False
    pause: Pause | None = None
    limits: Limits = NO_LIMITS
    waiting: int = 0
    due: int = 0
    running: int = 0
    oldest_due_at: datetime | None = None
