"""Of the history's rows each is read whole once, however often a part of it is asked for."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.engine.pulse import HistoryFolder
from onbeat.model.pulse import Pulse, SeriesTotals, Totals
from onbeat.operations.history_parts import PARTS_MAX, ROWS_AT_ONCE, _kept, known_of
from onbeat.operations.recent_history import _read
from onbeat.operations.tables.pulses import PULSE_QUEUES, PULSE_SHOW
from onbeat.rules.history import SETTLING
from onbeat.rules.pulses import FINEST, RETENTIONS
from onbeat.stores.memory import MemoryStore
from operations.harness import NOON, OperationsHarness

SLOT = timedelta(seconds=FINEST)


class CountingStore(MemoryStore):
    """Counts the rows that it gives with their series."""

    def __init__(self) -> None:
        super().__init__()
        self.whole: list[int] = []

    async def pulses(self, *args: Any, series: bool = True) -> Any:
        found = await super().pulses(*args, series=series)
        if series:
            self.whole.append(len(found))
        return found


class FoldedMeanwhile(MemoryStore):
    """Its old rows are folded behind the first read."""

    folder: HistoryFolder | None = None

    async def pulses(self, *args: Any, series: bool = True) -> Any:
        found = await super().pulses(*args, series=series)
        if self.folder is not None:
            folder, self.folder = self.folder, None
            while await folder.step() == 0.0:
                pass
        return found


def row(at: datetime, source: str = "one", starts: int = 1) -> Pulse:
    totals = Totals(starts)
    series = (SeriesTotals("mail", "send", totals), SeriesTotals("bulk", "send", totals))
    return Pulse(resolution=FINEST, at=at, source=source, totals=Totals(2 * starts), series=series)


@pytest.fixture
async def office() -> OperationsHarness:
    """An hour of two processes that is full but for the last minute."""
    office = OperationsHarness(CountingStore())
    ats = [NOON - number * SLOT for number in range(6, 360)]
    await office.store.put_pulses([row(at, source) for at in ats for source in ("one", "two")])
    return office


def whole_rows(office: OperationsHarness) -> list[int]:
    """The rows that were read whole since the last call, by read."""
    assert isinstance(office.store, CountingStore)
    read, office.store.whole = office.store.whole, []
    return read


async def started(office: OperationsHarness, **named: str) -> int:
    points = (await office.ask(PULSE_SHOW, **named))["points"]
    return sum(point["started"] or 0 for point in points)


async def test_a_later_answer_reads_only_the_rows_that_are_new(office: OperationsHarness) -> None:
    assert await started(office, queue="mail") == 2 * 354
    first = whole_rows(office)
    assert sum(first) == 2 * 354
    assert max(first) <= ROWS_AT_ONCE
    office.move(seconds=10)
    await office.store.put_pulses([row(NOON - SLOT, starts=5)])
    assert await started(office, queue="mail") == 2 * 354 + 5
    assert whole_rows(office) == [1]
    assert await started(office, queue="mail", span="day") == 2 * 354 + 5
    assert whole_rows(office) == [], "longer spans are made of the same rows"


async def test_a_row_that_comes_late_is_counted(office: OperationsHarness) -> None:
    await started(office, queue="mail")
    whole_rows(office)
    office.move(seconds=10)
    late = NOON + SLOT - SETTLING + SLOT
    await office.store.put_pulses([row(late, "three", starts=7)])
    assert await started(office, queue="mail") == 2 * 354 + 7
    assert whole_rows(office) == [3], "all rows of its ten seconds"


async def test_rows_that_were_folded_are_counted_once(office: OperationsHarness) -> None:
    before = await started(office, queue="mail", span="day")
    others = await started(office, queue="bulk", span="day")
    office.move(seconds=600)
    folder = HistoryFolder(office.store, office.clock)
    while await folder.step() == 0.0:
        pass
    assert await started(office, queue="mail", span="day") == before
    _kept.clear()
    _read.clear()
    assert await started(office, queue="bulk", span="day") == others
    kept = known_of(office.store, ("bulk", None))
    assert kept[60], "there are rows of a minute now"
    assert min(kept[FINEST]) >= office.clock.at - RETENTIONS[0].keep - timedelta(minutes=1)


async def test_only_what_may_still_change_is_read_again(office: OperationsHarness) -> None:
    before = await started(office)
    office.move(seconds=10)
    too_late = NOON - SETTLING - 10 * SLOT
    await office.store.put_pulses([row(too_late, "three"), row(NOON - SLOT, starts=5)])
    assert await started(office) == before + 10


async def test_rows_that_are_folded_between_two_reads_are_counted_once() -> None:
    store = FoldedMeanwhile()
    office = OperationsHarness(store)
    ats = [NOON - number * SLOT for number in range(6, 1_000)]
    await store.put_pulses([row(at) for at in ats])
    store.folder = HistoryFolder(store, office.clock)
    assert await started(office, span="day") == 2 * len(ats)
    assert store.folder is None


async def test_starts_by_queue_read_each_row_once_too(office: OperationsHarness) -> None:
    before = (await office.ask(PULSE_QUEUES))["queues"]
    assert before.keys() == {"mail", "bulk"}
    assert sum(whole_rows(office)) == 2 * 354
    office.move(seconds=10)
    await office.store.put_pulses([replace(row(NOON - SLOT), source="new")])
    after = (await office.ask(PULSE_QUEUES))["queues"]
    assert sum(filter(None, after["bulk"])) == sum(filter(None, before["bulk"])) + 1
    assert whole_rows(office) == [1]


async def test_parts_are_kept_in_bounded_memory(office: OperationsHarness) -> None:
    names = [f"queue-{number}" for number in range(PARTS_MAX + 1)]
    for name in names:
        await started(office, queue=name)
    whole_rows(office)
    office.move(seconds=10)
    await started(office, queue=names[-1])
    assert whole_rows(office) == []
    await started(office, queue=names[0])
    assert sum(whole_rows(office)) > 0, "it was forgotten, and is read anew"
