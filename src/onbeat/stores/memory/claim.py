"""Claims of due jobs: selection, order and overlap rules."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import attrgetter

from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Claimed, ClaimRequest
from onbeat.rules.claims import as_claimed
from onbeat.rules.overlap import (
    REPLACED,
    EarlierJob,
    comes_before,
    decide_overlap,
    has_overlap_rule,
)
from onbeat.stores.memory.dependents import ask_to_stop, cancel
from onbeat.stores.memory.limits import ClaimLimits
from onbeat.stores.memory.ready_lists import ReadyListHeads
from onbeat.stores.memory.tables import ReadyList, Tables, has_started


def claim(tables: Tables, request: ClaimRequest) -> Claimed:
    tables.update_overdue(request.now)
    admission = ClaimLimits(tables, request.now)
    lines = [line for line in tables.ready_lists if can_take(tables, request, line)]
    ids: list[JobId] = []
    heads = ReadyListHeads(admission, lines)
    while len(ids) < request.limit and (job := heads.first()) is not None:
        if may_start(tables, job, request.now):
            admission.take(job)
            tables.put_job(as_claimed(job, request.worker, request.now, request.lease_until))
            ids.append(job.id)
        if job.overlap is not Overlap.ALLOW:
            # The end of a job may have freed another.
            heads.refresh()
    admission.keep()
    # A later job of a claim may have requested an earlier one to stop.
    jobs = sorted((tables.jobs[id] for id in ids), key=attrgetter("priority", "due_at", "id"))
    return Claimed(
        jobs=tuple(jobs),
        next_due_at=next_due_at(admission, lines),
    )


def can_take(tables: Tables, request: ClaimRequest, ready_list: ReadyList) -> bool:
    return (
        ready_list.lane in request.lanes
        and (request.queues is None or ready_list.queue in request.queues)
        and ready_list.queue not in tables.paused_queues
    )


def next_due_at(admission: ClaimLimits, ready_lists: Sequence[ReadyList]) -> datetime | None:
    """The earliest time after now at which a job in these ready lists is due and may start."""
    times = (
        next_due_in(admission, line) for line in ready_lists if line in admission.tables.ready_lists
    )
    return min((time for time in times if time is not None), default=None)


def next_due_in(admission: ClaimLimits, ready_list: ReadyList) -> datetime | None:
    keys = admission.tables.ready_lists[ready_list]
    first = keys.first()
    if first is None:
        return None
    again_at = admission.again_at(ready_list)
    if again_at is not None:
        return max(again_at, first[0])
    if first[0] > admission.now:
        return first[0]
    latest_now = (admission.now, JobId(chr(0x10FFFF)))
    head = next(keys.after(latest_now), None)
    return None if head is None else head[0]


def may_start(tables: Tables, job: Job, now: datetime) -> bool:
    """Apply the overlap rule of a due job. False if it may not start now."""
    if not has_overlap_rule(job):
        return True
    earlier = unfinished_before(tables, job, now)
    decision = decide_overlap(job, (EarlierJob(one.id, is_running(one)) for one in earlier))
    # It waits before the others end, since an end frees only jobs that wait already.
    if decision.wait_for:
        tables.put_job(tables.add_dependencies(job, set(decision.wait_for)))
    for id, reason in decision.cancel.items():
        cancel(tables, [id], reason, now)
    for id in decision.stop:
        ask_to_stop(tables, tables.jobs[id], REPLACED, now)
    return job.id not in decision.cancel and not decision.wait_for


def unfinished_before(tables: Tables, job: Job, now: datetime) -> Iterator[Job]:
    """The jobs that `rules.overlap.comes_before` names, in the order `decide_overlap` needs.

    Jobs with attempts are few. Of the others only those due earlier are read, one by one.
    """
    if job.schedule_id is None:
        return
    busy = (tables.jobs[id] for id in tables.busy[job.schedule_id] - {job.id})
    yield from sorted(
        (other for other in busy if comes_before(other, job, now)), key=by_turn, reverse=True
    )
    if has_started(job):
        return
    for _, id in tables.live[job.schedule_id].before((job.due_at, job.id)):
        other = tables.jobs[id]
        if not has_started(other) and comes_before(other, job, now):
            yield other


def is_running(job: Job) -> bool:
    return job.state is JobState.RUNNING


def by_turn(job: Job) -> tuple[bool, datetime, JobId]:
    return is_running(job), job.due_at, job.id
