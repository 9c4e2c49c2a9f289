"""Everything of one store into another, ids unchanged, as often as one likes."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final

import msgspec

from onbeat.app.crossing import BATCH, Crossing, Key, Kind, Row, Tally, Told, left
from onbeat.app.moving_jobs import JobMove, carton_of
from onbeat.app.system import SystemChance, identity
from onbeat.model.event import Stats
from onbeat.model.ids import LetterId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.page import OccurrenceFilter
from onbeat.model.queue import NO_LIMITS, Limits
from onbeat.model.schedule import Schedule
from onbeat.model.worker import Worker
from onbeat.ports.store import Store, Traced
from onbeat.wire.places import seems_alive

LETTERS: Final = 100  # dead letters at a time: each may be as long as a message can be
FREE: Final = (False, NO_LIMITS)


class Copied(msgspec.Struct, frozen=True):
    """What became of each kind; `strange` are schedules that only the target has."""

    tallies: dict[Kind, Tally]
    strange: Tally

    @property
    def is_whole(self) -> bool:
        """Whether all that is in the source is the same in the target."""
        return not any(tally.left for tally in self.tallies.values())


async def copy(source: Store, target: Store, now: datetime, told: Told) -> Copied:
    """Bring everything of one open store into another; may be repeated.

    A running job arrives waiting. Every batch is stored by itself: what was brought before an
    error or a cancellation stays, and the next run goes on from there. Raises `Conflict` where
    another schedule of the target has the key of one that comes.
    """
    queues = await copy_queues(source, target, now, told)
    schedules, strange = await copy_schedules(source, target, now, told)
    dispositions = await copy_dispositions(source, target, now, told)
    jobs = await JobMove(source, target).run(told)
    letters = await copy_letters(source, target, told)
    tallies = dict(zip(Kind, (queues, schedules, dispositions, jobs, letters), strict=True))
    return Copied(tallies, strange)


async def copy_queues(source: Store, target: Store, now: datetime, told: Told) -> Tally:
    """Names, pauses and limits. One that was paused or limited once may be neither now."""
    names = await source.queue_names()
    new = {*names}.difference(await target.queue_names())
    await target.name_queues(new)
    rules, here = await rules_of(source, now), await rules_of(target, now)
    changed = {name for name in names if rules.get(name, FREE) != here.get(name, FREE)}
    for name in changed:
        paused, limits = rules.get(name, FREE)
        await target.pause_queue(name, paused=paused)
        await target.limit_queue(name, limits)
    told(Kind.QUEUES, len(names))
    return Tally(len(names), len(changed | new))


async def rules_of(store: Store, now: datetime) -> dict[str, tuple[bool, Limits]]:
    return {queue.name: (queue.paused, queue.limits) for queue in await store.queues(now)}


async def copy_schedules(
    source: Store, target: Store, now: datetime, told: Told
) -> tuple[Tally, Tally]:
    """The second tally is of those that only the target has.

    Deletions come first: a new schedule may have the key of one that was deleted.
    """
    crossing = Crossing[Schedule, ScheduleId](
        kind=Kind.SCHEDULES,
        export=source.export_schedules,
        here=target.export_schedules,
        key_of=attrgetter("id"),
    )

    async def bring(rows: Sequence[Schedule], after: ScheduleId | None) -> Tally:
        tally, still = await brought(crossing, target.restore_schedules, rows, after)
        return tally.plus(left([row.id for row in still]))

    strange = [id async for ids in crossing.strangers(lambda _: True) for id in sorted(ids)]
    deleted = {id for id in strange if await follow_deletion(source, target, id, now)}
    tally = (await crossing.run(bring, told)).plus(Tally(changed=len(deleted)))
    return tally, left([id for id in strange if id not in deleted])


async def follow_deletion(source: Store, target: Store, id: ScheduleId, now: datetime) -> bool:
    """Delete a schedule that only the target has, where it was deleted in the source since.

    That is known by what the deletion ended there. It is not followed while a job of the schedule
    has still to end in either store, nor where the schedule was edited in the target later.
    """
    here, ended = await target.schedule(id), await ended_last(source, id)
    if here is None or ended is None or ended < here.updated_at:
        return False
    if await live_jobs(source, id):
        return False
    cartons = [await carton_of(source, job.id) for job in await live_jobs(target, id)]
    await target.restore_jobs([carton for carton in cartons if carton is not None])
    return not await live_jobs(target, id) and await target.delete_schedule(id, now)


async def ended_last(store: Store, id: ScheduleId) -> datetime | None:
    """When that job of the schedule ended that was due last; None where none has ended."""
    page = await store.occurrence_jobs(OccurrenceFilter(schedule_id=id, ended=True, limit=1))
    return page.items[0].finished_at if page.items else None


async def live_jobs(store: Store, id: ScheduleId) -> Sequence[Job]:
    """Those of the schedule that have still to end, or many of them."""
    asked = OccurrenceFilter(schedule_id=id, ended=False, limit=BATCH)
    return (await store.occurrence_jobs(asked)).items


async def copy_dispositions(source: Store, target: Store, now: datetime, told: Told) -> Tally:
    """Those that are left, named by their schedules, are of occurrences to come.

    Such a one would keep the target's planner from an occurrence. What is told of the past stays as
    it was first copied: no more than words depend on it.
    """
    crossing = Crossing[Traced, tuple[ScheduleId, datetime]](
        kind=Kind.DISPOSITIONS,
        export=source.export_dispositions,
        here=target.export_dispositions,
        key_of=lambda row: (row.schedule_id, row.disposition.first),
    )

    def is_to_come(row: Traced) -> bool:
        return row.disposition.last > now

    async def bring(rows: Sequence[Traced], after: tuple[ScheduleId, datetime] | None) -> Tally:
        tally, still = await brought(crossing, target.restore_dispositions, rows, after)
        return tally.plus(left([row.schedule_id for row in still if is_to_come(row)]))

    tally = await crossing.run(bring, told)
    async for keys in crossing.strangers(is_to_come):
        known = {one.id for one in await source.schedules_by_id({id for id, _ in keys})}
        tally = tally.plus(left(sorted(id for id, _ in keys if id in known)))
    return tally


async def brought(
    crossing: Crossing[Row, Key],
    restore: Callable[[Sequence[Row]], Awaitable[int]],
    rows: Sequence[Row],
    after: Key | None,
) -> tuple[Tally, list[Row]]:
    """Restores what differs; answers with the rows that differ still."""
    behind = await crossing.behind(rows, after)
    changed = await restore(behind) if behind else 0
    if changed == len(behind):
        return Tally(len(rows), changed), []
    return Tally(len(rows), changed), await crossing.behind(rows, after)


async def copy_letters(source: Store, target: Store, told: Told) -> Tally:
    tally = Tally()
    before: LetterId | None = None
    while letters := await source.dead_letters(before, LETTERS):
        here = {one.id for one in await target.dead_letters_by_id([one.id for one in letters])}
        new = [letter for letter in letters if letter.id not in here]
        if new:
            await target.bury(new)
        tally = tally.plus(Tally(len(letters), len(new)))
        told(Kind.LETTERS, len(letters))
        before = letters[-1].id
    return tally


async def count(source: Store, now: datetime, told: Told) -> dict[Kind, int]:
    """How much there is to copy. Some can be counted only by reading it, which is told."""
    counts = dict.fromkeys(Kind, 0) | totals(await source.stats(now))
    counts[Kind.QUEUES] = len(await source.queue_names())
    after: tuple[ScheduleId, datetime] | None = None
    while rows := await source.export_dispositions(after, BATCH):
        after = rows[-1].schedule_id, rows[-1].disposition.first
        counts[Kind.DISPOSITIONS] += len(rows)
        told(Kind.DISPOSITIONS, len(rows))
    before: LetterId | None = None
    while letters := await source.dead_letters(before, LETTERS):
        before = letters[-1].id
        counts[Kind.LETTERS] += len(letters)
        told(Kind.LETTERS, len(letters))
    return counts


def totals(stats: Stats) -> dict[Kind, int]:
    """How many there are, of what is counted without reading it."""
    return {
        Kind.SCHEDULES: sum(stats.schedules.values()),
        Kind.JOBS: sum(stats.jobs.values()),
    }


class Difference(msgspec.Struct, frozen=True):
    """How many there are of something in each of the two stores."""

    what: str
    source: int
    target: int


async def differences(source: Store, target: Store, now: datetime) -> list[Difference]:
    """Counts of schedules and jobs by state that are not the same."""
    ours, theirs = arrived(await source.stats(now)), arrived(await target.stats(now))
    return [
        Difference(what, ours.get(what, 0), theirs.get(what, 0))
        for what in ours | theirs
        if ours.get(what, 0) != theirs.get(what, 0)
    ]


def arrived(stats: Stats) -> dict[str, int]:
    """A running job arrives waiting, so the two count as one."""
    jobs = dict(stats.jobs)
    jobs["waiting"] = jobs.get("waiting", 0) + jobs.pop("running", 0)
    return {
        **{f"{status} schedules": count for status, count in stats.schedules.items()},
        **{f"{state} jobs": count for state, count in jobs.items()},
    }


async def living(store: Store, now: datetime) -> list[Worker]:
    """Workers of which was heard lately."""
    return [worker for worker in await store.workers() if seems_alive(worker, now)]


async def are_one(source: Store, target: Store, now: datetime) -> bool:
    """Whether one store goes by two names: what is written into the one is seen in the other."""
    probe = identity(SystemChance().ids(1)[0], now)
    await target.beat(probe)
    try:
        return any(worker.id == probe.id for worker in await source.workers())
    finally:
        await target.forget_workers([probe.id])
