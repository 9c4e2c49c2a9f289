"""What a store takes of what a copy brings, where it has a form of it already.

What comes wins where it follows from what is here. What was done here, and not there, stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from onbeat.model.ids import ScheduleId
from onbeat.model.job import JobState
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.worker import is_carried
from onbeat.ports.store import Carton

AT_FIRST: Final = datetime.min.replace(tzinfo=UTC)


def newer_of(
    schedules: Iterable[Schedule], here: Mapping[ScheduleId, Schedule]
) -> dict[ScheduleId, Schedule]:
    """The newest of each that is newer than what is here, in the order of their ids."""
    newer: dict[ScheduleId, Schedule] = {}
    for coming in schedules:
        if is_newer(coming, newer.get(coming.id, here.get(coming.id))):
            newer[coming.id] = coming
    return dict(sorted(newer.items()))


def is_newer(coming: Schedule, here: Schedule | None) -> bool:
    """An edit tells more than the planner's way since the last one."""
    if here is None:
        return True
    if coming.version == here.version:
        return coming.updated_at == here.updated_at and way_of(coming) > way_of(here)
    return coming.version > here.version and coming.updated_at >= here.updated_at


def way_of(schedule: Schedule) -> tuple[datetime, bool, datetime]:
    """How far the planner has come with it."""
    is_finished = schedule.status is ScheduleStatus.FINISHED
    return schedule.planned_through, is_finished, schedule.plan_at or AT_FIRST


def edited_of(
    newer: Mapping[ScheduleId, Schedule], here: Mapping[ScheduleId, Schedule]
) -> list[Schedule]:
    """Those that were edited since what is here."""
    return [one for id, one in newer.items() if id in here and one.version > here[id].version]


def arrived(carton: Carton) -> Carton:
    """With the job as it is in another store: no worker of this one runs it.

    As after any attempt its start is bounded no more, unless it was only on its way to a worker.
    """
    job = carton.job
    if job.state is not JobState.RUNNING:
        return carton
    waits = replace(job, state=JobState.WAITING, worker=None, lease_until=None, progress=None)
    start_by = job.start_by if is_carried(job.worker) else None
    return replace(carton, job=replace(waits, start_by=start_by))


def is_further(coming: Carton, here: Carton | None) -> bool:
    """Whether the job has gone on where it comes from, and has not here.

    A job that was given out here shows it by its token or by its history. One that still runs
    where it comes from may have changed without a trace.
    """
    if here is None:
        return True
    if went_on(here, coming):
        return False
    if coming.job.token > here.job.token or steps(coming) > steps(here):
        return True
    if coming.job.is_final != here.job.is_final:
        return coming.job.is_final
    return coming.job.state is JobState.RUNNING and not is_same(coming, here)


def went_on(here: Carton, coming: Carton) -> bool:
    return (
        here.job.state is JobState.RUNNING
        or here.job.token > coming.job.token
        or not begins_with(coming.attempts, here.attempts)
        or not begins_with(coming.transitions, here.transitions)
    )


def is_same(coming: Carton, here: Carton) -> bool:
    """Whether there is nothing to bring. What holds a job back is found anew in each store."""
    return unblocked(arrived(coming)) == unblocked(here)


def unblocked(carton: Carton) -> Carton:
    return replace(carton, job=replace(carton.job, blocked_by=0))


def begins_with(whole: Sequence[object], part: Sequence[object]) -> bool:
    return whole[: len(part)] == part


def steps(carton: Carton) -> int:
    return len(carton.attempts) + len(carton.transitions)
