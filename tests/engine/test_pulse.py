"""What processes write into the history, and that it stays bounded."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from engine.harness import FaultyStore
from onbeat.engine.loop import Rest
from onbeat.engine.pulse import FOLD_PERIOD, DepthSampler, HistoryFolder, PulseRecorder
from onbeat.model.limits import PULSES_HELD_MAX, SAMPLED_QUEUES_MAX
from onbeat.model.pulse import CounterState, Pulse, Totals
from onbeat.rules.pulses import FINEST, RETENTIONS, WHOLE
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import a_job
from operations.harness import StoppedClock

START = datetime(2026, 11, 23, 3, 12, tzinfo=UTC)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


class HistoryHarness:
    """One process with a counter that the test moves."""

    def __init__(self) -> None:
        self.clock = StoppedClock(START)
        self.inner = MemoryStore()
        self.store = FaultyStore(self.inner)
        self.starts = 0
        self.recorder = PulseRecorder(self.store, self.clock, self.state, "one")
        self.sampler = DepthSampler(self.store, self.clock)
        self.folder = HistoryFolder(self.store, self.clock)

    def state(self) -> CounterState:
        return {("mail", "send"): Totals(self.starts)} if self.starts else {}

    async def after(self, seconds: float, starts: int = 0) -> float:
        self.clock.at += seconds * SECOND
        self.starts += starts
        return await self.recorder.step()

    async def rows(self, resolution: int = FINEST) -> list[Pulse]:
        last = self.clock.at + DAY
        return list(await self.inner.pulses(resolution, START - DAY, last, 100_000))[::-1]

    async def written(self) -> list[tuple[float, int]]:
        return [
            ((pulse.at - START).total_seconds(), pulse.totals.starts) for pulse in await self.rows()
        ]

    async def fold_all(self) -> None:
        while await self.folder.step() == 0.0:
            pass


@pytest.fixture
def process() -> HistoryHarness:
    return HistoryHarness()


async def test_a_process_writes_once_in_ten_seconds_what_moved(process: HistoryHarness) -> None:
    assert await process.after(3, starts=2) == pytest.approx(7.1)
    assert await process.written() == []
    await process.after(7.1, starts=1)
    await process.after(5, starts=5)
    assert await process.written() == [(0, 3)]
    await process.after(10)
    await process.after(10)
    assert await process.written() == [(0, 3), (10, 5)], "it writes nothing where nothing moved"
    await process.after(1, starts=9)
    await process.recorder.finish()
    assert await process.written() == [(0, 3), (10, 5), (30, 9)], "a clean end loses nothing"


async def test_what_was_not_written_is_written_later_and_once(process: HistoryHarness) -> None:
    process.store.trouble["put_pulses"] = 1
    process.store.after["put_pulses"] = 1
    for _ in range(2):
        assert isinstance(await process.after(10, starts=1), Rest)
    await process.after(10, starts=1)
    assert await process.written() == [(0, 1), (10, 1), (20, 1)]


async def test_the_last_write_may_overlap_one_that_is_on_its_way(
    process: HistoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, may_end = process.inner.put_pulses, asyncio.Event()

    async def put_slowly(pulses: Sequence[Pulse]) -> None:
        await may_end.wait()
        await put(pulses)

    monkeypatch.setattr(process.inner, "put_pulses", put_slowly)
    process.starts = 1
    process.recorder.note(START)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(process.recorder.write())
        tasks.create_task(process.recorder.finish())
        await asyncio.sleep(0)
        process.starts = 2
        process.recorder.note(START + 10 * SECOND)
        may_end.set()
    await process.recorder.write()
    assert await process.written() == [(0, 1), (10, 1)]


async def test_an_outage_is_held_in_bounded_memory(process: HistoryHarness) -> None:
    process.store.trouble["put_pulses"] = PULSES_HELD_MAX + 10
    for _ in range(PULSES_HELD_MAX + 10):
        await process.after(10, starts=1)
    await process.after(1)
    assert len(await process.rows()) == PULSES_HELD_MAX


async def test_one_of_many_samplers_counts(process: HistoryHarness) -> None:
    await process.store.enqueue([a_job(due_at=START)])
    other = DepthSampler(process.store, process.clock)
    assert await process.sampler.step() == 10.0
    process.clock.at += 4 * SECOND
    assert await other.step() == 6.0, "another has just counted"
    process.clock.at += 6 * SECOND
    assert await other.step() == 10.0
    newest = await process.store.newest_sample(FINEST)
    assert newest is not None
    assert (newest.at, newest.total.due) == (process.clock.at, 1)
    assert newest.ended is not None
    assert newest.ended.at == START, "ended jobs are counted more seldom"
    process.clock.at += 60 * SECOND
    await other.step()
    newest = await process.store.newest_sample(FINEST)
    assert newest is not None
    assert newest.ended is not None
    assert newest.ended.at == process.clock.at


async def test_a_sample_that_cannot_be_stored_is_left_out(process: HistoryHarness) -> None:
    process.store.trouble["put_sample"] = 1
    assert isinstance(await process.sampler.step(), Rest)
    assert await process.store.newest_sample(FINEST) is None
    assert not isinstance(await process.sampler.step(), Rest)
    assert await process.store.newest_sample(FINEST) is not None


async def test_the_newest_sample_has_all_queues_and_older_ones_the_deepest(
    process: HistoryHarness,
) -> None:
    names = [f"q{number:03}" for number in range(SAMPLED_QUEUES_MAX + 1)]
    await process.store.enqueue([a_job(queue=name, due_at=START) for name in names])
    await process.sampler.step()
    process.clock.at += 2 * 60 * SECOND
    await process.sampler.step()
    whole = await process.store.samples(WHOLE, START, process.clock.at + SECOND, 9)
    assert [(one.at, len(one.queues), one.queues_more) for one in whole] == [
        (process.clock.at, len(names), 0)
    ]
    kept = await process.store.newest_sample(FINEST)
    assert kept is not None
    assert (len(kept.queues), kept.queues_more) == (SAMPLED_QUEUES_MAX, 1)


async def test_a_count_of_ended_jobs_that_is_given_up_leaves_the_sample_and_rests(
    process: HistoryHarness,
) -> None:
    process.store.trouble["count_ended"] = 2
    await process.sampler.step()
    process.clock.at += 10 * SECOND
    await process.sampler.step()
    newest = await process.store.newest_sample(FINEST)
    assert newest is not None
    assert (newest.at, newest.ended) == (process.clock.at, None)
    assert process.store.trouble["count_ended"] == 1, "it was not tried again at once"


async def test_a_clock_that_was_set_back_does_not_stop_the_samples(process: HistoryHarness) -> None:
    await process.sampler.step()
    process.clock.at -= DAY
    assert await process.sampler.step() == 10.0


async def test_the_history_is_bounded(process: HistoryHarness) -> None:
    """Two days in which something moves all the time, then a silence of a hundred days."""
    for hour in range(48):
        pulses = [
            Pulse(
                resolution=FINEST,
                at=process.clock.at + n * 10 * SECOND,
                source=source,
                totals=Totals(1),
            )
            for n in range(360)
            for source in ("one", "two")
        ]
        await process.inner.put_pulses(pulses)
        for n in range(0, 60, 5):
            process.clock.at = START + timedelta(hours=hour, minutes=n)
            await process.sampler.step()
        process.clock.at = START + timedelta(hours=hour + 1)
        await process.fold_all()
    kept = {one.resolution: await process.rows(one.resolution) for one in RETENTIONS}
    assert len(kept[10]) <= 2 * (372 + 6)
    assert len(kept[60]) <= 1_510
    assert len(kept[600]) == len({pulse.at for pulse in kept[600]})
    total = sum(pulse.totals.starts for rows in kept.values() for pulse in rows)
    assert total == 48 * 720, "folding neither loses nor doubles"
    process.clock.at += timedelta(days=100)
    await process.fold_all()
    assert [await process.inner.oldest_history(one.resolution) for one in RETENTIONS] == [None] * 4


async def test_folding_rests_where_nothing_is_old(process: HistoryHarness) -> None:
    await process.after(10, starts=1)
    assert await process.folder.step() == FOLD_PERIOD
