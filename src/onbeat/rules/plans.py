"""The planner's decisions: from a schedule and a time to the jobs that it should have.

A plan covers every occurrence up to the horizon and the first one past it, so that an active
schedule always has its next job waiting. Late occurrences are judged once, here or in
`onbeat.rules.expiry`, and each gets exactly one disposition: a job, or a skip with its reason.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any, Protocol

from msgspec.structs import replace

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import INHERITED, Job
from onbeat.model.limits import GRACE_DEFAULT_MAX, GRACE_DEFAULT_MIN, PLAN_JOBS_MAX
from onbeat.model.plan import Plan, Skip
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import CatchUp, Schedule, ScheduleStatus
from onbeat.model.trace_context import TraceContext
from onbeat.recurrence import Budget, Recurrence, compile_spec
from onbeat.recurrence.instants import to_us
from onbeat.rules.calendar import shifted
from onbeat.rules.cells import slot_of_id, stamped
from onbeat.rules.misfires import misfire_event
from onbeat.rules.windows import opening_at_or_after

Ids = Callable[[int], Sequence[str]]
"""Generates the given number of job ids in ascending order."""


class Compile(Protocol):
    """Compiles a stored rule. A function of time compiles only in a process that has it.

    Computations of the rule are charged to the budget.
    """

    def __call__(self, spec: RecurrenceSpec, budget: Budget | None = None, /) -> Recurrence: ...


def with_budget(compile: Compile, budget: Budget) -> Compile:
    """The same, with everything charged to `budget`."""
    return lambda spec, _budget=None: compile(spec, budget)


TICK = timedelta(microseconds=1)
MISFIRED = "misfire: found later than its grace"
CHANGED = "schedule changed"
PAUSED = "schedule paused"
DELETED = "schedule deleted"
SCHEDULE_GONE = "Schedule not found"
"""What a request says whose schedule does not exist, or was deleted since it was read."""


def cause_of_edit(edited: Schedule) -> str:
    """Why jobs that were planned before an edit are cancelled."""
    return PAUSED if edited.status is ScheduleStatus.PAUSED else CHANGED


class BoundedRecurrence:
    """A recurrence limited to a schedule's `starts_at` and `ends_at`, both included."""

    def __init__(
        self, recurrence: Recurrence, starts_at: datetime | None, ends_at: datetime | None
    ) -> None:
        self.recurrence = recurrence
        self.starts_at = starts_at
        self.ends_at = ends_at

    def after(self, instant: datetime) -> datetime | None:
        if self.starts_at is not None:
            instant = max(instant, shifted(self.starts_at, -TICK))
        candidate = self.recurrence.after(instant)
        return candidate if candidate is not None and self.holds_end(candidate) else None

    def before(self, instant: datetime) -> datetime | None:
        if self.ends_at is not None:
            instant = min(instant, shifted(self.ends_at, TICK))
        candidate = self.recurrence.before(instant)
        if candidate is None or (self.starts_at is not None and candidate < self.starts_at):
            return None
        return candidate

    def latest(self, now: datetime) -> datetime | None:
        """The last occurrence up to and including `now`; takes one query."""
        return self.before(shifted(now, TICK))

    def between(self, since: datetime, until: datetime, limit: int) -> list[datetime]:
        """The first `limit` occurrences after `since`, up to and including `until`."""
        return list(self.walk(since, until, limit))

    def walk(self, since: datetime, until: datetime, limit: int) -> Iterator[datetime]:
        at = self.after(since)
        while at is not None and at <= until and limit > 0:
            yield at
            limit -= 1
            at = self.after(at)

    def instants(self, since: datetime, until: datetime) -> Iterator[int]:
        """Occurrences after `since`, up to and including `until`, in microseconds since 1970.

        Thousands of them are found and counted in a fraction of the time of `walk`.
        """
        if self.starts_at is not None:
            since = max(since, shifted(self.starts_at, -TICK))
        if self.ends_at is not None:
            until = min(until, self.ends_at)
        last = to_us(until)
        return takewhile(lambda at: at <= last, self.recurrence.instants_after(to_us(since)))

    def count(self, first: datetime, last: datetime) -> int | None:
        """Occurrences from `first` until before `last`, as `Recurrence.count`."""
        if self.starts_at is not None:
            first = max(first, self.starts_at)
        if self.ends_at is not None:
            last = min(last, shifted(self.ends_at, TICK))
        return self.recurrence.count(first, last) if first < last else 0

    def holds_end(self, instant: datetime) -> bool:
        return self.ends_at is None or instant <= self.ends_at


