"""Merge rules of an import: what a store takes from a copy of records that it already has.

An imported record wins if it is a continuation of the stored one. Changes made only here are kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

from msgspec.structs import replace

from onbeat.model.attempt import Attempt
from onbeat.model.ids import ScheduleId
from onbeat.model.job import Job, JobState
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.transition import Transition
from onbeat.model.worker import is_carried

AT_FIRST: Final = datetime.min.replace(tzinfo=UTC)


class JobHistory(Protocol):
    """A job with its whole history."""

    @property
    def job(self) -> Job: ...

    @property
    def attempts(self) -> Sequence[Attempt]: ...

    @property
    def transitions(self) -> Sequence[Transition]: ...


def newer_schedules(
    schedules: Iterable[Schedule], here: Mapping[ScheduleId, Schedule]
) -> dict[ScheduleId, Schedule]:
    """The newest version of each schedule that is newer than the stored one, by id."""
    newer: dict[ScheduleId, Schedule] = {}
    for coming in schedules:
        if is_newer(coming, newer.get(coming.id, here.get(coming.id))):
            newer[coming.id] = coming
    return dict(sorted(newer.items()))


def is_newer(coming: Schedule, here: Schedule | None) -> bool:
    """An edit counts before the planner's progress since the last edit."""
    if here is None:
        return True
    if coming.version == here.version:
        return coming.updated_at == here.updated_at and planning_progress(
            coming
        ) > planning_progress(here)
    return coming.version > here.version and coming.updated_at >= here.updated_at


def planning_progress(schedule: Schedule) -> tuple[datetime, bool, datetime]:
    """How far the planner has planned the schedule."""
    is_finished = schedule.status is ScheduleStatus.FINISHED
    return schedule.planned_through, is_finished, schedule.plan_at or AT_FIRST


def edited_since(
    newer: Mapping[ScheduleId, Schedule], here: Mapping[ScheduleId, Schedule]
) -> list[Schedule]:
    """The schedules that were edited since the stored version."""
    return [one for id, one in newer.items() if id in here and one.version > here[id].version]


def as_imported(job: Job) -> Job:
    """The job in the new store, where no worker runs it.

    As after any attempt its `start_by` is cleared, unless it was only on its way to a worker.
    """
    if job.state is not JobState.RUNNING:
        return job
    start_by = job.start_by if is_carried(job.worker) else None
    return replace(
        job,
        state=JobState.WAITING,
        worker=None,
        lease_until=None,
        progress=None,
        start_by=start_by,
    )


def is_further(coming: JobHistory, here: JobHistory | None) -> bool:
    """Whether the job has progressed in the source, and not here.

    A job that was claimed here has a newer token or more history. A job that still runs in the
    source may have changed without a trace.
    """
    if here is None:
        return True
    if has_progressed(here, coming):
        return False
    if coming.job.token > here.job.token or steps(coming) > steps(here):
        return True
    if coming.job.is_final != here.job.is_final:
        return coming.job.is_final
    return coming.job.state is JobState.RUNNING and not is_same(coming, here)


def is_routed_later(coming: datetime | None, here: datetime | None) -> bool:
    """Whether the source has a decision about an event, and this store none or an earlier one."""
    return coming is not None and (here is None or coming > here)


def has_progressed(here: JobHistory, coming: JobHistory) -> bool:
    return (
        here.job.state is JobState.RUNNING
        or here.job.token > coming.job.token
        or not begins_with(coming.attempts, here.attempts)
        or not begins_with(coming.transitions, here.transitions)
    )


def is_same(coming: JobHistory, here: JobHistory) -> bool:
    """Whether there is nothing to import. Each store computes `blocked_by` itself."""
    return (
        without_blocks(as_imported(coming.job)) == without_blocks(here.job)
        and tuple(coming.attempts) == tuple(here.attempts)
        and tuple(coming.transitions) == tuple(here.transitions)
    )


def without_blocks(job: Job) -> Job:
    return replace(job, blocked_by=0)


def begins_with(whole: Sequence[object], part: Sequence[object]) -> bool:
    return whole[: len(part)] == part


def steps(history: JobHistory) -> int:
    return len(history.attempts) + len(history.transitions)
