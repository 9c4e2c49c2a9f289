"""Filters and pages of listings."""

from typing import Generic, TypeVar

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import JobState
from onbeat.model.schedule import ScheduleStatus

Item = TypeVar("Item")


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """A page of a listing. `total` counts all matches; None where counting would be expensive."""

    items: tuple[Item, ...]
    total: int | None = None
    cursor: str | None = None


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs to list, newest first. `before` is the last id of the previous page."""

    state: JobState | None = None
    queue: str | None = None
    task: str | None = None
    schedule_id: ScheduleId | None = None
    before: JobId | None = None
    limit: int = 10


class ScheduleFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules to list, newest first. `q` matches any part of name or key, ignoring case."""

    status: ScheduleStatus | None = None
    q: str | None = None
    limit: int = 10
    offset: int = 0


class OccurrenceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one schedule by due time, latest first: unfinished ones or ended ones."""

    schedule_id: ScheduleId
    ended: bool
    limit: int = 10
    offset: int = 0
