"""Reports of attempts become events, once for a whole fleet."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from conditions import eventually
from engine.harness import FaultyStore, FixedRandomness, RecordingTelemetry
from onbeat.app.virtual_clock import ManualClock
from onbeat.engine.loop import cancel_all, run_loop
from onbeat.engine.outages import OutageReporter
from onbeat.model.event import Event
from onbeat.model.limits import REASON_CHARS_MAX
from onbeat.model.reaction import EventPattern
from onbeat.ports.events import EventFilter
from onbeat.rules.outages import Outage, event_id, outage_event
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import NOW, SECOND, a_plan, a_schedule

OUTAGE = Outage(
    endpoint="https://billing.example:443",
    since=NOW,
    calls=12,
    failures=11,
    error="no connection could be made",
    depth=1,
)


@pytest.fixture
async def store() -> AsyncIterator[Any]:
    result = FaultyStore(MemoryStore())
    await result.open()
    yield result
    await result.close()


async def listen(store: Any, type: str = "onbeat.endpoint.*") -> None:
    schedule = a_schedule(on=(EventPattern(type),), plan_at=None)
    await store.add_schedule(schedule, a_plan(schedule))


async def published(store: Any) -> list[Event]:
    return [one.event for one in reversed(await store.events(EventFilter(limit=100)))]


def a_reporter(store: Any) -> OutageReporter:
    return OutageReporter(store, ManualClock(NOW))


async def test_a_report_is_an_event(store: Any) -> None:
    await listen(store)
    reporter = a_reporter(store)
    reporter.report(OUTAGE)
    await reporter.step()
    (event,) = await published(store)
    assert (event.type, event.source, event.time) == ("onbeat.endpoint.down", "onbeat", NOW)
    assert event.subject == "https://billing.example:443"
    assert event.extensions == {"onbeatdepth": 1}
    assert event.data is not None
    assert msgspec.json.decode(event.data) == {
        "endpoint": "https://billing.example:443",
        "since": "2030-01-01T12:00:00Z",
        "calls": 12,
        "failures": 11,
        "error": "no connection could be made",
    }
    await reporter.step()
    assert len(await published(store)) == 1


async def test_nothing_is_written_where_no_schedule_asks_for_it(store: Any) -> None:
    await listen(store, "onbeat.job.*")
    reporter = a_reporter(store)
    reporter.report(OUTAGE)
    await reporter.step()
    assert reporter.waiting == {}
    assert await published(store) == []


@pytest.mark.parametrize("later", [0.0, 0.2, 59.9])
@pytest.mark.parametrize("begin", [0.0, 30.0, 59.9])
async def test_a_fleet_writes_one_event_for_an_outage(
    store: Any, begin: float, later: float
) -> None:
    await listen(store)
    first = replace(OUTAGE, since=NOW + begin * SECOND)
    fleet = [first, first, replace(OUTAGE, since=first.since + later * SECOND)]
    for outage in fleet:
        reporter = a_reporter(store)
        reporter.report(outage)
        await reporter.step()
    assert [event.time for event in await published(store)] == [first.since]


async def test_a_later_outage_and_another_endpoint_are_events_of_their_own(store: Any) -> None:
    await listen(store)
    reporter = a_reporter(store)
    for outage in (
        OUTAGE,
        replace(OUTAGE, endpoint="https://other.example:443"),
        replace(OUTAGE, since=NOW + 60 * SECOND),
    ):
        reporter.report(outage)
        await reporter.step()
    assert len(await published(store)) == 3


async def test_a_write_that_fails_is_repeated_by_the_loop(store: Any) -> None:
    await listen(store)
    store.trouble = {"wanted_types": 1, "publish": 1}
    store.after = {"publish": 1}  # stored, but the answer is lost
    reporter, telemetry = a_reporter(store), RecordingTelemetry()
    loop = asyncio.create_task(
        run_loop("outages", reporter.step, reporter.wakeup, FixedRandomness(), telemetry)
    )
    reporter.report(OUTAGE)
    await eventually(lambda: not reporter.waiting, "the report is written")
    await cancel_all([loop])
    assert len(telemetry.of("loop_failed")) == 3
    assert len(await published(store)) == 1


async def test_an_endpoint_waits_once_with_its_latest_outage(store: Any) -> None:
    await listen(store)
    reporter = a_reporter(store)
    latest = replace(OUTAGE, since=NOW + timedelta(hours=1))
    for outage in (OUTAGE, latest):
        reporter.report(outage)
    assert list(reporter.waiting.values()) == [latest]
    await reporter.step()
    assert [event.time for event in await published(store)] == [latest.since]


def test_the_event_is_bounded() -> None:
    outage = replace(OUTAGE, endpoint=f"https://{'a' * 253}:443", error="x" * 5_000)
    event = outage_event(outage)
    assert event.data is not None
    assert len(msgspec.json.decode(event.data)["error"]) == REASON_CHARS_MAX
    assert len(event.id) <= 64
    assert event_id("a", NOW) != event_id("b", NOW)
