"""From a schedule and a time to the jobs it should have: the planner's decisions.

A plan covers every occurrence up to the horizon and the first one past it, so that an active
schedule always has its next job waiting. Occurrences found late are judged once, here or in
`onbeat.rules.lapsing`, and each gets exactly one disposition: a job, or a skip with its reason.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.limits import GRACE_DEFAULT_MAX, GRACE_DEFAULT_MIN, PLAN_JOBS_MAX
from onbeat.model.plan import Plan, Skip
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import CatchUp, Schedule, ScheduleStatus
from onbeat.recurrence import Recurrence, compile_spec

Ids = Callable[[int], Sequence[str]]
"""Gives so many fresh job ids, rising."""

Read = Callable[[RecurrenceSpec], Recurrence]
"""Gives life to a stored rule; only a process that holds a function of time can read its rule."""

TICK = timedelta(microseconds=1)
MISFIRED = "misfire: found later than its grace"


class Bounded:
    """A recurrence seen through a schedule's `starts_at` and `ends_at`, both included."""

    def __init__(
        self, recurrence: Recurrence, starts_at: datetime | None, ends_at: datetime | None
    ) -> None:
        self.recurrence = recurrence
        self.starts_at = starts_at
        self.ends_at = ends_at

    def after(self, instant: datetime) -> datetime | None:
        if self.starts_at is not None:
            instant = max(instant, self.starts_at - TICK)
        found = self.recurrence.after(instant)
        return found if found is not None and self.holds_end(found) else None

    def before(self, instant: datetime) -> datetime | None:
        if self.ends_at is not None:
            instant = min(instant, self.ends_at + TICK)
        found = self.recurrence.before(instant)
        if found is None or (self.starts_at is not None and found < self.starts_at):
            return None
        return found

    def latest(self, now: datetime) -> datetime | None:
        """The last occurrence up to and including `now`; asks once and never walks."""
        return self.before(now + TICK)

    def between(self, since: datetime, until: datetime, limit: int) -> list[datetime]:
        """Occurrences after `since` up to and including `until`, the first `limit` of them."""
        return list(self.walk(since, until, limit))

    def walk(self, since: datetime, until: datetime, limit: int) -> Iterator[datetime]:
        at = self.after(since)
        while at is not None and at <= until and limit > 0:
            yield at
            limit -= 1
            at = self.after(at)

    def holds_end(self, instant: datetime) -> bool:
        return self.ends_at is None or instant <= self.ends_at


def plan(
    schedule: Schedule, now: datetime, horizon: timedelta, ids: Ids, read: Read = compile_spec
) -> Plan:
    """What to add for `schedule`, from its watermark to the first occurrence past the horizon.

    A plan is bounded: with more than `PLAN_JOBS_MAX` jobs due it stops there, and `plan_at` says
    that there is more to do at once.
    """
    recurrence = bounded(schedule, read)
    late, skips = judge_late(schedule, recurrence, now)
    chosen = late[:PLAN_JOBS_MAX]
    if len(late) <= PLAN_JOBS_MAX:
        seen = max(schedule.planned_through, now)
        chosen += upcoming(recurrence, seen, now + horizon, PLAN_JOBS_MAX - len(chosen))
    return assembled(schedule, recurrence, chosen, skips, now, horizon, ids)


def replan(
    schedule: Schedule,
    now: datetime,
    horizon: timedelta,
    ids: Ids,
    passed: str | None = None,
    read: Read = compile_spec,
) -> Plan:
    """The plan of a schedule whose rule has just changed, or that has just been resumed.

    Planning begins anew at `now`: `passed`, when given, is the reason noted for the occurrences
    from the watermark to now, which do not run.
    """
    recurrence = bounded(schedule, read)
    skips = passed_over(recurrence, schedule.planned_through, now, passed)
    begun = replace(schedule, planned_through=now)
    chosen = upcoming(recurrence, now, now + horizon, PLAN_JOBS_MAX)
    return assembled(begun, recurrence, chosen, skips, now, horizon, ids)


