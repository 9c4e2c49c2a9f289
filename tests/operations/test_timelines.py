"""What schedules did and will do, over the schedules of the store."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.model.errors import Invalid, NotFound
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.limits import LANE_RUNS_MAX, PAGE_LIMIT_MAX, TIMELINE_LANES_MAX
from onbeat.model.outcome import Failed, Succeeded
from onbeat.model.page import Page, ScheduleFilter
from onbeat.model.plan import Skip
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import Schedule
from onbeat.operations import timeline_material
from onbeat.operations.tables.schedules import (
    SCHEDULE_CREATE,
    SCHEDULE_PAUSE,
    SCHEDULE_TRIGGER,
    TIMELINE_SHOW,
)
from onbeat.ports.store import JobExport
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import a_plan, a_schedule, an_id, an_occurrence
from operations.harness import NOON, OperationsHarness
from operations.test_costly_rules import COSTLY

TASK = {"task": "tick"}
HOUR = timedelta(hours=1)
FAILURE = Failed("it broke", retryable=False)


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness()


async def created(office: OperationsHarness, name: str = "tick", **body: Any) -> str:
    answer = await office.ask(SCHEDULE_CREATE, {"name": name, "target": TASK, **body})
    return answer["id"]


async def lanes(office: OperationsHarness, **named: str) -> list[dict[str, Any]]:
    return (await office.ask(TIMELINE_SHOW, **named))["lanes"]


async def names(office: OperationsHarness, **named: str) -> list[str]:
    return [lane["name"] for lane in await lanes(office, **named)]


async def add_runs(office: OperationsHarness, count: int, **fields: Any) -> Schedule:
    """A schedule that ran each second until a minute ago."""
    schedule = a_schedule(recurrence=RecurrenceSpec(kind="event", text=""), plan_at=None, **fields)
    await office.store.add_schedule(schedule, a_plan(schedule))
    for number in range(count):
        at = NOON - timedelta(minutes=1) - timedelta(seconds=number)
        job = an_occurrence(schedule, at, id=JobId(an_id()), state=JobState.SUCCEEDED)
        job = replace(job, started_at=at, finished_at=at, attempt=1, token=1)
        await office.store.import_jobs([JobExport(job=job)])
    return schedule


async def test_a_day_has_what_ran_and_what_will(office: OperationsHarness) -> None:
    id = await created(office, cron="0 * * * *", timezone="Europe/Berlin")
    office.move(hours=1)
    await office.run(Succeeded(), "tick")

    answer = await office.ask(TIMELINE_SHOW, tz="Europe/Berlin")

    assert answer["from"] == "2026-03-01T23:00:00Z"
    assert answer["to"] == "2026-03-02T23:00:00Z"
    assert (answer["hours"], answer["clock_changes"], answer["schedules"]) == (24.0, [], 1)
    (lane,) = answer["lanes"]
    assert (lane["id"], lane["key"], lane["status"]) == (id, None, "active")
    assert lane["timezone"] == "Europe/Berlin"
    kinds = [mark["kind"] for mark in lane["marks"]]
    assert kinds == ["succeeded", *["planned"] * 9]
    assert lane["marks"][0]["from"] == "2026-03-02T13:00:00Z"
    assert lane["marks"][0]["to"] == "2026-03-02T13:00:01Z"
    assert lane["buckets"][0] == {
        "from": "2026-03-02T13:00:00Z",
        "to": "2026-03-02T13:00:01Z",
        "succeeded": 1,
    }
    assert answer["all"] == lane["buckets"]


async def test_gap_and_fold_are_named(office: OperationsHarness) -> None:
    await created(office, cron="30 2 * * *", timezone="Europe/Berlin")

    def summary(answer: dict[str, Any]) -> tuple[Any, ...]:
        (change,) = answer["clock_changes"]
        return answer["hours"], change["kind"], change["from"], change["to"], change["at"]

    spring = await office.ask(TIMELINE_SHOW, day="2026-03-29", tz="Europe/Berlin")
    assert summary(spring) == (23.0, "gap", "02:00", "03:00", "2026-03-29T01:00:00Z")
    autumn = await office.ask(TIMELINE_SHOW, day="2026-10-25", tz="Europe/Berlin")
    assert summary(autumn) == (25.0, "fold", "02:00", "03:00", "2026-10-25T01:00:00Z")
    assert spring["lanes"][0]["clock_changes"] == ["2026-03-29T01:00:00Z"]
    elsewhere = await office.ask(TIMELINE_SHOW, day="2026-03-29")
    assert elsewhere["clock_changes"] == []
    assert elsewhere["lanes"][0]["clock_changes"] == ["2026-03-29T01:00:00Z"]


async def test_a_lane_of_elapsed_time_tells_of_no_turned_clock(office: OperationsHarness) -> None:
    body = {"name": "hourly", "every": "1h", "timezone": "Europe/Berlin", "target": {"task": "x"}}
    await office.ask(SCHEDULE_CREATE, body)
    (lane,) = (await office.ask(TIMELINE_SHOW, day="2026-03-29"))["lanes"]
    assert (lane["timezone"], lane["clock_changes"]) == ("Europe/Berlin", [])


async def test_a_skip_shows_its_reason(office: OperationsHarness) -> None:
    schedule = a_schedule(planned_through=NOON)
    skip = Skip(NOON - 2 * HOUR, NOON - HOUR, "overlap: job 1 is unfinished")
    await office.store.add_schedule(schedule, a_plan(schedule, skips=(skip,)))
    (lane,) = await lanes(office)
    first = lane["marks"][0]
    assert (first["kind"], first["reason"]) == ("skipped", "overlap: job 1 is unfinished")
    assert (first["from"], first["to"]) == ("2026-03-02T10:00:00Z", "2026-03-02T11:00:00Z")


async def test_runs_that_are_too_many_are_counted(
    office: OperationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_runs(office, LANE_RUNS_MAX - 1, name="known")
    await add_runs(office, LANE_RUNS_MAX + 50, name="counted")
    found = {lane["name"]: lane for lane in await lanes(office)}
    assert [found[name]["runs"] for name in ("known", "counted")] == [199, 250]
    assert all(lane["marks"] is None for lane in found.values())
    sums = sum(bucket["succeeded"] for bucket in found["counted"]["buckets"])
    assert (sums, found["counted"]["since"]) == (250, None)

    office.context.past.forget_all()
    monkeypatch.setattr(timeline_material, "TIMELINE_COUNTED_MAX", 230)
    found = {lane["name"]: lane for lane in await lanes(office)}
    assert found["counted"]["runs"] == 230
    assert found["counted"]["since"] == "2026-03-02T11:50:00Z"


async def test_what_waits_after_events_is_counted_too(office: OperationsHarness) -> None:
    schedule = a_schedule(recurrence=RecurrenceSpec(kind="event", text=""), plan_at=None)
    await office.store.add_schedule(schedule, a_plan(schedule))
    for number in range(LANE_RUNS_MAX + 50):
        at = NOON + timedelta(minutes=number)
        job = an_occurrence(schedule, at, id=JobId(an_id()), occurrence=None)
        await office.store.import_jobs([JobExport(job=job)])
    (lane,) = await lanes(office)
    sums = {
        name: sum(bucket.get(name, 0) for bucket in lane["buckets"])
        for name in ("waiting", "planned")
    }
    assert sums == {"waiting": 1, "planned": 249}
    assert (lane["runs"], lane["planned"], lane["since"]) == (250, 0, None)
    (lane,) = await lanes(office, day="2026-03-03")
    assert (lane["runs"], lane["buckets"]) == (0, [])


async def test_a_day_of_the_past_counts_only_what_was_then(office: OperationsHarness) -> None:
    await add_runs(office, LANE_RUNS_MAX + 50)
    (lane,) = await lanes(office, day="2026-03-01")
    assert (lane["runs"], lane["marks"], lane["buckets"]) == (0, [], [])
    (lane,) = await lanes(office, day="2026-03-03")
    assert (lane["runs"], lane["buckets"]) == (0, [])


async def test_what_failed_last_comes_first(office: OperationsHarness) -> None:
    for name in ("alpha", "beta", "gamma"):
        id = await created(office, name, cron="0 9 * * *", queue=f"of-{name}")
        if name != "alpha":
            await office.ask(SCHEDULE_TRIGGER, id=id)
            await office.run(FAILURE, "tick")
    assert await names(office) == ["gamma", "beta", "alpha"]
    assert await names(office, order="name") == ["alpha", "beta", "gamma"]
    assert await names(office, queue="of-beta") == ["beta"]
    assert await names(office, q="AMM") == ["gamma"]


async def test_what_fires_next_comes_first(office: OperationsHarness) -> None:
    await created(office, "evening", cron="0 20 * * *")
    await created(office, "afternoon", cron="0 14 * * *")
    paused = await created(office, "paused", cron="0 13 * * *")
    await office.ask(SCHEDULE_PAUSE, id=paused)
    assert await names(office, order="next") == ["afternoon", "evening", "paused"]
    assert await names(office, status="paused") == ["paused"]
    (lane,) = await lanes(office, status="paused")
    assert lane["paused_from"] == "2026-03-02T12:00:00Z"
    assert "planned" not in [mark["kind"] for mark in lane["marks"]]


async def test_pages_have_a_bounded_number_of_lanes(office: OperationsHarness) -> None:
    for number in range(TIMELINE_LANES_MAX + 1):
        await created(office, f"{number:02}", cron="0 9 * * *")
    first = await office.ask(TIMELINE_SHOW, order="name")
    assert (len(first["lanes"]), first["schedules"], first["more"]) == (40, 41, False)
    assert (first["page"], first["limit"]) == (1, 40)
    assert await names(office, order="name", page="2") == ["40"]
    assert await names(office, order="name", page="3") == []


async def test_more_schedules_than_are_looked_at_are_told(office: OperationsHarness) -> None:
    class Crowd(MemoryStore):
        async def schedules(self, filter: ScheduleFilter) -> Page[Schedule]:
            page = await super().schedules(filter)
            return Page(page.items, total=PAGE_LIMIT_MAX + 1)

    office = OperationsHarness(Crowd())
    await created(office, cron="0 9 * * *")
    answer = await office.ask(TIMELINE_SHOW)
    assert (answer["schedules"], answer["more"]) == (1, True)


async def test_one_schedule_is_shown_alone(office: OperationsHarness) -> None:
    await created(office, "other", cron="0 9 * * *")
    id = await created(office, cron="0 9 * * *")
    assert await names(office, schedule_id=id) == ["tick"]
    with pytest.raises(NotFound):
        await office.ask(TIMELINE_SHOW, schedule_id="0190ffff-0000-7000-8000-000000000000")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (RecurrenceSpec(kind="function", text="gone"), "cannot be computed by this process"),
        (RecurrenceSpec(kind="rrule", text=COSTLY), "takes too many steps to search"),
    ],
)
async def test_a_rule_that_cannot_be_computed_here_is_named(
    office: OperationsHarness, spec: RecurrenceSpec, why: str
) -> None:
    schedule = a_schedule(recurrence=spec)
    await office.store.add_schedule(schedule, a_plan(schedule))
    await created(office, "hourly", cron="0 * * * *")
    other, lane = sorted(await lanes(office), key=lambda lane: lane["unknown"] or "")
    assert lane["unknown"] == f"its rule {why}"
    assert (other["unknown"], other["planned"]) == (None, 10)


@pytest.mark.parametrize(
    ("named", "field"),
    [
        ({"day": "tomorrow"}, "day"),
        ({"day": "2026-13-01"}, "day"),
        ({"day": "2026-03-29T06:00:00"}, "day"),
        ({"day": "0001-01-01"}, "day"),
        ({"day": "9999-12-31"}, "day"),
        ({"day": "0001-01-01T00:00:00+14:00"}, "day"),
        ({"day": "x" * 41}, "day"),
        ({"tz": "Europe/Atlantis"}, "tz"),
        ({"tz": "../../etc/passwd"}, "tz"),
        ({"tz": "Factory"}, "tz"),
        ({"span": "year"}, "span"),
        ({"order": "worst"}, "order"),
        ({"page": "0"}, "page"),
        ({"q": "x" * 201}, "q"),
    ],
)
async def test_what_cannot_be_shown_is_refused_by_its_field(
    office: OperationsHarness, named: dict[str, str], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await office.ask(TIMELINE_SHOW, **named)
    assert caught.value.field == field


async def test_six_hours_begin_at_an_instant(office: OperationsHarness) -> None:
    answer = await office.ask(TIMELINE_SHOW, span="6h", day="2026-03-02T06:30:00+01:00")
    assert datetime.fromisoformat(answer["from"]) == NOON - 6.5 * HOUR
    assert datetime.fromisoformat(answer["to"]) == NOON - 0.5 * HOUR