def plan(
    schedule: Schedule, now: datetime, horizon: timedelta, ids: Ids, compile: Compile = compile_spec
) -> Plan:
    """The plan for `schedule`, from its watermark to the first occurrence past the horizon.

    A plan has at most `PLAN_JOBS_MAX` jobs; if more are due, `plan_at` is set so that planning
    continues at once.
    """
    recurrence = bounded_recurrence(schedule, compile)
    late, skips = judge_late(schedule, recurrence, now)
    skips = tuple(
        replace(skip, event=misfire_event(schedule, skip.first, skip.last, now)) for skip in skips
    )
    chosen = late[:PLAN_JOBS_MAX]
    if len(late) <= PLAN_JOBS_MAX:
        seen = max(schedule.planned_through, now)
        chosen += upcoming(recurrence, seen, shifted(now, horizon), PLAN_JOBS_MAX - len(chosen))
    return build_plan(schedule, recurrence, chosen, skips, now, horizon, ids)


def is_current(plan: Plan, version: int, planned_through: datetime) -> bool:
    """Whether the plan may be stored for a schedule with this version and watermark."""
    is_next = plan.planned_from is None or planned_through <= plan.planned_from
    return plan.version == version and is_next


def replan(
    schedule: Schedule,
    now: datetime,
    horizon: timedelta,
    ids: Ids,
    passed: str | None = None,
    compile: Compile = compile_spec,
) -> Plan:
    """The plan of a schedule whose rule has changed, or that was resumed.

    Planning begins again at `now`. Occurrences from the watermark to now do not run; `passed`, if
    given, is the reason noted for them.
    """
    recurrence = bounded_recurrence(schedule, compile)
    skips = skip_range(recurrence, schedule.planned_through, now, passed)
    begun = replace(schedule, planned_through=now)
    chosen = upcoming(recurrence, now, shifted(now, horizon), PLAN_JOBS_MAX)
    return build_plan(begun, recurrence, chosen, skips, now, horizon, ids)


def skip_range(
    recurrence: BoundedRecurrence, since: datetime, now: datetime, reason: str | None
) -> tuple[Skip, ...]:
    """One skip for all occurrences after `since` up to and including `now`."""
    if reason is None or since >= now:
        return ()
    first, last = recurrence.after(since), recurrence.latest(now)
    if first is None or last is None or first > now or last < first:
        return ()
    return (Skip(first, last, reason),)


def judge_late(
    schedule: Schedule, recurrence: BoundedRecurrence, now: datetime
) -> tuple[list[datetime], tuple[Skip, ...]]:
    """Occurrences from the watermark to now: those that still run, and the skips of the others."""
    since = schedule.planned_through
    if since >= now:
        return [], ()
    if schedule.catch_up is CatchUp.ALL:
        return list(recurrence.between(since, now, PLAN_JOBS_MAX + 1)), ()
    latest = recurrence.latest(now)
    if latest is None or latest <= since:
        return [], ()
    first_on_time = max(since, earliest_on_time(schedule, recurrence, latest, now) - TICK)
    kept = list(recurrence.between(first_on_time, now, PLAN_JOBS_MAX + 1))
    if not kept and schedule.catch_up is CatchUp.LATEST:
        kept = [latest]
    return kept, skip_before(recurrence, since, kept[0] if kept else None, now)


def earliest_on_time(
    schedule: Schedule, recurrence: BoundedRecurrence, latest: datetime, now: datetime
) -> datetime:
    """The first instant whose occurrences are still within their grace at `now`."""
    if schedule.grace is not None:
        return shifted(now, -schedule.grace)
    return latest if on_time_until(schedule, recurrence, latest) >= now else now + TICK


