"""Which due jobs are given out, in which order, and what overlap makes of them."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import attrgetter

from msgspec.structs import replace

from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, JobState
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Claimed, ClaimRequest
from onbeat.stores.memory.admission import Admission
from onbeat.stores.memory.ending import ask_to_stop, cancel, cancel_waiting
from onbeat.stores.memory.heads import Heads
from onbeat.stores.memory.tables import Line, Tables, has_lapsed, has_started

OVERLAPPED = "overlap: an earlier job of the schedule had not ended"
REPLACED = "overlap: replaced by a later job of the schedule"


def claim(tables: Tables, request: ClaimRequest) -> Claimed:
    tables.move_edge(request.now)
    admission = Admission(tables, request.now)
    lines = [line for line in tables.lines if can_take(tables, request, line)]
    ids: list[JobId] = []
    heads = Heads(admission, lines)
    while len(ids) < request.limit and (job := heads.first()) is not None:
        if comes_now(tables, job, request.now):
            admission.take(job)
            tables.put_job(claimed(job, request))
            ids.append(job.id)
        if job.overlap is not Overlap.ALLOW:
            # The end of one job may have freed another.
            heads.look_anew()
    admission.keep()
    # A later job of this very claim may have asked an earlier one to stop.
    jobs = sorted((tables.jobs[id] for id in ids), key=attrgetter("priority", "due_at", "id"))
    return Claimed(
        jobs=tuple(jobs),
        next_due_at=next_due_at(admission, lines),
    )


def can_take(tables: Tables, request: ClaimRequest, line: Line) -> bool:
    return (
        line.lane in request.lanes
        and (request.queues is None or line.queue in request.queues)
        and line.queue not in tables.paused_queues
    )


def claimed(job: Job, request: ClaimRequest) -> Job:
    return replace(
        job,
        state=JobState.RUNNING,
        token=Token(job.token + 1),
        worker=request.worker,
        attempt=job.attempt + 1,
        started_at=request.now,
        lease_until=None if request.lease is None else request.now + request.lease,
        progress=None,
    )


def next_due_at(admission: Admission, lines: Sequence[Line]) -> datetime | None:
    """The earliest later time at which a job in one of these lines is due and may start."""
    times = (next_due_in(admission, line) for line in lines if line in admission.tables.lines)
    return min((time for time in times if time is not None), default=None)


def next_due_in(admission: Admission, line: Line) -> datetime | None:
    keys = admission.tables.lines[line]
    again_at, first = admission.again_at(line), keys.first()
    if again_at is not None and first is not None:
        return max(again_at, first[0])
    latest_now = (admission.now, JobId(chr(0x10FFFF)))
    head = next(keys.after(latest_now), None)
    return None if head is None else head[0]


def comes_now(tables: Tables, job: Job, now: datetime) -> bool:
    """Whether the job may run at once; if not, it has been put where its overlap says."""
    if job.overlap is Overlap.ALLOW:
        return True
    earlier = next(unfinished_before(tables, job, now), None)
    if earlier is None:
        return True
    match job.overlap:
        case Overlap.SKIP:
            cancel_waiting(tables, job, OVERLAPPED, now)
            return False
        case Overlap.WAIT:
            tables.put_job(tables.block(job, {earlier.id}))
            return False
        case Overlap.REPLACE:
            return replaces(tables, job, now)


def unfinished_before(tables: Tables, job: Job, now: datetime) -> Iterator[Job]:
    """Jobs of the same schedule whose turn is before this one's and that have not ended.

    These are the running ones; those tried before, unless this one was too; and those due earlier
    of which none was tried, the latest of them first, so that waiting jobs form a chain. What has
    lapsed has no turn: it is in nobody's way. As a job that was tried is held up only by running
    ones, no two jobs can wait for each other.
    """
    if job.schedule_id is None:
        return
    for id in sorted(tables.busy[job.schedule_id] - {job.id}):
        other = tables.jobs[id]
        if other.state is JobState.RUNNING or not has_started(job):
            yield other
    if has_started(job):
        return
    for _, id in tuple(tables.live[job.schedule_id].before((job.due_at, job.id))):
        other = tables.jobs[id]
        if not has_started(other) and not has_lapsed(other, now):
            yield other


def replaces(tables: Tables, job: Job, now: datetime) -> bool:
    """Cancel all earlier jobs. True when none of them runs, so that this one can."""
    earlier = tuple(unfinished_before(tables, job, now))
    running = {other.id for other in earlier if other.state is JobState.RUNNING}
    if running:
        tables.put_job(tables.block(job, running))
    for other in earlier:
        if other.state is JobState.RUNNING:
            ask_to_stop(tables, other, REPLACED, now)
        else:
            cancel(tables, other, REPLACED, now)
    return not running