def passed_over(
    recurrence: Bounded, since: datetime, now: datetime, reason: str | None
) -> tuple[Skip, ...]:
    """One skip for all occurrences after `since` up to and including `now`."""
    if reason is None or since >= now:
        return ()
    first, last = recurrence.after(since), recurrence.latest(now)
    if first is None or last is None or first > now or last < first:
        return ()
    return (Skip(first, last, reason),)


def judge_late(
    schedule: Schedule, recurrence: Bounded, now: datetime
) -> tuple[list[datetime], tuple[Skip, ...]]:
    """Occurrences from the watermark to now: those that still run, and those that do not."""
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
    return kept, skipped_before(recurrence, since, kept[0] if kept else None, now)


def earliest_on_time(
    schedule: Schedule, recurrence: Bounded, latest: datetime, now: datetime
) -> datetime:
    """Occurrences from here on are within their grace at `now`."""
    if schedule.grace is not None:
        return now - schedule.grace
    return latest if on_time_until(schedule, recurrence, latest) >= now else now + TICK


def on_time_until(schedule: Schedule, recurrence: Bounded, occurrence: datetime) -> datetime:
    """The last instant at which `occurrence` may still start on time.

    A schedule that names no grace has until its next occurrence, at least a second and at most a
    minute: so a short restart loses nothing, and a slow queue holds one waiting job of it rather
    than a pile.
    """
    if schedule.grace is not None:
        return occurrence + schedule.grace
    following = recurrence.after(occurrence)
    if following is None:
        return occurrence + GRACE_DEFAULT_MAX
    return occurrence + min(GRACE_DEFAULT_MAX, max(GRACE_DEFAULT_MIN, following - occurrence))


def skipped_before(
    recurrence: Bounded, since: datetime, kept: datetime | None, now: datetime
) -> tuple[Skip, ...]:
    """The one skip that stands for all late occurrences before the first one kept."""
    until = now if kept is None else kept - TICK
    return passed_over(recurrence, since, until, MISFIRED)


def upcoming(recurrence: Bounded, since: datetime, until: datetime, limit: int) -> list[datetime]:
    """Occurrences after `since` up to the first that lies past `until`, at most `limit`.

    None where `since` has that first one behind it already: who looks too early adds nothing.
    """
    if since > until and (planned := recurrence.latest(since)) is not None and planned > until:
        return []
    found: list[datetime] = []
    at = recurrence.after(since)
    while at is not None and len(found) < limit:
        found.append(at)
        at = recurrence.after(at) if at <= until else None
    return found


def assembled(
    schedule: Schedule,
    recurrence: Bounded,
    chosen: Sequence[datetime],
    skips: Sequence[Skip],
    now: datetime,
    horizon: timedelta,
    ids: Ids,
) -> Plan:
    jobs = tuple(
        job_for(schedule, recurrence, occurrence, now, JobId(id))
        for occurrence, id in zip(chosen, ids(len(chosen)), strict=True)
    )
    ends = [schedule.planned_through, *(skip.last for skip in skips), *chosen[-1:]]
    through = max(ends)
    is_full = len(chosen) == PLAN_JOBS_MAX
    plan_at = look_again_at(recurrence, through, now, horizon, is_full=is_full)
    return Plan(
        schedule_id=schedule.id,
        version=schedule.version,
        planned_through=through,
        plan_at=plan_at,
        jobs=jobs,
        skips=tuple(skips),
        finished=plan_at is None,
    )


