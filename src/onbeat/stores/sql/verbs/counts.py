"""Counts of jobs, by queue and over the whole store.

Waiting jobs are counted on indexes, mostly without reading their rows.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from onbeat.model.event import Stats
from onbeat.model.queue import Queue
from onbeat.stores.sql.forms import WaitingList
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant
from onbeat.stores.sql.verbs.queues import read_limits
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


async def count_live(session: Session, now: int) -> list[Count]:
    """One statement, so that a job that starts meanwhile is counted once."""
    dialect, lists = session.dialect, session.forms.waiting_lists
    running = f"""
        SELECT queue, NULL, 0, 0, NULL, count(*)
        FROM onbeat.jobs {dialect.use_index("jobs_running")} WHERE {dialect.is_running}
        GROUP BY queue
    """  # noqa: S608  values are bound
    parts = [*(select_waiting(session, one) for one in lists), running]
    rest = f"FROM ({' UNION ALL '.join(parts)}) AS counted"
    columns = "queue, lane, waiting, due, oldest, running"
    rows = await session.select(columns, rest, *[now] * len(lists))
    return [
        Count(queue, lane, waiting, int(due), oldest, running)
        for queue, lane, waiting, due, oldest, running in rows
    ]


def select_waiting(session: Session, jobs: WaitingList) -> str:
    """The only value is the current time."""
    due, oldest = "due_at <= ?", "due_at"
    if jobs.may_be_blocked:
        due, oldest = f"{due} AND blocked_by = 0", "CASE WHEN blocked_by = 0 THEN due_at END"
    return f"""
        SELECT {jobs.queue} AS queue, {jobs.lane} AS lane, count(*) AS waiting,
               count(CASE WHEN {due} THEN 1 END) AS due, min({oldest}) AS oldest, 0 AS running
        FROM onbeat.jobs {session.dialect.use_index(jobs.index)} WHERE {jobs.where}
        GROUP BY {jobs.groups}
    """  # noqa: S608  values are bound


async def queues(session: Session, now: int) -> list[Queue]:
    counts = await count_live(session, now)
    index = session.dialect.use_index("queues_apart")
    rest = f"FROM onbeat.queues {index} WHERE {session.forms.has_rules}"
    rules = read_rules(await session.select("name, paused, limits", rest))
    by_queue: dict[str, list[Count]] = {name: [] for name in rules}
    for one in counts:
        by_queue.setdefault(one.queue, []).append(one)
    return [
        queue_of(rules.get(name, Queue(name=name)), by_queue[name], now)
        for name in sorted(by_queue)
    ]


def read_rules(rows: Sequence[Sequence[Any]]) -> dict[str, Queue]:
    """The settings of paused or limited queues, without their counts."""
    return {
        name: Queue(name=name, paused=bool(paused), limits=read_limits(limits))
        for name, paused, limits in rows
    }


def queue_of(rules: Queue, counts: Sequence[Count], now: int) -> Queue:
    oldest = oldest_due(counts, now)
    return msgspec.structs.replace(
        rules,
        waiting=sum(one.waiting for one in counts),
        due=sum(one.due for one in counts),
        running=sum(one.running for one in counts),
        oldest_due_at=None if oldest is None else instant(oldest),
    )


def oldest_due(counts: Sequence[Count], now: int) -> int | None:
    dues = (one.oldest for one in counts if one.oldest is not None and one.oldest <= now)
    return min(dues, default=None)


async def stats(session: Session, now: int) -> Stats:
    live = await count_live(session, now)
    ended = await count_ended(session)
    schedules = await count_by(session, "status", "onbeat.schedules")
    workers = await session.select("record", "FROM onbeat.workers")
    known = {lane for (record,) in workers for lane in WORKER.decode(record).lanes}
    running = sum(one.running for one in live)
    waiting = sum(one.waiting for one in live)
    oldest = oldest_due(live, now)
    return Stats(
        jobs=ALL_STATES | ended | {"waiting": waiting, "running": running},
        schedules=ALL_STATUSES | schedules,
        workers=len(workers),
        oldest_due_seconds=0.0 if oldest is None else (now - oldest) / 1_000_000,
        unknown_tasks=count_unknown(live, known),
    )


async def count_ended(session: Session) -> dict[str, int]:
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
