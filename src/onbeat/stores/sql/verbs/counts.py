"""Counts of jobs, by queue and over the whole store.

Waiting jobs are counted on indexes, mostly without reading their rows.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from onbeat.model.pulse import Depth, Gauges
from onbeat.model.queue import GroupDepths, Queue
from onbeat.model.transition import Stats
from onbeat.rules.group_depths import group_depths as depths_of_groups
from onbeat.stores.sql.forms import WaitingList
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, micros_or_none
from onbeat.stores.sql.verbs.queues import read_limits, read_pause
from onbeat.stores.sql.verbs.workers import WORKER

ALL_STATES: Final = dict.fromkeys(("waiting", "running", "succeeded", "failed", "cancelled"), 0)
ALL_STATUSES: Final = dict.fromkeys(("active", "paused", "finished"), 0)


class Count(msgspec.Struct, frozen=True, array_like=True):
    """Live jobs of one queue and lane. `oldest` is the earliest due time of unblocked ones."""

    queue: str
    lane: str | None
    waiting: int
    due: int
    oldest: int | None
    running: int
    blocked: int


async def count_live(session: Session, now: int) -> list[Count]:
    """One statement, so that a job that starts meanwhile is counted once."""
    lists = session.forms.waiting_lists
    parts = [*(select_waiting(session, one) for one in lists), select_running(session)]
    return await select_counts(session, parts, *[now] * len(lists))


async def live_counts(session: Session, now: int, sampled: Gauges | None) -> list[Count]:
    """Waiting jobs as they were sampled, and what runs now; without a sample all are counted."""
    if sampled is None:
        return await count_live(session, now)
    return [
        *(waiting_count(name, depth) for name, depth in sampled.queues.items()),
        *await select_counts(session, [select_running(session)]),
    ]


def waiting_count(queue: str, depth: Depth) -> Count:
    return Count(
        queue=queue,
        lane=None,
        waiting=depth.waiting,
        due=depth.due,
        oldest=micros_or_none(depth.oldest_due_at),
        running=0,
        blocked=depth.blocked,
    )


async def select_counts(session: Session, parts: Sequence[str], *values: int) -> list[Count]:
    rest = f"FROM ({' UNION ALL '.join(parts)}) AS counted"
    columns = "queue, lane, waiting, due, oldest, running, blocked"
    rows = await session.select(columns, rest, *values)
    return [
        Count(queue, lane, waiting, int(due), oldest, running, int(blocked))
        for queue, lane, waiting, due, oldest, running, blocked in rows
    ]


def select_running(session: Session) -> str:
    dialect = session.dialect
    return f"""
        SELECT queue, NULL AS lane, 0 AS waiting, 0 AS due, NULL AS oldest, count(*) AS running,
               0 AS blocked
        FROM onbeat.jobs {dialect.use_index("jobs_running")} WHERE {dialect.is_running}
        GROUP BY queue
    """  # noqa: S608  no value in it


def select_waiting(session: Session, jobs: WaitingList) -> str:
    """The only value is the current time."""
    due, oldest, blocked = "due_at <= ?", "due_at", "0"
    if jobs.may_be_blocked:
        due, oldest = f"{due} AND blocked_by = 0", "CASE WHEN blocked_by = 0 THEN due_at END"
        blocked = "count(CASE WHEN blocked_by > 0 THEN 1 END)"
    return f"""
        SELECT {jobs.queue} AS queue, {jobs.lane} AS lane, count(*) AS waiting,
               count(CASE WHEN {due} THEN 1 END) AS due, min({oldest}) AS oldest, 0 AS running,
               {blocked} AS blocked
        FROM onbeat.jobs {session.dialect.use_index(jobs.index)} WHERE {jobs.where}
        GROUP BY {jobs.groups}
    """  # noqa: S608  values are bound


async def queues(session: Session, now: int, sampled: Gauges | None) -> list[Queue]:
    counts = await live_counts(session, now, sampled)
    index = session.dialect.use_index("queues_apart")
    rest = f"FROM onbeat.queues {index} WHERE {session.forms.has_rules}"
    rows = await session.select("name, paused, limits, pause", rest)
    rules = read_rules([row[:3] for row in rows])
    for name, *_, pause in rows:
        rules[name] = msgspec.structs.replace(rules[name], pause=read_pause(pause))
    for name, paused, late_after in await watched(session):
        known = rules.get(name, Queue(name=name, paused=bool(paused)))
        limits = msgspec.structs.replace(known.limits, late_after=late_after)
        rules[name] = msgspec.structs.replace(known, limits=limits)
    by_queue: dict[str, list[Count]] = {name: [] for name in rules}
    for one in counts:
        by_queue.setdefault(one.queue, []).append(one)
    return [
        queue_of(rules.get(name, Queue(name=name)), by_queue[name], now)
        for name in sorted(by_queue)
    ]


def read_rules(rows: Sequence[Sequence[Any]]) -> dict[str, Queue]:
    """The settings of paused or limited queues, without counts, pause and lateness."""
    return {
        name: Queue(name=name, paused=bool(paused), limits=read_limits(limits))
        for name, paused, limits in rows
    }


async def watched(session: Session) -> list[tuple[str, bool, timedelta]]:
    """The queues with `late_after`: name, whether it is paused, and the span."""
    index = session.dialect.use_index("queues_watched")
    rest = f"FROM onbeat.queues {index} WHERE late_after IS NOT NULL"
    rows = await session.select("name, paused, late_after", rest)
    return [(name, bool(paused), timedelta(microseconds=after)) for name, paused, after in rows]


def queue_of(rules: Queue, counts: Sequence[Count], now: int) -> Queue:
    """In one loop: a page of the dashboard reads some hundred queues every two seconds."""
    waiting = due = running = 0
    for one in counts:
        waiting += one.waiting
        due += one.due
        running += one.running
    oldest = oldest_due(counts, now)
    return msgspec.structs.replace(
        rules,
        waiting=waiting,
        due=due,
        running=running,
        oldest_due_at=None if oldest is None else instant(oldest),
    )


async def group_depths(session: Session, name: str, look: int) -> GroupDepths:
    """Of the ready jobs in the order of the index that claims read, and of those that run."""
    dialect = session.dialect
    ready: list[str | None] = []
    for jobs in session.forms.waiting_lists:
        if jobs.may_be_blocked:
            continue
        of_queue, values = jobs.of_queue(name)
        index = dialect.use_index(jobs.index)
        found = f"FROM onbeat.jobs {index} WHERE {of_queue} AND {jobs.where} LIMIT ?"
        rows = await session.select("grp", found, *values, look + 1)
        ready += [group for (group,) in rows]
    index = dialect.use_index("jobs_running")
    found = f"FROM onbeat.jobs {index} WHERE {dialect.is_running} AND queue = ? LIMIT ?"
    running = [group for (group,) in await session.select("grp", found, name, look + 1)]
    newest = "FROM onbeat.turns WHERE queue = ? ORDER BY turn DESC LIMIT ?"
    turns: dict[str, int] = {}
    for group, turn in await session.select("grp, turn", newest, name, look):
        turns.setdefault(group, turn)
    more = len(ready) > look or len(running) > look
    return depths_of_groups(ready[:look], running[:look], turns, more=more)


def oldest_due(counts: Sequence[Count], now: int) -> int | None:
    dues = (one.oldest for one in counts if one.oldest is not None and one.oldest <= now)
    return min(dues, default=None)


async def stats(
    session: Session, now: int, ended: Mapping[str, int] | None, sampled: Gauges | None
) -> Stats:
    live = await live_counts(session, now, sampled)
    if ended is None:
        ended = await count_by_state(session)
    schedules = await count_by(session, "status", "onbeat.schedules")
    workers = await session.select("record", "FROM onbeat.workers")
    known = {lane for (record,) in workers for lane in WORKER.decode(record).lanes}
    running = sum(one.running for one in live)
    waiting = sum(one.waiting for one in live)
    oldest = oldest_due(live, now)
    return Stats(
        jobs=ALL_STATES | dict(ended) | {"waiting": waiting, "running": running},
        schedules=ALL_STATUSES | schedules,
        workers=len(workers),
        oldest_due_seconds=0.0 if oldest is None else (now - oldest) / 1_000_000,
        unknown_tasks=count_unknown(live, known)
        if sampled is None
        else dict(sampled.unknown_tasks),
    )


async def count_by_state(session: Session) -> dict[str, int]:
    """Reads all ended jobs, of an index where there is one by state."""
    index = session.dialect.use_index("finished_by_end")
    return await count_by(session, "state", f"onbeat.finished {index}")


async def count_by(session: Session, column: str, table: str) -> dict[str, int]:
    counted = f"(SELECT {column}, count(*) AS total FROM {table} GROUP BY {column}) AS counted"  # noqa: S608  no value in it
    rows = await session.select(f"{column}, total", f"FROM {counted}")
    return {str(name): int(total) for name, total in rows}


def count_unknown(counts: Sequence[Count], known: Collection[str]) -> dict[str, int]:
    """Waiting jobs by lane, of lanes that no worker serves."""
    unknown: Counter[str] = Counter()
    for one in counts:
        if one.lane is not None and one.lane not in known:
            unknown[one.lane] += one.waiting
    return dict(unknown)
