"""The history of rates and depths."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from onbeat.model.limits import COUNTED_MAX, UNKNOWN_TASKS_MAX
from onbeat.model.pulse import Depth, EndedCounts, Gauges, Pulse, SeriesTotals, Totals
from onbeat.rules.pulses import deepest, slot
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, instant_or_none, micros, to_json
from onbeat.stores.sql.verbs.counts import (
    Count,
    count_by_state,
    count_live,
    count_unknown,
    oldest_due,
)
from onbeat.stores.sql.verbs.workers import WORKER

PULSE_COLUMNS: Final[Columns] = {
    "resolution": "integer",
    "at": "bigint",
    "source": "text",
    "totals": "text",
    "series": "text",
}
SAMPLE_COLUMNS: Final[Columns] = {"resolution": "integer", "at": "bigint", "body": "text"}

TOTALS: Final = msgspec.json.Decoder(Totals)
SERIES: Final = msgspec.json.Decoder(tuple[SeriesTotals, ...])
GAUGES: Final = msgspec.json.Decoder(Gauges)
QUEUES: Final = ',"queues":'
HEAD_CHARS: Final = 400
"""More than what comes before the queues of a sample can have."""


def pulse_row(pulse: Pulse) -> Row:
    return (
        pulse.resolution,
        micros(pulse.at),
        pulse.source,
        to_json(pulse.totals),
        to_json(pulse.series),
    )


def read_pulse(resolution: int, row: Sequence[Any]) -> Pulse:
    at, source, totals, *series = row
    return Pulse(
        resolution=resolution,
        at=instant(at),
        source=source,
        totals=TOTALS.decode(totals),
        series=SERIES.decode(series[0]) if series else (),
    )


def sample_row(resolution: int, sample: Gauges) -> Row:
    return resolution, micros(slot(sample.at, resolution)), to_json(sample)


async def put_pulses(session: Session, rows: Sequence[Row]) -> int:
    """In the order of their keys, so that processes do not wait for each other in circles."""
    ending = session.dialect.unless_there("resolution", "at", "source")
    return await session.insert_rows("pulses", PULSE_COLUMNS, sorted(rows), ending)


async def put_samples(session: Session, rows: Sequence[Row]) -> int:
    ending = session.dialect.unless_there("resolution", "at")
    return await session.insert_rows("gauges", SAMPLE_COLUMNS, sorted(rows), ending)


async def pulses(
    session: Session, resolution: int, first: int, last: int, limit: int, *, series: bool
) -> Sequence[Pulse]:
    rest = """
        FROM onbeat.pulses
        WHERE resolution = ? AND at >= ? AND at < ?
        ORDER BY at DESC, source DESC
        LIMIT ?
    """
    columns = "at, source, totals, series" if series else "at, source, totals"
    rows = await session.select(columns, rest, resolution, first, last, limit)
    return [read_pulse(resolution, row) for row in rows]


async def samples(
    session: Session, resolution: int, first: int, last: int, limit: int, *, queues: bool
) -> Sequence[Gauges]:
    """Without `queues` only the beginning of each text is read: many queues make it long."""
    body = "body" if queues else f"substr(body, 1, {HEAD_CHARS}) AS body"
    rest = f"""
        FROM (SELECT at, {body} FROM onbeat.gauges
              WHERE resolution = ? AND at >= ? AND at < ? ORDER BY at DESC LIMIT ?) AS chosen
        ORDER BY at DESC
    """  # noqa: S608  values are bound
    rows = await session.select("body", rest, resolution, first, last, limit)
    return [GAUGES.decode(body) if queues else read_head(body) for (body,) in rows]


def read_head(text: str) -> Gauges:
    """What a sample has before its queues; the text may be cut anywhere behind that."""
    return GAUGES.decode(text.partition(QUEUES)[0] + "}")


async def newest_sample(session: Session, resolution: int) -> Gauges | None:
    rest = "FROM onbeat.gauges WHERE resolution = ? ORDER BY at DESC LIMIT 1"
    rows = await session.select("body", rest, resolution)
    return GAUGES.decode(rows[0][0]) if rows else None


async def oldest_history(session: Session, resolution: int) -> int | None:
    ats: list[int] = []
    for table in ("pulses", "gauges"):
        rest = f"FROM onbeat.{table} WHERE resolution = ? ORDER BY at LIMIT 1"
        ats += [at for (at,) in await session.select("at", rest, resolution)]
    return min(ats, default=None)


async def fold_history(
    session: Session,
    resolution: int,
    first: int,
    last: int,
    pulses: Sequence[Row],
    samples: Sequence[Row],
) -> int:
    await put_pulses(session, pulses)
    await put_samples(session, samples)
    gone = 0
    for table in ("pulses", "gauges"):
        sql = f"DELETE FROM onbeat.{table} WHERE resolution = ? AND at >= ? AND at < ?"  # noqa: S608  values are bound
        gone += await session.execute(sql, resolution, first, last)
    return gone


async def count_depths(session: Session, now: int, queues_max: int) -> Gauges:
    live = await count_live(session, now)
    records = await session.select("record", "FROM onbeat.workers")
    workers = [WORKER.decode(record) for (record,) in records]
    known = {lane for worker in workers for lane in worker.lanes}
    sample = Gauges(
        at=instant(now),
        total=depth_of(live, now),
        queues=depths_of(live, now),
        unknown_tasks=most(count_unknown(live, known)),
        dead_letters=await count_dead_letters(session),
        workers=len(workers),
        slots=sum(worker.concurrency for worker in workers),
    )
    return deepest(sample, queues_max)


async def count_dead_letters(session: Session) -> int:
    rest = f"""
        FROM (SELECT count(*) AS total
              FROM (SELECT id FROM onbeat.dead_letters LIMIT {COUNTED_MAX}) AS found) AS counted
    """  # noqa: S608  no value in it
    ((total,),) = await session.select("total", rest)
    return int(total)


async def count_ended(session: Session, now: int) -> EndedCounts:
    return EndedCounts(at=instant(now), took=0.0, jobs=await count_by_state(session))


def depths_of(counts: Sequence[Count], now: int) -> dict[str, Depth]:
    by_queue: dict[str, list[Count]] = {}
    for one in counts:
        by_queue.setdefault(one.queue, []).append(one)
    return {name: depth_of(found, now) for name, found in by_queue.items()}


def depth_of(counts: Sequence[Count], now: int) -> Depth:
    return Depth(
        waiting=sum(one.waiting for one in counts),
        due=sum(one.due for one in counts),
        running=sum(one.running for one in counts),
        blocked=sum(one.blocked for one in counts),
        oldest_due_at=instant_or_none(oldest_due(counts, now)),
    )


def most(unknown: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(unknown).most_common(UNKNOWN_TASKS_MAX))
