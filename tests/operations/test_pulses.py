"""The history as every surface shows it."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from onbeat.engine.pulse import DepthSampler
from onbeat.model.errors import Invalid
from onbeat.model.limits import COUNTED_MAX
from onbeat.model.pulse import Depth, EndedCounts, Gauges, Pulse, SeriesTotals, Totals
from onbeat.operations.recent_history import KEPT_MAX
from onbeat.operations.tables.fleet import QUEUE_LIST, STATS_SHOW
from onbeat.operations.tables.jobs import JOB_ENQUEUE
from onbeat.operations.tables.pulses import PULSE_QUEUES, PULSE_SHOW
from onbeat.rules.pulses import FINEST, WHOLE, slot
from operations.harness import NOON, OperationsHarness

SECOND = timedelta(seconds=1)
MAIL = Totals(20, (16, 3, 0, 0, 1), (0, 20), (*[0] * 4, 20))
OTHER = Totals(1, (1,), (1,), (1,))


@pytest.fixture
async def office() -> OperationsHarness:
    """Ten seconds of work that began half a minute ago, and a sample of then."""
    office = OperationsHarness()
    series = (SeriesTotals("mail", "send", MAIL), SeriesTotals("bulk", "send", OTHER))
    totals = Totals(21, (17, 3, 0, 0, 1), (1, 20), (1, 0, 0, 0, 20))
    at = NOON - 30 * SECOND
    pulse = Pulse(resolution=FINEST, at=at, source="p", totals=totals, series=series)
    await office.store.put_pulses([pulse])
    depth = Depth(waiting=5, due=4, running=2, oldest_due_at=at - 8 * SECOND)
    sample = Gauges(at=at, total=depth, queues={"mail": Depth(1, 1, 0, 0, at)}, slots=3, workers=1)
    await office.store.put_sample(FINEST, sample)
    return office


async def newest(office: OperationsHarness, **named: str) -> dict[str, Any]:
    answer = await office.ask(PULSE_SHOW, **named)
    return [point for point in answer["points"] if point["started"]][-1]


async def test_a_point_has_rates_quantiles_and_depths(office: OperationsHarness) -> None:
    assert await newest(office) == {
        "at": "2026-03-02T11:59:30Z",
        "seconds": 10.0,
        "started": 21,
        "succeeded": 17,
        "failed": 4,
        "lateness_p50": 0.001713,
        "lateness_p95": 0.002421,
        "duration_p50": 0.07375,
        "duration_p95": 0.097375,
        "due": 4,
        "waiting": 5,
        "running": 2,
        "oldest_due_seconds": 8.0,
    }


async def test_a_queue_and_a_task_are_cut_out(office: OperationsHarness) -> None:
    mail = await newest(office, queue="mail")
    assert (mail["started"], mail["due"], mail["oldest_due_seconds"]) == (20, 1, 0.0)
    send = await newest(office, task="send")
    assert (send["started"], send["due"]) == (21, None), "samples do not know tasks"
    assert (await newest(office, task="send", queue="bulk"))["started"] == 1


@pytest.mark.parametrize(("span", "points"), [("hour", 360), ("day", 288), ("week", 336)])
async def test_a_span_has_so_many_points(office: OperationsHarness, span: str, points: int) -> None:
    answer = await office.ask(PULSE_SHOW, span=span)
    assert len(answer["points"]) == points
    assert answer["span"] == span
    assert sum(point["started"] or 0 for point in answer["points"]) == 21
    gaps = [point for point in answer["points"] if point["started"] is None]
    assert len(gaps) >= points - 3
    assert {point["due"] for point in gaps} == {None}


async def test_the_newest_sample_tells_its_age(office: OperationsHarness) -> None:
    sample = (await office.ask(PULSE_SHOW))["sample"]
    assert (sample["age"], sample["slots"], sample["total"]["due"]) == (30.0, 3, 4)
    assert list(sample["queues"]) == ["mail"]
    assert sample["ended"] is sample["ended_at"] is None


async def test_starts_are_told_by_queue(office: OperationsHarness) -> None:
    answer = await office.ask(PULSE_QUEUES)
    assert answer["until"] == "2026-03-02T11:59:50Z"
    assert answer["queues"].keys() == {"mail", "bulk"}
    assert answer["queues"]["mail"][-2:] == [None, 20]


async def test_a_new_store_has_only_gaps() -> None:
    answer = await OperationsHarness().ask(PULSE_SHOW)
    assert answer["sample"] is None
    assert {point["started"] for point in answer["points"]} == {None}


@pytest.mark.parametrize(
    ("named", "field"),
    [({"span": "year"}, "span"), ({"queue": "a/b"}, "queue"), ({"task": " "}, "task")],
)
async def test_what_is_wrong_is_named(named: dict[str, str], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        await OperationsHarness().ask(PULSE_SHOW, **named)
    assert caught.value.field == field


async def test_few_ended_jobs_are_counted_and_many_are_sampled(office: OperationsHarness) -> None:
    await DepthSampler(office.store, office.clock).step()
    await office.ask(JOB_ENQUEUE, {"task": "send"})
    few = await office.ask(STATS_SHOW)
    assert (few["jobs"]["waiting"], few["jobs"]["succeeded"], few["ended_at"]) == (1, 0, None)
    office.move(seconds=20)
    ended = EndedCounts(at=NOON, took=0.1, jobs={"succeeded": COUNTED_MAX, "failed": 0})
    await office.store.put_sample(FINEST, Gauges(at=office.clock.at, ended=ended))
    many = await office.ask(STATS_SHOW)
    assert (many["jobs"]["waiting"], many["jobs"]["succeeded"]) == (1, COUNTED_MAX)
    assert many["ended_at"] == "2026-03-02T12:00:00Z"


async def test_few_live_jobs_are_counted_and_many_are_sampled(office: OperationsHarness) -> None:
    await office.ask(JOB_ENQUEUE, {"task": "send"})
    for waiting, expected in ((COUNTED_MAX - 1, 1), (COUNTED_MAX, COUNTED_MAX)):
        depth = Depth(waiting=waiting, due=7, oldest_due_at=office.clock.at)
        sample = Gauges(at=office.clock.at, total=depth, queues={"default": depth})
        await office.store.put_sample(WHOLE, sample)
        listed, stats = await office.ask(QUEUE_LIST), await office.ask(STATS_SHOW)
        assert [one["waiting"] for one in listed["queues"]] == [expected]
        assert stats["jobs"]["waiting"] == expected
        at = None if expected == 1 else msgspec.json.decode(msgspec.json.encode(sample.at))
        assert listed["counted_at"] == stats["counted_at"] == at
        office.move(seconds=1)
    office.move(seconds=20)
    assert (await office.ask(QUEUE_LIST))["counted_at"] is None, "the sample is too old"


async def test_starts_of_queues_count_rows_that_come_late(office: OperationsHarness) -> None:
    now = office.clock.at

    async def started(minutes_ago: int, starts: int) -> int:
        at = slot(now - timedelta(minutes=minutes_ago), FINEST)
        series = (SeriesTotals("mail", "send", Totals(starts)),)
        row = Pulse(resolution=FINEST, at=at, source=f"{starts}", series=series)
        await office.store.put_pulses([row])
        office.move(seconds=10)
        queues = (await office.ask(PULSE_QUEUES))["queues"]
        return sum(count or 0 for count in queues["mail"])

    before = 20  # of the fixture
    assert await started(30, 1) == before + 1
    assert await started(2, 10) == before + 11
    assert await started(4, 100) == before + 111


async def test_many_that_look_read_the_history_once_in_ten_seconds(
    office: OperationsHarness,
) -> None:
    before = await newest(office)
    pulse = Pulse(resolution=FINEST, at=NOON - 30 * SECOND, source="late", totals=MAIL)
    await office.store.put_pulses([pulse])
    office.move(seconds=9)
    assert await newest(office) == before
    office.move(seconds=1)
    assert (await newest(office))["started"] == before["started"] + MAIL.starts


async def test_what_was_read_is_kept_in_bounded_memory(office: OperationsHarness) -> None:
    for number in range(KEPT_MAX + 1):
        await office.ask(PULSE_SHOW, queue=f"q{number}")
    names = ("q0", f"q{KEPT_MAX}")
    series = tuple(SeriesTotals(name, "send", MAIL) for name in names)
    late = Pulse(resolution=FINEST, at=NOON - 30 * SECOND, source="late", series=series)
    await office.store.put_pulses([late])
    first, last = [(await office.ask(PULSE_SHOW, queue=name))["points"] for name in names]
    assert sum(point["started"] or 0 for point in first) == 20, "it was forgotten, and is read anew"
    assert sum(point["started"] or 0 for point in last) == 0
