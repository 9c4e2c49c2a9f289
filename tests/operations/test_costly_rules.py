"""Rules that take too many steps are refused, and harm no other."""

from datetime import timedelta

import msgspec
import pytest

from onbeat.model.errors import Invalid
from onbeat.model.limits import FORECAST_STEPS_MAX
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import Schedule
from onbeat.operations import forecasts
from onbeat.operations.tables.schedules import (
    RECURRENCE_PREVIEW,
    SCHEDULE_BACKFILL,
    SCHEDULE_CREATE,
    SCHEDULE_FORECAST,
    SCHEDULE_LIST,
    SCHEDULE_PUT,
    SCHEDULE_SHOW,
    SCHEDULE_UPDATE,
)
from onbeat.recurrence import Budget, rrule
from onbeat.testing.build import a_plan, a_schedule
from operations.harness import NOON, OperationsHarness

COSTLY = "\n".join(
    [
        "DTSTART:20260101T000000Z",
        "RRULE:FREQ=SECONDLY",
        f"EXRULE:FREQ=SECONDLY;BYHOUR={','.join(map(str, range(1, 24)))}",
        f"EXRULE:FREQ=SECONDLY;BYMINUTE={','.join(map(str, range(1, 60)))}",
        f"EXRULE:FREQ=SECONDLY;BYSECOND={','.join(map(str, range(1, 60)))}",
    ]
)
PLAIN = {"name": "n", "rrule": "FREQ=DAILY", "callback_url": "https://example.com/"}


@pytest.fixture
async def office() -> OperationsHarness:
    office = OperationsHarness()
    await office.store.open()
    return office


async def stored(office: OperationsHarness, name: str, recurrence: RecurrenceSpec) -> Schedule:
    schedule = a_schedule(name=name, recurrence=recurrence, planned_through=NOON, plan_at=NOON)
    await office.store.add_schedule(schedule, a_plan(schedule))
    return schedule


async def test_a_preview_that_takes_too_many_steps_is_refused(office: OperationsHarness) -> None:
    with pytest.raises(Invalid, match=r"rrule: too costly.*BYHOUR") as caught:
        await office.ask(RECURRENCE_PREVIEW, {"rrule": COSTLY, "count": 1})
    assert caught.value.field == "rrule"


async def test_a_gathering_until_what_takes_too_many_steps_is_refused(
    office: OperationsHarness,
) -> None:
    body = {"name": "n", "on": {"type": "t"}, "callback_url": "https://example.com/"}
    with pytest.raises(Invalid, match=r"gather.until: .*costly.*BYHOUR") as caught:
        await office.ask(SCHEDULE_CREATE, body | {"gather": {"until": {"rrule": COSTLY}}})
    assert caught.value.field.startswith("gather.until")


async def test_a_preview_of_what_is_only_long_is_shown(office: OperationsHarness) -> None:
    text = "DTSTART:20260101T000000Z\nRRULE:FREQ=SECONDLY\nEXRULE:FREQ=SECONDLY;BYMINUTE=1"
    result = await office.ask(
        RECURRENCE_PREVIEW, {"rrule": text, "count": 1000, "after": "2026-02-01T00:00:00Z"}
    )
    assert len(result["occurrences"]) == 1000


async def test_a_request_has_one_budget(office: OperationsHarness) -> None:
    body = {"rrule": "FREQ=SECONDLY", "count": 1000}
    office.context = msgspec.structs.replace(office.context, budget=Budget(3_000))
    await office.ask(RECURRENCE_PREVIEW, body)
    await office.ask(RECURRENCE_PREVIEW, body)
    with pytest.raises(Invalid, match="too costly"):
        await office.ask(RECURRENCE_PREVIEW, body)


async def test_a_schedule_that_could_not_be_planned_is_not_taken(office: OperationsHarness) -> None:
    with pytest.raises(Invalid, match="too costly") as caught:
        await office.ask(SCHEDULE_CREATE, PLAIN | {"rrule": COSTLY})
    assert caught.value.field == "rrule"
    with pytest.raises(Invalid, match="too costly"):
        await office.ask(SCHEDULE_PUT, PLAIN | {"rrule": COSTLY}, key="k")
    made = await office.ask(SCHEDULE_CREATE, PLAIN)
    with pytest.raises(Invalid, match="too costly"):
        await office.ask(SCHEDULE_UPDATE, {"rrule": COSTLY}, id=made["id"])
    assert (await office.ask(SCHEDULE_LIST))["total"] == 1


async def test_the_others_of_a_list_show_when_they_run_next(office: OperationsHarness) -> None:
    costly = await stored(office, "costly", rrule(COSTLY).spec())
    plain = await stored(office, "plain", rrule("FREQ=DAILY", start=NOON).spec())
    result = (await office.ask(SCHEDULE_LIST))["schedules"]
    at = {schedule["id"]: schedule["next_at"] for schedule in result}
    assert at == {costly.id: None, plain.id: "2026-03-03T12:00:00Z"}
    assert (await office.ask(SCHEDULE_SHOW, id=costly.id))["next_at"] is None


async def test_a_backfill_that_takes_too_many_steps_is_refused(office: OperationsHarness) -> None:
    costly = await stored(office, "costly", rrule(COSTLY).spec())
    span = {"from": "2026-01-02T00:00:01Z", "to": "2026-03-01T00:00:00Z"}
    with pytest.raises(Invalid, match="too costly"):
        await office.ask(SCHEDULE_BACKFILL, span, id=costly.id)


async def test_a_forecast_counts_the_others_to_the_end(office: OperationsHarness) -> None:
    await stored(office, "costly", rrule(COSTLY).spec())
    await stored(office, "plain", rrule("FREQ=HOURLY", start=NOON).spec())
    result = await office.ask(SCHEDULE_FORECAST)
    assert (result["fires"], result["cut"]) == (24, ["costly"])


async def test_a_forecast_ends_with_its_budget(
    office: OperationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasts, "FORECAST_STEPS_MAX", 100)
    assert FORECAST_STEPS_MAX > 100
    for name in "abc":
        every_hour = rrule("FREQ=HOURLY", start=NOON - timedelta(minutes=ord(name))).spec()
        await stored(office, name, every_hour)
    result = await office.ask(
        SCHEDULE_FORECAST, **{"from": "2026-03-03T00:00:00Z", "to": "2026-03-05T00:00:00Z"}
    )
    assert len(result["cut"]) == 1
    assert 96 <= result["fires"] <= 100
