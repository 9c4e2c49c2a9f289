"""Answers of several cells as one: pages in one order, counts and depths added."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from onbeat.model.fault import HOURS_KEPT, FaultJobs, FaultRecord
from onbeat.model.flow import FlowLook
from onbeat.model.job import Job, JobState
from onbeat.model.page import Counted, Page
from onbeat.model.pulse import Depth, EndedCounts, Gauges
from onbeat.model.queue import NO_LIMITS, GroupDepth, GroupDepths, Queue, WatchedQueue
from onbeat.model.transition import Stats

Item = TypeVar("Item")
Key = TypeVar("Key")

HOUR: Final = timedelta(hours=1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def newest(parts: Iterable[Sequence[Item]], key: Callable[[Item], Any], limit: int) -> list[Item]:
    """The `limit` largest of all parts, in falling order."""
    return sorted((item for part in parts for item in part), key=key, reverse=True)[:limit]


def merge_job_pages(pages: Sequence[Page[Job]], limit: int) -> Page[Job]:
    """The page of all cells, newest first, which goes on below one id in every cell.

    Ids are in one order over all cells. A cell whose page has a cursor has looked no further than
    there, so what is older in others waits for the next page: none is left out or told twice.
    """
    open_pages = [page for page in pages if page.cursor is not None]
    furthest = max(open_pages, key=lambda page: page.cursor or "", default=None)
    edge = "" if furthest is None else furthest.cursor or ""
    seen = [[job for job in page.items if job.id >= edge] for page in pages]
    items = newest(seen, attrgetter("id"), limit + 1)
    totals = [page.total for page in pages]
    total = None if None in totals else sum(total or 0 for total in totals)
    searched = sum(page.searched or 0 for page in pages) or None
    if len(items) > limit:
        return Page(tuple(items[:limit]), total, cursor=items[limit - 1].id if limit else None)
    if furthest is None:
        return Page(tuple(items), total)
    if items and len(items) == limit:
        return Page(tuple(items), total, cursor=items[-1].id)
    return Page(tuple(items), total, edge, searched, furthest.searched_to)


def merge_counted(counts: Iterable[Counted], most: int) -> Counted:
    counts = list(counts)
    count = sum(one.count for one in counts)
    return Counted(min(count, most), more=count > most or any(one.more for one in counts))


def merge_flow_looks(looks: Iterable[Sequence[FlowLook]], limit: int) -> list[FlowLook]:
    """Flows, the newest first; of one with jobs in several cells the counts are added."""
    ordered = sorted((one for part in looks for one in part), key=attrgetter("flow"), reverse=True)
    merged = [
        FlowLook(flow, add_counts(one.counts for one in same), any(one.more for one in same))
        for flow, same in grouped(ordered, attrgetter("flow"))
    ]
    return merged[:limit]


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> list[tuple[Key, list[Item]]]:
    """Neighbours with the same key."""
    return [(value, list(same)) for value, same in groupby(items, key)]


def add_counts(counts: Iterable[Mapping[Key, int]]) -> dict[Key, int]:
    added = Counter[Key]()
    for one in counts:
        added.update(one)
    return dict(added)


def merge_flow_counts(
    found: Iterable[Mapping[Key, Mapping[JobState, int]]],
) -> dict[Key, dict[JobState, int]]:
    merged: dict[Key, dict[JobState, int]] = {}
    for one in found:
        for flow, counts in one.items():
            merged[flow] = add_counts([merged.get(flow, {}), counts])
    return merged


def earliest(instants: Iterable[datetime | None]) -> datetime | None:
    return min((at for at in instants if at is not None), default=None)


def add_depths(depths: Iterable[Depth]) -> Depth:
    depths = list(depths)
    return Depth(
        waiting=sum(one.waiting for one in depths),
        due=sum(one.due for one in depths),
        running=sum(one.running for one in depths),
        blocked=sum(one.blocked for one in depths),
        oldest_due_at=earliest(one.oldest_due_at for one in depths),
    )


def add_gauges(gauges: Sequence[Gauges]) -> Gauges:
    """One sample of all cells, as old as the oldest of them."""
    names = sorted({name for one in gauges for name in one.queues})
    ended = [one.ended for one in gauges if one.ended is not None]
    return Gauges(
        at=min(one.at for one in gauges),
        took=max(one.took for one in gauges),
        total=add_depths(one.total for one in gauges),
        queues={
            name: add_depths(one.queues[name] for one in gauges if name in one.queues)
            for name in names
        },
        queues_more=max(one.queues_more for one in gauges),
        unknown_tasks=add_counts(one.unknown_tasks for one in gauges),
        dead_letters=sum(one.dead_letters for one in gauges),
        workers=sum(one.workers for one in gauges),
        slots=sum(one.slots for one in gauges),
        ended=add_ended(ended) if len(ended) == len(gauges) else None,
    )


def add_ended(ended: Sequence[EndedCounts]) -> EndedCounts:
    return EndedCounts(
        at=min(one.at for one in ended),
        took=max(one.took for one in ended),
        jobs=add_counts(one.jobs for one in ended),
    )


def merge_samples(samples: Iterable[Sequence[Gauges]], resolution: int, limit: int) -> list[Gauges]:
    """The samples of the same `resolution` seconds added, newest first.

    The oldest ones are left out where a cell may have more that were not read.
    """

    def span(sample: Gauges) -> int:
        return int((sample.at - EPOCH).total_seconds()) // resolution

    ordered = newest(samples, attrgetter("at"), limit)
    by_span = sorted(ordered, key=span, reverse=True)
    return [add_gauges(same) for _, same in grouped(by_span, span)]


def merge_queues(found: Iterable[Sequence[Queue]]) -> list[Queue]:
    """Queues by name. One that a cell has paused is shown as paused, limits are of one cell."""
    ordered = sorted((queue for part in found for queue in part), key=attrgetter("name"))
    return [merge_queue(name, same) for name, same in grouped(ordered, attrgetter("name"))]


def merge_queue(name: str, same: Sequence[Queue]) -> Queue:
    return Queue(
        name=name,
        paused=any(one.paused for one in same),
        pause=next((one.pause for one in same if one.pause is not None), None),
        limits=next((one.limits for one in same if one.limits != NO_LIMITS), NO_LIMITS),
        waiting=sum(one.waiting for one in same),
        due=sum(one.due for one in same),
        running=sum(one.running for one in same),
        oldest_due_at=earliest(one.oldest_due_at for one in same),
    )


def merge_watched(found: Iterable[Sequence[WatchedQueue]]) -> list[WatchedQueue]:
    """Queues by name, each as in the cell where its oldest job is due."""
    ordered = sorted((one for part in found for one in part), key=attrgetter("name"))
    return [merge_watched_queue(same) for _, same in grouped(ordered, attrgetter("name"))]


def merge_watched_queue(same: Sequence[WatchedQueue]) -> WatchedQueue:
    due = [one for one in same if one.oldest_due_at is not None]
    chosen = min(due, key=attrgetter("oldest_due_at"), default=same[0])
    return replace(
        chosen,
        paused=any(one.paused for one in same),
        late_since=earliest(one.late_since for one in same),
    )


def with_sample(queues: Sequence[Queue], sampled: Gauges) -> list[Queue]:
    """The queues with waiting jobs as they were sampled."""
    known = {queue.name: queue for queue in queues}
    names = sorted({*known, *sampled.queues})
    return [
        replace(
            known.get(name, Queue(name=name)),
            waiting=depth.waiting,
            due=depth.due,
            oldest_due_at=depth.oldest_due_at,
        )
        for name in names
        for depth in [sampled.queues.get(name, Depth())]
    ]


def merge_group_depths(found: Sequence[GroupDepths]) -> GroupDepths:
    """The deepest groups first. Turns are of a cell each, so none are told for several."""
    ordered = sorted((one for part in found for one in part.groups), key=attrgetter("group"))
    merged = [
        same[0]
        if len(same) == 1
        else GroupDepth(
            group=group,
            waiting=sum(one.waiting for one in same),
            running=sum(one.running for one in same),
        )
        for group, same in grouped(ordered, attrgetter("group"))
    ]
    merged.sort(key=lambda one: (-one.waiting - one.running, one.group))
    return GroupDepths(tuple(merged), more=any(one.more for one in found))


def add_stats(
    found: Sequence[Stats],
    now: datetime,
    ended: Mapping[str, int] | None,
    sampled: Gauges | None,
) -> Stats:
    """Counts over all cells; what was sampled is that of the sample."""
    jobs = add_zeros(one.jobs for one in found) | dict(ended or {})
    oldest = max((one.oldest_due_seconds for one in found), default=0.0)
    unknown = add_counts(one.unknown_tasks for one in found)
    if sampled is not None:
        jobs |= {JobState.WAITING.value: sampled.total.waiting}
        due = sampled.total.oldest_due_at
        oldest = 0.0 if due is None else (now - due).total_seconds()
        unknown = dict(sampled.unknown_tasks)
    return Stats(
        jobs=jobs,
        schedules=add_zeros(one.schedules for one in found),
        workers=sum(one.workers for one in found),
        oldest_due_seconds=oldest,
        unknown_tasks=unknown,
    )


def add_zeros(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums, with the names that are 0 everywhere, in the order of the first."""
    added: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            added[name] = added.get(name, 0) + count
    return added


