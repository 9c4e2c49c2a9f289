"""Filters and pages of listings."""

from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import JobState
from onbeat.model.limits import SEARCHED_MAX
from onbeat.model.schedule import ScheduleStatus

Item = TypeVar("Item")


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """A page of a listing. `total` counts all matches; None where counting would be expensive.

    A search that stopped before the page was full has looked at `searched` records, the last of
    which was made at `searched_to`; it goes on at the cursor.
    """

    items: tuple[Item, ...]
    total: int | None = None
    cursor: str | None = None
    searched: int | None = None
    searched_to: datetime | None = None


class Counted(msgspec.Struct, frozen=True):
    """How many records match; with `more` there are others that were not counted."""

    count: int
    more: bool


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs to list, newest first; `rules.job_filters` says which match.

    A `task` that ends with `*` stands for all that begin so. Each of `label` is `key:value`.
    `since` (included) and `until` (excluded) bound the instant at which a job ended, or else was
    due. `error` is a part of the error's text, `unique` the whole key. `ids` are those that may
    match; None for all. `before` is the last id of the previous page. At most `look` jobs are
    looked at.
    """

    state: JobState | None = None
    queue: str | None = None
    task: str | None = None
    schedule_id: ScheduleId | None = None
    flow: JobId | None = None
    fault: int | None = None
    label: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    error: str | None = None
    unique: str | None = None
    ids: tuple[JobId, ...] | None = None
    before: JobId | None = None
    limit: int = 10
    look: int = SEARCHED_MAX

    @property
    def is_search(self) -> bool:
        """Whether no index answers it, so that jobs are looked at one by one."""
        others = (
            *(self.queue, self.task, self.since, self.until, self.error, self.unique, self.ids),
        )
        return bool(self.label) or any(value is not None for value in others)


class ScheduleFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules to list, newest first. `q` matches any part of name or key, ignoring case."""

    status: ScheduleStatus | None = None
    q: str | None = None
    limit: int = 10
    offset: int = 0


class OccurrenceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one schedule by run time, latest first: unfinished ones or ended ones."""

    schedule_id: ScheduleId
    ended: bool
    limit: int = 10
    offset: int = 0
