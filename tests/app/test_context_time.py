"""`context.now`: the time of the store's clock, of a program's own, and of a trial."""

import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app import isolated_tasks
from onbeat import Call, Context, Onbeat
from onbeat.engine.clocks import StoreClock

AT = "2026-03-28T23:00+01:00"
BEGIN = datetime(2026, 3, 28, 22, tzinfo=UTC)
LATER = timedelta(hours=1)


class ClockOfTomorrow:
    """A day ahead of this machine's."""

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(days=1)

    def monotonic(self) -> float:
        return time.monotonic()


TOMORROW = ClockOfTomorrow()


def tasks_of(beat: Onbeat, seen: list[datetime]) -> list[Any]:
    """A task of each kind; each notes the time."""

    @beat.task("plain")
    def plain(context: Context) -> None:
        seen.append(context.now)

    @beat.task("coroutine")
    async def coroutine(context: Context) -> None:
        seen.append(context.now)

    @beat.task("distributor")
    def distributor(context: Context) -> Iterator[Call[None]]:
        seen.append(context.now)
        yield plain.call()

    @beat.task("async distributor")
    async def async_distributor(context: Context) -> AsyncIterator[Call[None]]:
        seen.append(context.now)
        yield coroutine.call()

    return [plain, coroutine, distributor, async_distributor]


def test_in_a_trial_it_is_the_time_of_the_trial() -> None:
    beat, seen = Onbeat("memory://"), list[datetime]()
    tasks = tasks_of(beat, seen)
    with beat.testing(at=AT) as trial:
        for task in tasks:
            task.options(delay=LATER).send()
        trial.advance("2h")
    assert seen == [BEGIN + LATER] * 6
    assert {at.tzinfo for at in seen} == {UTC}


def test_a_process_of_its_own_has_the_time_of_the_trial_too() -> None:
    with isolated_tasks.beat.testing(at=AT) as trial:
        job = isolated_tasks.clock.options(delay=LATER).send()
        trial.advance("2h")
        assert job.result(60) == (BEGIN + LATER, BEGIN + LATER)


async def test_it_is_the_time_of_the_clock_that_the_program_has() -> None:
    seen: list[datetime] = []
    beat = Onbeat("memory://", clock=TOMORROW)
    tasks = tasks_of(beat, seen)
    before = TOMORROW.now()
    async with beat:
        for job in [await task.asend() for task in tasks]:
            await job.aresult(60)
    times = [before, *sorted(seen), TOMORROW.now()]
    assert times == sorted(times)
    assert len(seen) >= len(tasks)


async def test_time_goes_on_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated_tasks.beat.backend, "clock", StoreClock(TOMORROW))
    before = TOMORROW.now()
    async with isolated_tasks.beat:
        first, second = await (await isolated_tasks.ticks.asend()).aresult(60)
    assert before <= first < second
