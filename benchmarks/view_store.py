"""A store with a long past, for `view.py`: filled by its own SQL, as no API is meant for that.

What a row holds of a job comes from a few jobs that are sent through the public API.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import apsw
import asyncpg
import msgspec

from benchmarks.view_statements import (
    FAULTS,
    POSTGRES_DISPOSITIONS,
    POSTGRES_ENDED,
    POSTGRES_RUNS,
    POSTGRES_WAITING,
    RUN_NUMBER,
    SQLITE_DISPOSITIONS,
    SQLITE_ENDED,
    SQLITE_RUNS,
    SQLITE_WAITING,
)
from onbeat import Call, Onbeat, Options, cron, every
from onbeat.engine.options import RuntimeOptions
from onbeat.model.fault import FaultChange
from onbeat.model.ids import JobId
from onbeat.model.pulse import Depth, Gauges, Pulse, SeriesTotals, Totals
from onbeat.model.role import Role
from onbeat.model.target import HandlerTarget
from onbeat.rules.faults import change_of
from onbeat.rules.pulses import RETENTIONS, slot
from onbeat.stores.postgres import partitions
from onbeat.stores.sql.values import instant, micros
from onbeat.telemetry.composite import NullTelemetry

PAST: Final = timedelta(days=6)
"""How far back jobs have ended: not yet so far that they are pruned."""
NAMES: Final = 200
"""Queues, and tasks."""
CHUNK: Final = 250_000
DAY_SECONDS: Final = 86_400
MINUTES: Final = (1, 2, 5, 10, 15, 30)
RECORDS: Final = 5_000
"""Audit records, dead letters and events each."""


class Samples(NamedTuple):
    """The parts of jobs that no query needs, as the store wrote them; and the ids of schedules."""

    plain: str
    labelled: str
    rare: str
    scheduled: str
    schedules: Sequence[str]


class Past(NamedTuple):
    """What the pages of one thing are asked about."""

    schedules: Sequence[str]
    faults: Sequence[int]
    flow: str
    failed: str
    succeeded: str
    waiting: str
    deep: str


def a_program(url: str) -> Onbeat:
    """It sends and runs nothing by itself."""
    runtime = RuntimeOptions(roles=frozenset({Role.MAINTENANCE}))
    return Onbeat(url, options=Options(runtime=runtime), telemetry=NullTelemetry())


def id_at(at: datetime, number: int) -> str:
    digits = f"{micros(at) // 1_000:012x}7{number % 4096:03x}8{number:015x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


async def fill(url: str, ended: int, waiting: int) -> Past:
    beat = a_program(url)
    await beat.backend.open()
    try:
        now = datetime.now(UTC)
        samples = await sent(beat)
        faults = await add_faults(beat, now)
        await add_history(beat, now)
        await add_records(beat)
        if url.startswith("sqlite"):
            fill_sqlite(url, samples, faults, ended, waiting, now)
        else:
            await add_days(beat, now)
            await fill_postgres(url, samples, faults, ended, waiting, now)
        return past_of(samples, faults, ended, waiting, now)
    finally:
        await beat.aclose()


def past_of(
    samples: Samples, faults: Sequence[int], ended: int, waiting: int, now: datetime
) -> Past:
    def made(number: int) -> str:
        return id_at(moment(number, ended, now), number)

    return Past(
        schedules=samples.schedules,
        faults=faults,
        flow=id_at(now - PAST, 0),
        failed=made(ended // 50 * 50 - 50),
        succeeded=made(ended // 50 * 50 - 49),
        waiting=id_at(now, ended + waiting // 2),
        deep=made(ended // 10),
    )


def moment(number: int, ended: int, now: datetime) -> datetime:
    """When ended job `number`, counted from 1, was made."""
    return instant(micros(now - PAST) + number * step_of(ended))


def step_of(ended: int) -> int:
    """Microseconds from one to the next."""
    return int(PAST / timedelta(microseconds=1)) // (ended + 1)


async def sent(beat: Onbeat) -> Samples:
    """Jobs of each kind, and twelve schedules."""
    work = beat.task("task.0")(nothing)
    rules = [every("1s"), *(every(f"{minutes}m") for minutes in (1, 2, 5, 10, 15, 30)),
             *(cron(f"{minute} {hour} * * *", tz="Europe/Berlin") for hour, minute in
               ((2, 30), (6, 0), (9, 15), (12, 45), (23, 59)))]  # fmt: skip
    ids = [
        await beat.schedules.aput(f"s{number}", rule, work.call())
        for number, rule in enumerate(rules)
    ]
    later = timedelta(days=30)
    plain = await sent_spec(beat, work.call().with_options(delay=later))
    labels = {"tenant": "TENANT"}
    labelled = await sent_spec(beat, work.call().with_options(delay=later, labels=labels))
    rare = await sent_spec(beat, work.call().with_options(delay=later, labels={"run": "rare"}))
    return Samples(plain, labelled, rare, plain, ids)


async def nothing() -> None:
    return


async def sent_spec(beat: Onbeat, call: Call) -> str:
    """The column `spec` of this job, which is not kept."""
    (handle,) = await beat.asend([call])
    store = beat.backend.store
    async with asyncio.timeout(30):
        text = await read_spec(store.url, handle.id)
    await store.cancel([JobId(handle.id)], "only a sample", datetime.now(UTC))
    return text.replace(handle.id, "SAMPLE")


async def read_spec(url: str, id: str) -> str:
    if url.startswith("sqlite"):
        db = opened(url)
        ((text,),) = db.execute("SELECT spec FROM onbeat_jobs WHERE id = ?", (id,))
        db.close()
        return str(text)
    db = await asyncpg.connect(url)
    try:
        return str(await db.fetchval("SELECT spec FROM onbeat.jobs WHERE id = $1", id))
    finally:
        await db.close()


async def add_faults(beat: Onbeat, now: datetime) -> list[int]:
    changes: list[FaultChange] = []
    for number in range(FAULTS):
        error = f"Timeout{number:c}Error: no answer".replace(f"{number:c}", chr(65 + number % 26))
        target = HandlerTarget(f"task.{number}")
        changes.append(change_of(target, f"queue.{number}", JobId(id_at(now, number)), error, now))
    await beat.backend.store.note_faults(changes)
    return [change.fault for change in changes]


async def add_history(beat: Onbeat, now: datetime) -> None:
    """A full history: each resolution as far as it is kept."""
    store, series = beat.backend.store, some_series()
    depth = Depth(waiting=5_000, due=100, running=20)
    queues = {f"queue.{number}": depth for number in range(100)}
    for retention in RETENTIONS:
        step = timedelta(seconds=retention.resolution)
        last = slot(now, retention.resolution)
        ats = [last - number * step for number in range(1, retention.keep // step)]
        for first in range(0, len(ats), 100):
            await store.put_pulses(
                [
                    Pulse(resolution=retention.resolution, at=at, source="bench",
                          totals=series[0].totals, series=series)
                    for at in ats[first : first + 100]
                ]
            )  # fmt: skip
        for at in ats:
            gauges = Gauges(at=at, took=0.2, total=depth, queues=queues, queues_more=100)
            await store.put_sample(retention.resolution, gauges)


def some_series() -> tuple[SeriesTotals, ...]:
    totals = Totals(10, (9, 1), (1, 2, 3, 4), (1, 2, 3, 4))
    return tuple(SeriesTotals(f"queue.{number}", f"task.{number}", totals) for number in range(120))


async def add_records(beat: Onbeat) -> None:
    for first in range(0, RECORDS, 500):
        await asyncio.gather(
            *(beat.events.apublish(f"shop.{n % 50}", {"n": n}) for n in range(first, first + 500))
        )


async def add_days(beat: Onbeat, now: datetime) -> None:
    """As if the service had run since: it adds the days ahead of time."""
    past = [(now - timedelta(days=number)).date() for number in range(2, PAST.days + 2)]
    days = [("finished", day) for day in past]
    store = beat.backend.store
    await store._at(lambda connections: connections.transact(partitions.add_days, days))  # type: ignore[attr-defined]  # noqa: SLF001


async def fill_postgres(
    url: str, samples: Samples, faults: Sequence[int], ended: int, waiting: int, now: datetime
) -> None:
    db = await asyncpg.connect(url, server_settings={"search_path": "onbeat"})
    at, step = micros(now - PAST), step_of(ended)
    flow = id_at(now - PAST, 0)
    try:
        await db.execute("SET synchronous_commit = off")
        for first in range(1, ended + 1, CHUNK):
            last = min(ended, first + CHUNK - 1)
            values = (first, last, at, step, list(faults), flow, samples.plain, samples.labelled)
            await db.execute(POSTGRES_ENDED, *values, samples.rare, ended // 10)
        for first in range(ended + 1, ended + waiting + 1, CHUNK):
            last = min(ended + waiting, first + CHUNK - 1)
            values = (first, last, micros(now), samples.plain, samples.labelled)
            await db.execute(POSTGRES_WAITING, *values)
        for place, (id, seconds, count) in enumerate(runs_of(samples.schedules), 1):
            begin = micros(now) - seconds * count * 1_000_000
            values = (id, begin, seconds * 1_000_000, count, place * RUN_NUMBER)
            await db.execute(POSTGRES_RUNS, *values, samples.plain)
            await db.execute(POSTGRES_DISPOSITIONS, *values)
        await db.execute("VACUUM (ANALYZE)")
    finally:
        await db.close()


def fill_sqlite(
    url: str, samples: Samples, faults: Sequence[int], ended: int, waiting: int, now: datetime
) -> None:
    db = opened(url)
    values = {
        "at": micros(now - PAST), "step": step_of(ended), "now": micros(now),
        "faults": msgspec.json.encode(list(faults)).decode(), "flow": id_at(now - PAST, 0),
        "plain": samples.plain, "labelled": samples.labelled, "rare": samples.rare,
        "rare_at": ended // 10,
    }  # fmt: skip
    with db:
        db.execute(SQLITE_ENDED, {**values, "first": 1, "last": ended})
        db.execute(SQLITE_WAITING, {**values, "first": ended + 1, "last": ended + waiting})
        for place, (id, seconds, count) in enumerate(runs_of(samples.schedules), 1):
            begin = micros(now) - seconds * count * 1_000_000
            runs = {"id": id, "begin": begin, "step": seconds * 1_000_000, "first": 1,
                    "last": count, "place": place * RUN_NUMBER}  # fmt: skip
            db.execute(SQLITE_RUNS, {**runs, "plain": samples.plain})
            db.execute(SQLITE_DISPOSITIONS, runs)
    db.execute("ANALYZE")
    db.close()


def opened(url: str) -> apsw.Connection:
    """By the library of the store: a second one in a process would break the locks of the first."""
    return apsw.Connection(url.removeprefix("sqlite:///"))


def runs_of(schedules: Sequence[str]) -> list[tuple[str, int, int]]:
    """Of each schedule the seconds between two runs, and how many there were."""
    minutes = [
        (id, 60 * every, 6 * 1_440 // every)
        for id, every in zip(schedules[1:7], MINUTES, strict=True)
    ]
    return [
        (schedules[0], 1, DAY_SECONDS),
        *minutes,
        *((id, DAY_SECONDS, 5) for id in schedules[7:]),
    ]
