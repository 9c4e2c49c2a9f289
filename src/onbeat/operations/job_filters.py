"""The filter of a request for jobs."""

from datetime import datetime
from typing import Protocol, TypeAlias, TypeVar

from msgspec import UnsetType

from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.page import JobFilter
from onbeat.wire.bulks import read_label_filter
from onbeat.wire.failures import read_fault_key
from onbeat.wire.values import job_id, read_instant, schedule_id

Value = TypeVar("Value")
Given: TypeAlias = Value | UnsetType | None


class FilterRequest(Protocol):
    """The parameters that lists and bulks share."""

    @property
    def state(self) -> Given[JobState]: ...
    @property
    def queue(self) -> Given[str]: ...
    @property
    def task(self) -> Given[str]: ...
    @property
    def schedule_id(self) -> Given[str]: ...
    @property
    def flow(self) -> Given[str]: ...
    @property
    def fault(self) -> Given[str]: ...
    @property
    def label(self) -> Given[str]: ...
    @property
    def since(self) -> Given[datetime]: ...
    @property
    def until(self) -> Given[datetime]: ...
    @property
    def error(self) -> Given[str]: ...
    @property
    def unique(self) -> Given[str]: ...


def filter_from(request: FilterRequest, prefix: str = "") -> JobFilter:
    """The jobs that the request asks for; `prefix` goes before the names of fields in errors."""
    since, until = request.since or None, request.until or None
    filter = JobFilter(
        state=request.state or None,
        queue=request.queue or None,
        task=request.task or None,
        schedule_id=schedule_id(request.schedule_id, f"{prefix}schedule_id")
        if request.schedule_id
        else None,
        flow=JobId(job_id(request.flow, f"{prefix}flow")) if request.flow else None,
        fault=read_fault_key(request.fault, f"{prefix}fault") if request.fault else None,
        label=read_label_filter(request.label, f"{prefix}label") if request.label else (),
        since=None if since is None else read_instant(since, f"{prefix}since"),
        until=None if until is None else read_instant(until, f"{prefix}until"),
        error=request.error or None,
        unique=request.unique or None,
    )
    if filter.since is not None and filter.until is not None and filter.since >= filter.until:
        raise Invalid(f"{prefix}until must be later than since", f"{prefix}until")
    return filter