def merge_faults(found: Iterable[Sequence[FaultRecord]]) -> list[FaultRecord]:
    """Faults by key; the newest failure says where one is seen, the counts are added."""
    ordered = sorted((one for part in found for one in part), key=attrgetter("fault"))
    return [merge_fault(same) for _, same in grouped(ordered, attrgetter("fault"))]


def merge_fault(same: Sequence[FaultRecord]) -> FaultRecord:
    last, first = max(same, key=attrgetter("last_at")), min(same, key=attrgetter("first_at"))
    hours = [0] * HOURS_KEPT
    for one in same:
        behind = hour_of(last.last_at) - hour_of(one.last_at)
        for age, count in enumerate(reversed(one.hours), behind):
            if age < HOURS_KEPT:
                hours[age] += count
    kept = max((age + 1 for age, count in enumerate(hours) if count), default=0)
    return replace(
        last,
        first_at=first.first_at,
        process=first.process,
        attempts=sum(one.attempts for one in same),
        hours=tuple(reversed(hours[:kept])),
    )


def hour_of(at: datetime) -> int:
    return (at - EPOCH) // HOUR


def add_fault_jobs(found: Iterable[Mapping[int, FaultJobs]], limit: int) -> dict[int, FaultJobs]:
    added: dict[int, FaultJobs] = {}
    for one in found:
        for fault, jobs in one.items():
            known = added.get(fault, FaultJobs())
            added[fault] = FaultJobs(
                failed=min(known.failed + jobs.failed, limit),
                waiting=min(known.waiting + jobs.waiting, limit),
            )
    return added
