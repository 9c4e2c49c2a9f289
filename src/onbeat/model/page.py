"""Filters and pages of listings."""

from typing import Generic, TypeVar

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import JobState
from onbeat.model.schedule import ScheduleStatus

Item = TypeVar("Item")


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """Some items of a listing; `total` counts all that match, None where counting would be dear."""

    items: tuple[Item, ...]
    total: int | None = None
    cursor: str | None = None


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs to list, newest first. `before` is the id that the page before ended with."""

    state: JobState | None = None
    queue: str | None = None
    task: str | None = None
    schedule_id: ScheduleId | None = None
    before: JobId | None = None
    limit: int = 10


class ScheduleFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules to list, newest first; `q` is found anywhere in name or key, in any case."""

    status: ScheduleStatus | None = None
    q: str | None = None
    limit: int = 10
    offset: int = 0


class OccurrenceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one schedule by due time, latest first: those still to end, or those ended."""

    schedule_id: ScheduleId
    ended: bool
    limit: int = 10
    offset: int = 0
