"""What processes on one store tell each other while somebody watches."""

import pytest

from onbeat.engine.live import (
    EXCHANGE_SECONDS,
    KEPT,
    LOOK_SECONDS,
    PRUNE_SECONDS,
    WATCH_SPAN,
    LiveExchange,
)
from onbeat.model.job import JobState
from onbeat.model.live import LiveEvent
from onbeat.rules.live_feed import EVENTS_SENT_MAX, LiveFeed
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import NOW, SECOND
from operations.harness import StoppedClock


class Process:
    """One of several on a store, whose clocks are the same."""

    def __init__(self, name: str, store: MemoryStore, clock: StoppedClock) -> None:
        self.feed = LiveFeed()
        self.store = store
        self.clock = clock
        self.exchange = LiveExchange(store, clock, self.feed, name)

    async def step(self, *, after: float = 0.0) -> float:
        self.clock.at += after * SECOND
        return await self.exchange.step()

    def note(self, id: str) -> None:
        self.feed.note(LiveEvent(kind="job", id=id, at=NOW, to="running"))


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock(NOW)


@pytest.fixture
def here(clock: StoppedClock) -> Process:
    return Process("here", MemoryStore(), clock)


@pytest.fixture
def there(here: Process, clock: StoppedClock) -> Process:
    return Process("there", here.store, clock)


async def test_without_a_reader_nothing_is_written(here: Process, there: Process) -> None:
    for _ in range(3):
        assert await here.step(after=LOOK_SECONDS) == LOOK_SECONDS
    here.note("1")
    assert not here.feed.is_read
    assert list(await here.store.stream_watchers(NOW)) == []
    assert list(await here.store.stream_batches(NOW, "", 10)) == []


async def test_a_reader_here_gets_what_happens_there(here: Process, there: Process) -> None:
    outlet = here.feed.open_here()
    assert await here.step() == EXCHANGE_SECONDS
    assert await there.step() == EXCHANGE_SECONDS
    assert there.feed.is_read
    there.note("1")
    assert there.feed.away is not None
    there.feed.away.note_start(0.0)
    there.feed.away.note_end(JobState.FAILED)
    here.note("own")
    await there.step()
    await here.step()
    await here.step()
    batch = outlet.take()
    assert [event.id for event in batch.events] == ["own", "1"]
    assert (batch.counts.started, batch.counts.failed) == (1, 1)
    assert here.feed.away is None


async def test_batches_come_in_order_and_once(here: Process, there: Process) -> None:
    outlet = here.feed.open_here()
    await here.step()
    await there.step()
    for number in range(5):
        there.note(str(number))
        await there.step(after=EXCHANGE_SECONDS)
        await here.step()
    assert [event.id for event in outlet.take().events] == ["0", "1", "2", "3", "4"]
    assert outlet.take().events == ()


async def test_a_process_without_events_writes_no_batch(here: Process, there: Process) -> None:
    here.feed.open_here()
    await here.step()
    for _ in range(3):
        await there.step()
    assert list(await here.store.stream_batches(NOW, "", 10)) == []


async def test_a_batch_is_bounded_and_counts_what_is_left_out(
    here: Process, there: Process
) -> None:
    outlet = here.feed.open_here()
    await here.step()
    await there.step()
    for number in range(EVENTS_SENT_MAX + 3):
        there.note(str(number))
    await there.step()
    (batch,) = await here.store.stream_batches(NOW, "here", 10)
    assert batch.missed == 3
    await here.step()
    taken = outlet.take()
    assert (len(taken.events), taken.missed) == (EVENTS_SENT_MAX, 3)


async def test_a_reader_gets_nothing_from_before_it_came(here: Process, there: Process) -> None:
    first = here.feed.open_here()
    await here.step()
    await there.step()
    here.feed.close_here()
    await here.step()
    there.note("old")
    await there.step(after=1)
    outlet = here.feed.open_here()
    await here.step()
    there.note("new")
    await there.step(after=1)
    await here.step()
    assert [event.id for event in outlet.take().events] == ["new"]
    assert first.take().events == ()


async def test_a_process_stops_writing_when_nobody_watches(here: Process, there: Process) -> None:
    here.feed.open_here()
    await here.step()
    await there.step()
    here.feed.close_here()
    await there.step(after=WATCH_SPAN.total_seconds())
    assert not there.feed.is_read
    assert await there.step() == LOOK_SECONDS


async def test_a_process_notes_its_readers_as_long_as_it_has_them(
    here: Process, there: Process
) -> None:
    here.feed.open_here()
    for _ in range(10):
        await here.step(after=LOOK_SECONDS)
        await there.step()
        assert there.feed.is_read


async def test_readers_on_both_sides_get_both(here: Process, there: Process) -> None:
    outlets = [process.feed.open_here() for process in (here, there)]
    for _ in range(2):
        await here.step(after=LOOK_SECONDS)
        await there.step()
    here.note("h")
    there.note("t")
    for _ in range(2):
        await here.step()
        await there.step()
    assert [{event.id for event in one.take().events} for one in outlets] == [{"h", "t"}] * 2


async def test_old_batches_are_deleted_by_who_writes(here: Process, there: Process) -> None:
    here.feed.open_here()
    await here.step()
    await there.step()
    there.note("1")
    await there.step()
    for _ in range(40):
        await here.step(after=LOOK_SECONDS)
        there.note("2")
        await there.step()
    left = await here.store.stream_batches(NOW, "", 100)
    assert left[0].at >= there.clock.at - KEPT - PRUNE_SECONDS * SECOND


async def test_the_first_reader_wakes_the_loop(here: Process) -> None:
    woken = list[str]()
    here.exchange.wake_with(lambda: woken.append("here"))
    here.feed.open_here()
    assert woken == ["here"]
