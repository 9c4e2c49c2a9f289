"""Copies all data of one store into another, with unchanged ids; may be repeated."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final

import msgspec

from onbeat.app.copy.job_copy import JobCopy, export_of
from onbeat.app.copy.table_copy import (
    BATCH,
    Key,
    Kind,
    OnProgress,
    Pages,
    Row,
    TableCopy,
    Tally,
    tally_of_left,
)
from onbeat.app.system import SystemRandomness, identity
from onbeat.model.held_key import HeldKey
from onbeat.model.idempotency import StoredRequest
from onbeat.model.ids import DeadLetterId, EventSeq, JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.log_line import JobLogLine, LineKey
from onbeat.model.page import OccurrenceFilter
from onbeat.model.queue import NO_LIMITS, Limits, Pause
from onbeat.model.schedule import Schedule
from onbeat.model.transition import Stats
from onbeat.model.worker import WorkerRecord
from onbeat.ports.events import EventExport, EventKeyExport, EventWaitExport
from onbeat.ports.store import DispositionExport, Store
from onbeat.wire.workers import seems_alive

LETTERS: Final = 100  # dead letters per batch: each may be as long as a message
FREE: Final = (False, None, NO_LIMITS)


class CopyResult(msgspec.Struct, frozen=True):
    """The result for each kind; `strange` are schedules that only the target has."""

    tallies: dict[Kind, Tally]
    only_in_target: Tally

    @property
    def is_whole(self) -> bool:
        """Whether all data of the source is the same in the target."""
        return not any(tally.left for tally in self.tallies.values())


async def copy(source: Store, target: Store, now: datetime, progress: OnProgress) -> CopyResult:
    """Copy all data of one open store into another; may be repeated.

    A running job arrives waiting. Each batch is one transaction: batches before an error or a
    cancellation stay, and the next run continues. Raises `Conflict` where another schedule of the
    target has the key of a copied one.
    """
    queues = await copy_queues(source, target, now, progress)
    schedules, strange = await copy_schedules(source, target, now, progress)
    dispositions = await copy_dispositions(source, target, now, progress)
    jobs = await JobCopy(source, target).run(progress)
    log_lines = await log_lines_of(source).bring(target.add_log_lines, progress)
    events = await events_of(source).bring(target.import_events, progress)
    event_keys = await copy_event_keys(source, target, progress)
    event_waits = await event_waits_of(source).bring(target.import_event_waits, progress)
    held_keys = await held_keys_of(source).bring(target.import_held_keys, progress)
    requests = await requests_of(source).bring(target.import_requests, progress)
    letters = await copy_dead_letters(source, target, progress)
    of_events, keys = (events, event_keys, event_waits), (held_keys, requests)
    copied = (queues, schedules, dispositions, jobs, log_lines, *of_events, *keys, letters)
    tallies = dict(zip(Kind, copied, strict=True))
    return CopyResult(tallies, strange)


async def copy_queues(source: Store, target: Store, now: datetime, progress: OnProgress) -> Tally:
    """Names, pauses and limits, including queues that are no longer paused or limited."""
    names = await source.queue_names()
    new = {*names}.difference(await target.queue_names())
    await target.name_queues(new)
    rules, here = await queue_settings(source, now), await queue_settings(target, now)
    changed = {name for name in names if rules.get(name, FREE) != here.get(name, FREE)}
    for name in changed:
        paused, pause, limits = rules.get(name, FREE)
        await target.pause_queue(name, paused=paused, pause=pause)
        await target.limit_queue(name, limits)
    progress(Kind.QUEUES, len(names))
    return Tally(len(names), len(changed | new))


async def queue_settings(
    store: Store, now: datetime
) -> dict[str, tuple[bool, Pause | None, Limits]]:
    queues = await store.queues(now)
    return {queue.name: (queue.paused, queue.pause, queue.limits) for queue in queues}


async def copy_schedules(
    source: Store, target: Store, now: datetime, progress: OnProgress
) -> tuple[Tally, Tally]:
    """The second tally counts schedules that only the target has.

    Deletions come first: a new schedule may have the key of a deleted one.
    """
    crossing = TableCopy[Schedule, ScheduleId](
        kind=Kind.SCHEDULES,
        export=source.export_schedules,
        read_target=target.export_schedules,
        key_of=attrgetter("id"),
    )

    async def write(rows: Sequence[Schedule], after: ScheduleId | None) -> Tally:
        tally, still = await import_changed(crossing, target.import_schedules, rows, after)
        return tally.plus(tally_of_left([row.id for row in still]))

    strange = [id async for ids in crossing.only_in_target(lambda _: True) for id in sorted(ids)]
    deleted = {id for id in strange if await follow_deletion(source, target, id, now)}
    tally = (await crossing.run(write, progress)).plus(Tally(changed=len(deleted)))
    return tally, tally_of_left([id for id in strange if id not in deleted])


async def follow_deletion(source: Store, target: Store, id: ScheduleId, now: datetime) -> bool:
    """Delete a schedule that only the target has, if the source has deleted it since.

    The evidence is the end of its jobs in the source by the deletion. The schedule stays while one
    of its jobs is unfinished in either store, or if it was edited later in the target.
    """
    here, ended = await target.schedule(id), await last_finished_at(source, id)
    if here is None or ended is None or ended < here.updated_at:
        return False
    if await live_jobs(source, id):
        return False
    exports = [await export_of(source, job.id) for job in await live_jobs(target, id)]
    await target.import_jobs([export for export in exports if export is not None])
    return not await live_jobs(target, id) and await target.delete_schedule(id, now)


async def last_finished_at(store: Store, id: ScheduleId) -> datetime | None:
    """When the job of its last run time that has ended did so; None where none has ended."""
    page = await store.occurrence_jobs(OccurrenceFilter(schedule_id=id, ended=True, limit=1))
    return page.items[0].finished_at if page.items else None


async def live_jobs(store: Store, id: ScheduleId) -> Sequence[Job]:
    """The unfinished jobs of the schedule, up to one batch."""
    filter = OccurrenceFilter(schedule_id=id, ended=False, limit=BATCH)
    return (await store.occurrence_jobs(filter)).items


async def copy_dispositions(
    source: Store, target: Store, now: datetime, progress: OnProgress
) -> Tally:
    """Copy dispositions. Those left, named by their schedules, are of future occurrences.

    A future one would keep the target's planner from planning an occurrence. Past ones keep the
    text of their first copy, which has no other effect.
    """
    crossing = TableCopy[DispositionExport, tuple[ScheduleId, datetime]](
        kind=Kind.DISPOSITIONS,
        export=source.export_dispositions,
        read_target=target.export_dispositions,
        key_of=lambda row: (row.schedule_id, row.disposition.first),
    )

    def is_future(row: DispositionExport) -> bool:
        return row.disposition.last > now

    async def write(
        rows: Sequence[DispositionExport], after: tuple[ScheduleId, datetime] | None
    ) -> Tally:
        tally, still = await import_changed(crossing, target.import_dispositions, rows, after)
        return tally.plus(tally_of_left([row.schedule_id for row in still if is_future(row)]))

    tally = await crossing.run(write, progress)
    async for keys in crossing.only_in_target(is_future):
        known = {one.id for one in await source.schedules_by_id({id for id, _ in keys})}
        tally = tally.plus(tally_of_left(sorted(id for id, _ in keys if id in known)))
    return tally


async def import_changed(
    crossing: TableCopy[Row, Key],
    restore: Callable[[Sequence[Row]], Awaitable[int]],
    rows: Sequence[Row],
    after: Key | None,
) -> tuple[Tally, list[Row]]:
    """Import rows that differ; returns those that still differ."""
    behind = await crossing.find_outdated(rows, after)
    changed = await restore(behind) if behind else 0
    if changed == len(behind):
        return Tally(len(rows), changed), []
    return Tally(len(rows), changed), await crossing.find_outdated(rows, after)


async def copy_event_keys(source: Store, target: Store, progress: OnProgress) -> Tally:
    """A key that gathered more events in the target stays."""
    crossing = TableCopy[EventKeyExport, JobId](
        kind=Kind.EVENT_KEYS,
        export=source.export_event_keys,
        read_target=target.export_event_keys,
        key_of=attrgetter("job_id"),
        is_same=lambda coming, here: coming.gathered <= here.gathered,
    )

    async def write(rows: Sequence[EventKeyExport], after: JobId | None) -> Tally:
        tally, _ = await import_changed(crossing, target.import_event_keys, rows, after)
        return tally

    return await crossing.run(write, progress)


async def copy_dead_letters(source: Store, target: Store, progress: OnProgress) -> Tally:
    tally = Tally()
    before: DeadLetterId | None = None
    while letters := await source.dead_letters(before, LETTERS):
        here = {one.id for one in await target.dead_letters_by_id([one.id for one in letters])}
        new = [letter for letter in letters if letter.id not in here]
        if new:
            await target.add_dead_letters(new)
        tally = tally.plus(Tally(len(letters), len(new)))
        progress(Kind.LETTERS, len(letters))
        before = letters[-1].id
    return tally


async def count(source: Store, now: datetime, progress: OnProgress) -> dict[Kind, int]:
    """Counts for the progress display. Kinds without a counter are read, with progress."""
    counts = dict.fromkeys(Kind, 0) | totals(await source.stats(now))
    counts[Kind.QUEUES] = len(await source.queue_names())
    counts[Kind.DISPOSITIONS] = await dispositions_of(source).count(progress)
    counts[Kind.LOG_LINES] = await log_lines_of(source).count(progress)
    counts[Kind.EVENTS] = await events_of(source).count(progress)
    counts[Kind.EVENT_KEYS] = await event_keys_of(source).count(progress)
    counts[Kind.EVENT_WAITS] = await event_waits_of(source).count(progress)
    counts[Kind.HELD_KEYS] = await held_keys_of(source).count(progress)
    counts[Kind.REQUESTS] = await requests_of(source).count(progress)
    before: DeadLetterId | None = None
    while letters := await source.dead_letters(before, LETTERS):
        before = letters[-1].id
        counts[Kind.LETTERS] += len(letters)
        progress(Kind.LETTERS, len(letters))
    return counts


def dispositions_of(source: Store) -> Pages[DispositionExport, tuple[ScheduleId, datetime]]:
    return Pages(
        kind=Kind.DISPOSITIONS,
        export=source.export_dispositions,
        key_of=lambda row: (row.schedule_id, row.disposition.first),
    )


def log_lines_of(source: Store) -> Pages[JobLogLine, LineKey]:
    """Copied after the jobs: lines of a job that the target did not take are left out."""
    return Pages(
        kind=Kind.LOG_LINES,
        export=source.export_log_lines,
        key_of=lambda line: (line.job_id, line.number),
    )


def events_of(source: Store) -> Pages[EventExport, EventSeq]:
    """The target numbers them itself, in the same order; it compares them by source and id."""
    return Pages(
        kind=Kind.EVENTS, export=source.export_events, key_of=lambda stored: stored.event.seq
    )


def event_keys_of(source: Store) -> Pages[EventKeyExport, JobId]:
    return Pages(kind=Kind.EVENT_KEYS, export=source.export_event_keys, key_of=attrgetter("job_id"))


def event_waits_of(source: Store) -> Pages[EventWaitExport, tuple[JobId, str]]:
    """Copied after the jobs and the events that they refer to."""
    return Pages(
        kind=Kind.EVENT_WAITS,
        export=source.export_event_waits,
        key_of=lambda row: (row.wait.job_id, row.wait.step),
    )


def held_keys_of(source: Store) -> Pages[HeldKey, str]:
    return Pages(kind=Kind.HELD_KEYS, export=source.export_held_keys, key_of=attrgetter("key"))


def requests_of(source: Store) -> Pages[StoredRequest, bytes]:
    """A request that is sent again to the target is then answered as it was by the source."""
    return Pages(kind=Kind.REQUESTS, export=source.export_requests, key_of=attrgetter("digest"))


def totals(stats: Stats) -> dict[Kind, int]:
    """Counts that need no reading of rows."""
    return {
        Kind.SCHEDULES: sum(stats.schedules.values()),
        Kind.JOBS: sum(stats.jobs.values()),
    }


class Difference(msgspec.Struct, frozen=True):
    """The counts of one kind in the two stores."""

    what: str
    source: int
    target: int


async def differences(source: Store, target: Store, now: datetime) -> list[Difference]:
    """Counts of schedules and jobs by state that differ."""
    ours, theirs = (
        counts_after_copy(await source.stats(now)),
        counts_after_copy(await target.stats(now)),
    )
    return [
        Difference(what, ours.get(what, 0), theirs.get(what, 0))
        for what in ours | theirs
        if ours.get(what, 0) != theirs.get(what, 0)
    ]


def counts_after_copy(stats: Stats) -> dict[str, int]:
    """A running job arrives waiting, so the two states count as one."""
    jobs = dict(stats.jobs)
    jobs["waiting"] = jobs.get("waiting", 0) + jobs.pop("running", 0)
    return {
        **{f"{status} schedules": count for status, count in stats.schedules.items()},
        **{f"{state} jobs": count for state, count in jobs.items()},
    }


async def live_workers(store: Store, now: datetime) -> list[WorkerRecord]:
    """Workers with a recent heartbeat."""
    return [worker for worker in await store.workers() if seems_alive(worker, now)]


async def are_same_store(source: Store, target: Store, now: datetime) -> bool:
    """Whether both names are the same store: a row written to one is visible in the other."""
    probe = identity(SystemRandomness().ids(1)[0], now)
    await target.heartbeat(probe)
    try:
        return any(worker.id == probe.id for worker in await source.workers())
    finally:
        await target.forget_workers([probe.id])
