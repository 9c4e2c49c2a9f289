"""What a timeline needs of the store: runs, counts and skips, without what is known already."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar

import msgspec

from onbeat.model.ids import ScheduleId
from onbeat.model.limits import LANE_DISPOSITIONS_MAX, LANE_RUNS_MAX, TIMELINE_COUNTED_MAX
from onbeat.model.schedule import Schedule
from onbeat.model.timeline import ForgottenRun, JobRun, RunCount, SkippedSpan
from onbeat.operations.context import OperationContext
from onbeat.rules.calendar import shifted
from onbeat.rules.day_axis import DayAxis
from onbeat.rules.old_lanes import OldLane, counts_of_runs, settled_until
from onbeat.rules.plans import TICK

LONG: Final = timedelta(hours=12)
"""How long before the axis a run may have been due that is looked for because it lasted."""


class OfSchedule(Protocol):
    @property
    def schedule_id(self) -> ScheduleId: ...


Record = TypeVar("Record", bound=OfSchedule)


class LaneMaterial(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of one schedule on an axis.

    `counts` are set where the runs are too many to be read; `since` is where counting ended, which
    goes back in time.
    """

    runs: Sequence[JobRun] = ()
    counts: Sequence[RunCount] | None = None
    since: datetime | None = None
    skips: Sequence[SkippedSpan] = ()
    forgotten: Sequence[ForgottenRun] = ()


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of several schedules, by schedule."""

    runs: Mapping[ScheduleId, Sequence[JobRun]]
    skips: Mapping[ScheduleId, Sequence[SkippedSpan]]
    forgotten: Mapping[ScheduleId, Sequence[ForgottenRun]]


async def gather(
    context: OperationContext, axis: DayAxis, schedules: Sequence[Schedule]
) -> dict[ScheduleId, LaneMaterial]:
    """Runs of each schedule, and counts of those that have too many.

    What is over is kept in this process, and of it the store is not asked again.
    """
    past = context.past
    changes = past.changes
    old = {one.id: lane for one in schedules if (lane := past.known(axis, one)) is not None}
    fresh = [one for one in schedules if one.id not in old]
    rest = [one for one in schedules if one.id in old and old[one.id].until < axis.last]
    read = await read_from(context, axis, fresh, axis.first, old)
    if rest:
        since = min(old[one.id].until for one in rest)
        read |= await read_from(context, axis, rest, since, old)
    for one in schedules:
        if one.id in read:
            lane = over(axis, one, read[one.id], old.get(one.id))
            if lane is not None:
                past.keep(axis, one.id, lane, changes)
    return {id: known_material(lane) for id, lane in old.items()} | read


def known_material(lane: OldLane) -> LaneMaterial:
    return LaneMaterial(
        runs=lane.runs, counts=lane.counts, skips=lane.skips, forgotten=lane.forgotten
    )


async def read_from(
    context: OperationContext,
    axis: DayAxis,
    schedules: Sequence[Schedule],
    since: datetime,
    old: Mapping[ScheduleId, OldLane],
) -> dict[ScheduleId, LaneMaterial]:
    """The same of schedules that are known up to `since` at least."""
    if not schedules:
        return {}
    found = await read_records(context, axis, [one.id for one in schedules], since)
    merged = {one.id: merged_material(found, one.id, old.get(one.id)) for one in schedules}
    dense = [one for one in schedules if is_dense(axis, merged[one.id])]
    counted_max = TIMELINE_COUNTED_MAX // max(len(dense), 1)
    counts = by_schedule(await count_runs(context, axis, dense, since, counted_max))
    for one in dense:
        some = counts.get(one.id, [])
        known = known_counts(axis, old.get(one.id))
        until = old[one.id].until if one.id in old else axis.first
        merged[one.id] = msgspec.structs.replace(
            merged[one.id],
            counts=[*known, *(count for count in some if count.at >= until)],
            since=counted_since(axis, some, counted_max),
        )
    return merged


async def read_records(
    context: OperationContext, axis: DayAxis, ids: Sequence[ScheduleId], since: datetime
) -> Found:
    store, last = context.store, axis.last - TICK
    first = shifted(since, -LONG) if since == axis.first else since
    runs = await store.runs_between(ids, first, axis.last, LANE_RUNS_MAX)
    skips = await store.skips_between(ids, since, last, LANE_DISPOSITIONS_MAX)
    kept_since = kept_from(axis, context.keep)
    forgotten: Sequence[ForgottenRun] = ()
    if kept_since is not None and since < kept_since:
        end = min(kept_since, last)
        forgotten = await store.forgotten_between(ids, since, end, LANE_DISPOSITIONS_MAX)
    return Found(runs=by_schedule(runs), skips=by_schedule(skips), forgotten=by_schedule(forgotten))


def kept_from(axis: DayAxis, keep: timedelta | None) -> datetime | None:
    """Since when jobs are there that are kept for so long; None where the axis begins later."""
    if keep is None:
        return None
    since = shifted(axis.now, -keep)
    return since if since > axis.first else None


def merged_material(found: Found, id: ScheduleId, lane: OldLane | None) -> LaneMaterial:
    """What was read, after what was known."""
    runs, skips = found.runs.get(id, ()), found.skips.get(id, ())
    forgotten = found.forgotten.get(id, ())
    if lane is None:
        return LaneMaterial(runs=runs, skips=skips, forgotten=forgotten)
    grown = {skip.first for skip in skips}
    return LaneMaterial(
        runs=[*(run for run in runs if run.due_at >= lane.until), *lane.runs],
        counts=lane.counts,
        skips=[*skips, *(skip for skip in lane.skips if skip.first not in grown)],
        forgotten=[*(run for run in forgotten if run.at >= lane.until), *lane.forgotten],
    )


def is_dense(axis: DayAxis, material: LaneMaterial) -> bool:
    """Whether it has more runs than are read, all of them on the axis."""
    if material.counts is not None:
        return True
    runs = material.runs
    return len(runs) >= LANE_RUNS_MAX and runs[LANE_RUNS_MAX - 1].due_at >= axis.first


def known_counts(axis: DayAxis, lane: OldLane | None) -> Sequence[RunCount]:
    if lane is None:
        return ()
    return counts_of_runs(axis, lane.runs) if lane.counts is None else lane.counts


async def count_runs(
    context: OperationContext,
    axis: DayAxis,
    dense: Sequence[Schedule],
    since: datetime,
    limit: int,
) -> Sequence[RunCount]:
    """What was due up to now, and what later where no rule tells it: after events."""
    begin, middle, end = since, max(since, axis.now + TICK), axis.last
    reacting = [one.id for one in dense if one.recurrence.kind == "event"]
    found: list[RunCount] = []
    for ids, first, last in (
        ([one.id for one in dense], begin, min(middle, end)),
        (reacting, middle, end),
    ):
        if ids and first < last:
            found += await context.store.run_counts(ids, first, last, axis.width, limit)
    return found


def counted_since(axis: DayAxis, counts: Sequence[RunCount], counted_max: int) -> datetime | None:
    """Where counting ended, which goes back in time; None where it came to the start."""
    later = [one for one in counts if one.at > axis.now]
    past = [one for one in counts if one.at <= axis.now]
    for part in (later, past):
        if sum(one.count for one in part) >= counted_max:
            return min(one.at for one in part)
    return None


def over(
    axis: DayAxis, schedule: Schedule, material: LaneMaterial, before: OldLane | None
) -> OldLane | None:
    """What is over, and when the first part of it was read; None where not all of it is known."""
    runs, counts = material.runs, material.counts
    until = settled_until(axis, schedule, runs if counts is None else (), counts or ())
    if material.since is not None or until <= axis.first:
        return None
    return OldLane(
        until=until,
        read_at=axis.now if before is None else before.read_at,
        updated_at=schedule.updated_at,
        runs=() if counts is not None else tuple(one for one in runs if one.due_at < until),
        counts=None if counts is None else tuple(one for one in counts if one.at < until),
        skips=tuple(one for one in material.skips if one.last < until),
        forgotten=tuple(one for one in material.forgotten if one.at < until),
    )


def by_schedule(records: Iterable[Record]) -> dict[ScheduleId, list[Record]]:
    result: dict[ScheduleId, list[Record]] = {}
    for one in records:
        result.setdefault(one.schedule_id, []).append(one)
    return result
