"""Programs whose clocks are wrong, or are set while they run."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from conditions import eventually
from engine.harness import RecordingTelemetry
from onbeat import Context, Onbeat, cron
from onbeat.app.handle import JobHandle
from onbeat.app.options import Options
from onbeat.engine import clocks, dispatcher, runtime
from onbeat.engine.options import RuntimeOptions
from onbeat.model.job import JobState
from stores.mysql import server as mysql
from stores.postgres import server as postgres

HOUR = timedelta(hours=1)
START = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


class WrongClock:
    """This machine's clock, `ahead` of the truth."""

    def __init__(self, ahead: Any) -> None:
        self.ahead = ahead

    def now(self) -> Any:
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> Any:
        return time.monotonic()


class SetClock:
    """A wall clock that was at `START` when it was made, and that can be set."""

    def __init__(self) -> None:
        self.ahead = START - datetime.now(UTC)

    def set_by(self, step: Any) -> None:
        self.ahead += step

    def now(self) -> Any:
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> Any:
        return time.monotonic()


@pytest.fixture(params=["postgres", "mysql"])
def url(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "mysql":
        with mysql.database() as place:
            yield place
    else:
        with postgres.database(f"onbeat_clock_{os.getpid()}") as place:
            yield place


async def a_program(url: str, queue: Any, ahead: Any) -> Any:
    """A running program, whose machine's clock is wrong, and what the store's showed at starts."""
    options = Options(runtime=RuntimeOptions(queues=(queue,)))
    beat = Onbeat(url, clock=WrongClock(ahead), options=options)
    began = {}

    @beat.task("note")
    async def note(context: Context) -> None:
        began[context.job_id] = await beat.backend.store.now()

    await beat.start()
    return beat, note, began


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
async def test_programs_whose_clocks_differ_start_jobs_at_the_stores_time(
    url: str, ahead: timedelta
) -> None:
    right, note, began_right = await a_program(url, "right", timedelta())
    wrong, also, began_wrong = await a_program(url, "wrong", ahead)
    try:
        for sender, task in ((right, note), (wrong, also)):
            sent_at = await right.backend.store.now()
            calls = [
                task.options(queue=queue, delay=0.02 * n).call()
                for queue in ("right", "wrong")
                for n in range(10, 30)
            ]
            jobs = await sender.asend(calls)
            for job in jobs:
                ended = await eventually(partial(ended_of, right, job), "the job runs")
                at = (began_right | began_wrong)[job.id]
                assert timedelta() < ended.due_at - sent_at < timedelta(minutes=1)
                assert ended.due_at <= ended.started_at <= at
        assert len(began_right) == len(began_wrong) == 40
    finally:
        await asyncio.gather(right.aclose(), wrong.aclose())


async def ended_of(beat: Onbeat, job: Any) -> Any:
    stored = await beat.backend.store.job(job.id)
    return stored if stored.state is JobState.SUCCEEDED else None


async def test_a_program_without_loops_sends_by_the_stores_time(url: str) -> None:
    beat = Onbeat(url, clock=WrongClock(-24 * HOUR))

    @beat.task("note")
    def note() -> None: ...

    try:
        sent: JobHandle[None] = await beat.asend(note.call())
        job = await beat.backend.store.job(sent.id)
        assert abs(await beat.backend.store.now() - job.due_at) < timedelta(minutes=1)
    finally:
        await beat.aclose()


@pytest.fixture
def database() -> Iterator[Any]:
    with postgres.database(f"onbeat_clock_{os.getpid()}") as place:
        yield place


async def test_what_is_sent_in_a_transaction_of_the_callers_has_the_stores_time(
    database: Any,
) -> None:
    before = Onbeat(database)
    await before.backend.open()
    await before.aclose()
    beat = Onbeat(database, clock=WrongClock(-24 * HOUR))

    @beat.task("note")
    def note() -> None: ...

    own = await asyncpg.connect(database)
    try:
        async with own.transaction():
            sent: JobHandle[None] = await beat.in_transaction(own).asend(note.call())
        job = await beat.backend.store.job(sent.id)
        assert abs(await beat.backend.store.now() - job.due_at) < timedelta(minutes=1)
    finally:
        await own.close()
        await beat.aclose()


class Kept:
    """A program on a file, with an hourly schedule, on a clock that can be set."""

    def __init__(self, beat: Onbeat, clock: Any, told: Any, ran: Any) -> None:
        self.beat, self.clock, self.told, self.ran = beat, clock, told, ran

    async def set_by(self, step: Any) -> None:
        """Set the clock, and let every loop look at it."""
        answer = len(self.told.of("clock_stepped"))
        self.clock.set_by(step)
        await eventually(lambda: len(self.told.of("clock_stepped")) > answer, "the step is told")
        await self.look_round()

    async def look_round(self) -> None:
        beats = [args[0] for args in self.told.of("loop_beat")]
        for loop in ("planner", "expirer", "dispatcher"):
            more = beats.count(loop) + 3
            await eventually(partial(self.has_looked, loop, more), f"the {loop} looks")

    def has_looked(self, loop: str, times: int) -> bool:
        return sum(args[0] == loop for args in self.told.of("loop_beat")) >= times

    async def occurrences(self) -> Any:
        """What became of the occurrences from 13:00 on: (first, last, whether there is a job)."""
        schedule = await self.beat.backend.store.schedule_by_key("hourly")
        result = await self.beat.backend.store.dispositions(schedule.id, START, START + 48 * HOUR)
        return [(each.first.hour, each.last.hour, each.job_id is not None) for each in result]


@pytest.fixture(params=["sqlite", "memory"])
async def kept(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Any]:
    monkeypatch.setattr(clocks, "FOLLOW_PERIOD", 0.05)
    monkeypatch.setattr(runtime, "LAPSE_PERIOD", 0.05)
    monkeypatch.setattr(dispatcher, "seconds_until", partial(dispatcher.seconds_until, most=0.05))
    clock, answer, ran = SetClock(), RecordingTelemetry(), []
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/onbeat.db"
    quick = RuntimeOptions(planner_interval=timedelta(seconds=0.05))
    beat = Onbeat(url, clock=clock, telemetry=answer, options=Options(runtime=quick))

    @beat.schedule(cron("0 * * * *"), key="hourly")
    async def work(context: Context) -> None:
        ran.append(context.occurrence.hour)

    await beat.start()
    yield Kept(beat, clock, answer, ran)
    await beat.aclose()


async def test_a_clock_set_forward_applies_the_misfire_policy_once(kept: Any) -> None:
    assert await kept.occurrences() == [(13, 13, True)]
    await kept.set_by(5 * HOUR)
    await eventually(lambda: kept.ran, "the latest runs late")
    await kept.look_round()
    assert kept.ran == [17]
    assert each_hour(await kept.occurrences()) == {
        13: False, 14: False, 15: False, 16: False, 17: True, 18: True,
    }  # fmt: skip


async def test_a_clock_set_back_plans_nothing_anew_and_runs_nothing_twice(kept: Any) -> None:
    await kept.set_by(5 * HOUR)
    await eventually(lambda: kept.ran, "the latest runs late")
    await kept.look_round()
    before = await kept.occurrences()
    await kept.set_by(-5 * HOUR)
    assert await kept.occurrences() == before
    assert kept.ran == [17]
    await kept.set_by(5 * HOUR + timedelta(minutes=59, seconds=29.5))
    await eventually(lambda: len(kept.ran) > 1, "18:00 comes")
    await kept.look_round()
    assert kept.ran == [17, 18]
    assert list(each_hour(await kept.occurrences())) == [13, 14, 15, 16, 17, 18, 19]


def each_hour(occurrences: Any) -> Any:
    """Each hour and whether it has a job. None may be there twice."""
    hours = {}
    for first, last, has_job in occurrences:
        for hour in range(first, last + 1):
            assert hour not in hours, "one disposition each"
            hours[hour] = has_job
    return hours