def look_again_at(
    recurrence: Bounded, through: datetime, now: datetime, horizon: timedelta, *, is_full: bool
) -> datetime | None:
    """When the planner must see a schedule again that is planned up to `through`.

    When the last planned occurrence enters the horizon, the next must be added. A plan that had no
    room up to the horizon is gone on with when half of it is used up. A schedule with nothing left
    is looked at once more when its last occurrence is due, and is finished then.
    """
    if recurrence.after(through) is None:
        return through if through > now else None
    if is_full:
        return now + max(through - now, timedelta()) / 2
    return through - horizon


def job_for(
    schedule: Schedule, recurrence: Bounded, occurrence: datetime, now: datetime, id: JobId
) -> Job:
    """The job of one occurrence. Its `start_by` leaves nobody to claim it once it has misfired."""
    due_at = occurrence + jitter_of(schedule, occurrence)
    expires_at = due_at + schedule.expires_after if schedule.expires_after is not None else None
    starts: list[datetime] = [expires_at] if expires_at is not None else []
    caught_up = occurrence <= now
    if schedule.catch_up is not CatchUp.ALL and not caught_up:
        starts.append(on_time_until(schedule, recurrence, occurrence) + (due_at - occurrence))
    return Job(
        id=id,
        target=schedule.target,
        created_at=now,
        due_at=due_at,
        queue=schedule.queue,
        priority=schedule.priority,
        retry=schedule.retry,
        timeout=schedule.timeout,
        expires_at=expires_at,
        start_by=min(starts) if starts else None,
        labels=schedule.labels,
        schedule_id=schedule.id,
        occurrence=occurrence,
        overlap=schedule.overlap,
    )


def triggered(schedule: Schedule, now: datetime, id: str) -> Job:
    """A job of the schedule by hand: due at once, outside its calendar, without a misfire bound."""
    return Job(
        id=JobId(id),
        target=schedule.target,
        created_at=now,
        due_at=now,
        queue=schedule.queue,
        priority=schedule.priority,
        retry=schedule.retry,
        timeout=schedule.timeout,
        labels=schedule.labels,
        schedule_id=schedule.id,
        overlap=schedule.overlap,
    )


def backfilled(
    schedule: Schedule,
    first: datetime,
    last: datetime,
    limit: int,
    now: datetime,
    ids: Ids,
    read: Read = compile_spec,
) -> tuple[Job, ...]:
    """Jobs for the occurrences from `first` to `last`, both included, due now, at most `limit`.

    They were asked for late, so neither grace nor expiry counts from the occurrence.
    """
    recurrence = bounded(schedule, read)
    occurrences = recurrence.between(first - TICK, min(last, now), limit)
    return tuple(
        replace(triggered(schedule, now, id), occurrence=occurrence)
        for occurrence, id in zip(occurrences, ids(len(occurrences)), strict=True)
    )


def next_at(schedule: Schedule, now: datetime, read: Read = compile_spec) -> datetime | None:
    """The next occurrence after `now`; None while the schedule is not active or has ended."""
    if schedule.status is not ScheduleStatus.ACTIVE:
        return None
    return bounded(schedule, read).after(now)


def jitter_of(schedule: Schedule, occurrence: datetime) -> timedelta:
    """Up to `schedule.jitter`, the same at every reading: a hash of schedule and occurrence."""
    if not schedule.jitter:
        return timedelta()
    text = f"{schedule.id}:{occurrence.isoformat()}".encode()
    part = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) / 2**64
    return schedule.jitter * part


def bounded(schedule: Schedule, read: Read) -> Bounded:
    return Bounded(read(schedule.recurrence), schedule.starts_at, schedule.ends_at)


def first_watermark(created_at: datetime, starts_at: datetime | None) -> datetime:
    """Where planning of a new schedule begins: nothing up to here is ever made up for."""
    if starts_at is not None and starts_at > created_at:
        return starts_at - TICK
    return created_at.astimezone(UTC)


def schedule_ids(jobs: Sequence[Job]) -> frozenset[ScheduleId]:
    """The schedules that the jobs belong to."""
    return frozenset(job.schedule_id for job in jobs if job.schedule_id is not None)
