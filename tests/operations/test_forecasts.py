"""How busy the coming hours will be, over the schedules of the store."""

from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.model.errors import Invalid
from onbeat.model.limits import FORECAST_FIRES_MAX, PAGE_LIMIT_MAX
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import Schedule
from onbeat.model.target import HandlerTarget
from onbeat.operations.schedules import add
from onbeat.operations.tables.schedules import SCHEDULE_CREATE, SCHEDULE_FORECAST, SCHEDULE_PAUSE
from onbeat.recurrence import cron, function
from onbeat.wire.schedules import ScheduleDraft
from operations.harness import OperationsHarness

TASK = {"task": "tick"}


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness()


async def created(office: OperationsHarness, **body: Any) -> str:
    answer = await office.ask(SCHEDULE_CREATE, {"name": "tick", "target": TASK, **body})
    return answer["id"]


async def test_every_hour_of_the_span_is_told_quiet_ones_too(office: OperationsHarness) -> None:
    await created(office, cron="*/20 13 * * *")

    answer = await office.ask(SCHEDULE_FORECAST, to="2026-03-02T15:00:00Z")

    assert answer == {
        "hours": [
            {"at": "2026-03-02T12:00:00Z", "fires": 0},
            {"at": "2026-03-02T13:00:00Z", "fires": 3},
            {"at": "2026-03-02T14:00:00Z", "fires": 0},
        ],
        "fires": 3,
        "schedules": 1,
        "cut": [],
        "counted_to": None,
    }


async def test_the_first_instant_counts_and_the_last_does_not(office: OperationsHarness) -> None:
    await created(office, cron="0 * * * *")

    answer = await office.ask(
        SCHEDULE_FORECAST, **{"from": "2026-03-03T00:00:00Z", "to": "2026-03-03T03:00:00Z"}
    )

    assert answer["fires"] == 3


async def test_a_day_is_looked_at_where_nothing_is_said(office: OperationsHarness) -> None:
    await created(office, cron="0 * * * *")

    assert (await office.ask(SCHEDULE_FORECAST))["fires"] == 24


async def test_paused_schedules_do_not_count(office: OperationsHarness) -> None:
    await office.ask(SCHEDULE_PAUSE, id=await created(office, cron="0 * * * *"))

    assert (await office.ask(SCHEDULE_FORECAST))["schedules"] == 0


async def test_the_bounds_of_a_schedule_hold(office: OperationsHarness) -> None:
    await created(office, cron="0 * * * *", ends_at="2026-03-02T14:00:00Z")

    assert (await office.ask(SCHEDULE_FORECAST))["fires"] == 3


async def test_a_rule_that_fires_too_often_to_be_counted_is_named(
    office: OperationsHarness,
) -> None:
    await created(office, rrule="FREQ=SECONDLY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16")
    await created(office, every="2s")

    answer = await office.ask(SCHEDULE_FORECAST, to="2026-03-04T12:00:00Z")

    # An interval fires first after what it is anchored at.
    assert (answer["fires"], answer["cut"]) == (FORECAST_FIRES_MAX + 48 * 1_800 - 1, ["tick"])
    # 5 hours of today, 17 of tomorrow, 5 of the day after, and a part of the next one.
    assert answer["counted_to"] == "2026-03-04T05:00:00Z"


@pytest.mark.parametrize(
    ("rule", "an_hour"),
    [
        ({"every": "1s"}, 3_600),
        ({"every": "7m"}, None),
        ({"rrule": "FREQ=SECONDLY;INTERVAL=5"}, 720),
        ({"rrule": "FREQ=MINUTELY"}, 60),
        ({"cron": "*/2 * * * * *"}, 1_800),
        ({"cron": "* * * * * *", "timezone": "Europe/Berlin"}, 3_600),
    ],
)
async def test_a_dense_rule_is_counted_to_the_end(
    office: OperationsHarness, rule: dict[str, str], an_hour: int | None
) -> None:
    await created(office, **rule)

    answer = await office.ask(
        SCHEDULE_FORECAST, **{"from": "2026-03-03T00:30:00Z", "to": "2026-04-02T00:00:00Z"}
    )

    assert (answer["cut"], answer["counted_to"]) == ([], None)
    fires = [hour["fires"] for hour in answer["hours"]]
    if an_hour is None:
        assert set(fires[1:]) == {8, 9}
    else:
        assert (fires[0], set(fires[1:])) == (an_hour // 2, {an_hour})


async def test_a_rule_that_only_a_program_can_read_is_named(office: OperationsHarness) -> None:
    spec = cron("0 * * * *").spec()
    schedule = await add(office.context, draft_of(spec))
    await office.store.update_schedule(elsewhere(schedule), None, office.clock.now())

    answer = await office.ask(SCHEDULE_FORECAST)

    assert (answer["fires"], answer["cut"]) == (0, ["tick"])
    assert answer["counted_to"] == "2026-03-02T12:00:00Z", "no hour is counted"


def draft_of(spec: RecurrenceSpec) -> ScheduleDraft:
    return ScheduleDraft(name="tick", recurrence=spec, target=HandlerTarget("tick"))


def elsewhere(schedule: Schedule) -> Schedule:
    rule = function(lambda after: after).spec()
    return replace(schedule, recurrence=rule, version=schedule.version + 1)


async def test_more_schedules_than_a_page_has_are_all_counted(office: OperationsHarness) -> None:
    for _ in range(PAGE_LIMIT_MAX + 1):
        await add(office.context, draft_of(cron("30 12 * * *").spec()))

    answer = await office.ask(SCHEDULE_FORECAST, to="2026-03-02T13:00:00Z")

    assert (answer["schedules"], answer["fires"]) == (PAGE_LIMIT_MAX + 1, PAGE_LIMIT_MAX + 1)


@pytest.mark.parametrize(
    "to", ["2026-03-02T12:00:00Z", "2026-03-01T00:00:00Z", "2026-04-03T00:00:00Z"]
)
async def test_a_span_must_be_ahead_and_not_too_long(office: OperationsHarness, to: str) -> None:
    with pytest.raises(Invalid, match="to must be later than from, by at most 31 days"):
        await office.ask(SCHEDULE_FORECAST, to=to)
