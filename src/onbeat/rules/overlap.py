"""Overlap rules: what a due job of a schedule does while earlier ones have not ended."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.schedule import Overlap

SKIPPED: Final = "overlap: an earlier job of the schedule had not ended"
REPLACED: Final = "overlap: replaced by a later job of the schedule"


class EarlierJob(msgspec.Struct, frozen=True, array_like=True):
    """An unfinished job that comes before another job of its schedule."""

    id: JobId
    running: bool


class OverlapDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The steps, in this order: cancel, stop, wait for. If there are none, the job starts.

    `cancel` maps jobs to their reasons. The job is blocked until each of `wait_for` has ended.
    """

    cancel: Mapping[JobId, str] = {}
    stop: tuple[JobId, ...] = ()
    wait_for: tuple[JobId, ...] = ()

    @property
    def changes_nothing(self) -> bool:
        return not (self.cancel or self.stop or self.wait_for)


STARTS: Final = OverlapDecision()


def has_overlap_rule(job: Job) -> bool:
    """Whether other jobs of its schedule may keep the job from starting."""
    return job.overlap is not Overlap.ALLOW and job.schedule_id is not None


def comes_before(other: Job, job: Job, now: datetime) -> bool:
    """Whether an unfinished `other` of the same schedule comes before the due `job`.

    Only a running job comes before one that was tried already; otherwise two such jobs could wait
    for each other forever. A job that is too late to start blocks no other.
    """
    if other.state is JobState.RUNNING:
        return True
    if job.token > 0:
        return False
    if other.token > 0:
        return True
    is_too_late = other.start_by is not None and other.start_by < now
    return (other.due_at, other.id) < (job.due_at, job.id) and not is_too_late


def decide_overlap(job: Job, earlier: Iterable[EarlierJob]) -> OverlapDecision:
    """Apply the overlap rule of a due job.

    `earlier` has the running jobs first, then the others from the latest on; it is read only as far
    as needed.
    """
    match job.overlap:
        case Overlap.ALLOW:
            return STARTS
        case Overlap.SKIP:
            skips = next(iter(earlier), None) is not None
            return OverlapDecision(cancel={job.id: SKIPPED}) if skips else STARTS
        case Overlap.WAIT:
            # Each job waits for the one right before it, so that each end frees one job.
            last = next(iter(earlier), None)
            return STARTS if last is None else OverlapDecision(wait_for=(last.id,))
        case Overlap.REPLACE:
            return replace(earlier)


def replace(earlier: Iterable[EarlierJob]) -> OverlapDecision:
    """Cancel waiting jobs; stop running ones and wait for their end."""
    jobs = tuple(earlier)
    running = tuple(other.id for other in jobs if other.running)
    waiting = [other.id for other in jobs if not other.running]
    return OverlapDecision(cancel=dict.fromkeys(waiting, REPLACED), stop=running, wait_for=running)