def on_time_until(
    schedule: Schedule, recurrence: BoundedRecurrence, occurrence: datetime
) -> datetime:
    """The last instant at which `occurrence` may still start on time.

    The default grace lasts until the next occurrence, at least a second and at most a minute. A
    short restart then skips nothing, and a slow queue holds one waiting job of the schedule.
    """
    if schedule.grace is not None:
        return shifted(occurrence, schedule.grace)
    following = recurrence.after(occurrence)
    if following is None:
        return shifted(occurrence, GRACE_DEFAULT_MAX)
    grace = min(GRACE_DEFAULT_MAX, max(GRACE_DEFAULT_MIN, following - occurrence))
    return shifted(occurrence, grace)


def skip_before(
    recurrence: BoundedRecurrence, since: datetime, kept: datetime | None, now: datetime
) -> tuple[Skip, ...]:
    """One skip for all late occurrences before the first one kept."""
    until = now if kept is None else kept - TICK
    return skip_range(recurrence, since, until, MISFIRED)


def upcoming(
    recurrence: BoundedRecurrence, since: datetime, until: datetime, limit: int
) -> list[datetime]:
    """Occurrences after `since` up to the first one past `until`, at most `limit`.

    Empty if that first one is not after `since`: planning too early adds nothing.
    """
    if since > until and (planned := recurrence.latest(since)) is not None and planned > until:
        return []
    candidates: list[datetime] = []
    at = recurrence.after(since)
    while at is not None and len(candidates) < limit:
        candidates.append(at)
        at = recurrence.after(at) if at <= until else None
    return candidates


def build_plan(
    schedule: Schedule,
    recurrence: BoundedRecurrence,
    chosen: Sequence[datetime],
    skips: Sequence[Skip],
    now: datetime,
    horizon: timedelta,
    ids: Ids,
) -> Plan:
    slot = slot_of_id(schedule.id)
    jobs = tuple(
        job_for(schedule, recurrence, occurrence, now, JobId(stamped(id, slot)))
        for occurrence, id in zip(chosen, ids(len(chosen)), strict=True)
    )
    ends = [schedule.planned_through, *(skip.last for skip in skips), *chosen[-1:]]
    through = max(ends)
    is_full = len(chosen) == PLAN_JOBS_MAX
    plan_at = next_planning_at(recurrence, through, now, horizon, is_full=is_full)
    return Plan(
        schedule_id=schedule.id,
        version=schedule.version,
        planned_from=schedule.planned_through,
        planned_through=through,
        plan_at=plan_at,
        jobs=jobs,
        skips=tuple(skips),
        # Events may always come.
        finished=plan_at is None and schedule.recurrence.kind != "event",
    )


def next_planning_at(
    recurrence: BoundedRecurrence,
    through: datetime,
    now: datetime,
    horizon: timedelta,
    *,
    is_full: bool,
) -> datetime | None:
    """When to plan a schedule again that is planned up to `through`.

    When the last planned occurrence enters the horizon, the next one is added. A plan that was full
    before the horizon is continued when half of it has passed. A schedule without further
    occurrences is finished when its last one is due.
    """
    if recurrence.after(through) is None:
        return through if through > now else None
    if is_full:
        return now + max(through - now, timedelta()) / 2
    return through - horizon


def job_for(
    schedule: Schedule,
    recurrence: BoundedRecurrence,
    occurrence: datetime,
    now: datetime,
    id: JobId,
) -> Job:
    """The job of one occurrence. Its `start_by` prevents claims once it has misfired."""
    due_at = shifted(occurrence, jitter_of(schedule, occurrence))
    expires_after = schedule.expires_after
    expires_at = shifted(due_at, expires_after) if expires_after is not None else None
    due_at = opening_at_or_after(schedule.window, due_at)
    starts: list[datetime] = [expires_at] if expires_at is not None else []
    caught_up = occurrence <= now
    if schedule.catch_up is not CatchUp.ALL and not caught_up:
        on_time = on_time_until(schedule, recurrence, occurrence)
        starts.append(shifted(on_time, due_at - occurrence))
    return Job(
        id=id,
        created_at=now,
        due_at=due_at,
        expires_at=expires_at,
        start_by=min(starts) if starts else None,
        schedule_id=schedule.id,
        occurrence=occurrence,
        **inherited_fields(schedule),
    )


def triggered_job(
    schedule: Schedule, now: datetime, id: str, sender: TraceContext | None = None
) -> Job:
    """A job triggered by hand: due as soon as its windows allow, without a misfire limit."""
    due_at = opening_at_or_after(schedule.window, now)
    return Job(
        id=JobId(stamped(id, slot_of_id(schedule.id))),
        created_at=now,
        due_at=due_at,
        expires_at=given_up_at(schedule, due_at),
        schedule_id=schedule.id,
        traceparent=None if sender is None else sender.parent,
        tracestate=None if sender is None else sender.state,
        **inherited_fields(schedule),
    )


def given_up_at(schedule: Schedule, due_at: datetime) -> datetime | None:
    """The expiry of a job that was made by hand: where the schedule's condition may put it off.

    It has no `start_by`, and gets one when it is put off. So it starts however late, a backlog or
    a pause lets none of them lapse, and its condition is judged at least once.
    """
    condition, span = schedule.condition, schedule.expires_after
    if condition is None or condition.postpone is None or span is None:
        return None
    return shifted(due_at, span)


def follow_schedule(job: Job, edited: Schedule) -> Job:
    """A waiting job after an edit of its schedule; it keeps its occurrence and its times.

    One without an expiry gets that of a job by hand: the edit may be what puts it off.
    """
    followed = replace(job, **inherited_fields(edited))
    if job.expires_at is not None or job.started_at is not None:
        return followed
    return replace(followed, expires_at=given_up_at(edited, job.due_at))


def inherited_fields(schedule: Schedule) -> dict[str, Any]:
    """What the schedule passes on to its jobs, as keywords for a `Job`."""
    return {name: getattr(schedule, name) for name in INHERITED}


def backfill_jobs(
    schedule: Schedule,
    first: datetime,
    last: datetime,
    limit: int,
    now: datetime,
    ids: Ids,
    compile: Compile = compile_spec,
) -> tuple[Job, ...]:
    """At most `limit` jobs for the occurrences from `first` to `last`, both included, due now.

    Neither grace nor expiry counts from the occurrence, since a backfill is late by design; how
    long a condition may put a job off counts from now, as for a triggered one.
    """
    recurrence = bounded_recurrence(schedule, compile)
    occurrences = recurrence.between(shifted(first, -TICK), min(last, now), limit)
    return tuple(
        replace(triggered_job(schedule, now, id), occurrence=occurrence)
        for occurrence, id in zip(occurrences, ids(len(occurrences)), strict=True)
    )


def next_at(schedule: Schedule, now: datetime, compile: Compile = compile_spec) -> datetime | None:
    """The next occurrence after `now`; None if the schedule is not active or has ended."""
    if schedule.status is not ScheduleStatus.ACTIVE:
        return None
    return bounded_recurrence(schedule, compile).after(now)


def jitter_of(schedule: Schedule, occurrence: datetime) -> timedelta:
    """A jitter up to `schedule.jitter`: a hash of schedule and occurrence, so always the same."""
    if not schedule.jitter:
        return timedelta()
    text = f"{schedule.id}:{occurrence.isoformat()}".encode()
    part = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) / 2**64
    return schedule.jitter * part


def bounded_recurrence(schedule: Schedule, compile: Compile) -> BoundedRecurrence:
    return BoundedRecurrence(compile(schedule.recurrence), schedule.starts_at, schedule.ends_at)


def first_watermark(created_at: datetime, starts_at: datetime | None) -> datetime:
    """Where planning of a new schedule begins; earlier occurrences are never caught up."""
    if starts_at is not None and starts_at > created_at:
        return starts_at - TICK
    return created_at.astimezone(UTC)


def schedule_ids(jobs: Sequence[Job]) -> frozenset[ScheduleId]:
    """The schedules that the jobs belong to."""
    return frozenset(job.schedule_id for job in jobs if job.schedule_id is not None)
