"""What waits follows zone data that has been replaced."""

from datetime import datetime, timedelta
from typing import NoReturn

from msgspec.structs import replace

from engine.harness import FixedRandomness, RecordingTelemetry
from onbeat.app.virtual_clock import ManualClock
from onbeat.engine.replanner import Replanner
from onbeat.model.condition import Window
from onbeat.model.job import JobState
from onbeat.model.page import JobFilter, ScheduleFilter
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.recurrence import compile_spec, cron
from onbeat.recurrence.budget import Budget
from onbeat.recurrence.recurrence import Recurrence
from onbeat.rules.plans import first_watermark, plan
from onbeat.rules.zone_changes import CAME_BEFORE
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import NOW, a_schedule

HORIZON = timedelta(minutes=10)
BERLIN = cron("0 9 * * *", tz="Europe/Berlin").spec()
LATER = cron("0 10 * * *", tz="Europe/Berlin").spec()


class Data:
    """Zone data whose newer edition puts Berlin's nine o'clock an hour later."""

    def __init__(self, newer: RecurrenceSpec = LATER) -> None:
        self.is_newer = False
        self.newer = newer

    def read(self, spec: RecurrenceSpec, budget: Budget | None = None) -> Recurrence:
        return compile_spec(self.newer if self.is_newer and spec == BERLIN else spec, budget)


async def planned(spec: RecurrenceSpec, zone_data: str, data: Data) -> MemoryStore:
    store = MemoryStore()
    await store.open()
    bare = a_schedule(recurrence=spec, zone_data=zone_data)
    schedule = replace(bare, planned_through=first_watermark(NOW, None))
    await store.add_schedule(
        schedule, plan(schedule, NOW, HORIZON, FixedRandomness().ids, data.read)
    )
    return store


def replanner(
    store: MemoryStore, data: Data, told: RecordingTelemetry, now: datetime = NOW
) -> Replanner:
    return Replanner(store, ManualClock(now), FixedRandomness(), told, HORIZON, data.read)


async def waiting(store: MemoryStore) -> list[datetime]:
    page = await store.jobs(JobFilter(state=JobState.WAITING))
    return sorted(job.due_at for job in page.items)


async def test_a_moved_occurrence_is_planned_anew_and_told() -> None:
    data, answer = Data(), RecordingTelemetry()
    store = await planned(BERLIN, "2020a", data)
    before = await waiting(store)
    data.is_newer = True

    await replanner(store, data, answer).replan_outdated()

    assert await waiting(store) == [before[0] + timedelta(hours=1)]
    assert [count for _, count in answer.of("zone_data_moved")] == [1]


async def test_what_stays_where_it_was_keeps_its_job() -> None:
    data, answer = Data(), RecordingTelemetry()
    store = await planned(BERLIN, "2020a", data)
    before = (await store.jobs(JobFilter())).items

    await replanner(store, data, answer).replan_outdated()

    assert (await store.jobs(JobFilter())).items == before
    assert answer.of("zone_data_moved") == []


async def test_an_occurrence_that_new_data_put_in_the_past_is_not_lost() -> None:
    data = Data(newer=cron("0 8 * * *", tz="Europe/Berlin").spec())
    store = await planned(BERLIN, "2020a", data)
    (nine,) = await waiting(store)
    data.is_newer = True

    half_past_eight = nine - timedelta(minutes=30)
    await replanner(store, data, RecordingTelemetry(), half_past_eight).replan_outdated()

    eight = nine - timedelta(hours=1)
    assert await waiting(store) == [eight, eight + timedelta(days=1)]


async def test_an_occurrence_that_ran_is_not_planned_again() -> None:
    data = Data()
    store = await planned(BERLIN, "2020a", data)
    ((schedule,), (nine,)) = (await store.schedules(ScheduleFilter())).items, await waiting(store)
    half_past_nine, ten = nine + timedelta(minutes=30), nine + timedelta(hours=1)
    tomorrow = plan(schedule, half_past_nine, HORIZON, FixedRandomness().ids, data.read)
    await store.apply_plans([tomorrow])
    data.is_newer = True

    await replanner(store, data, RecordingTelemetry(), half_past_nine).replan_outdated()

    assert await waiting(store) == [nine, ten + timedelta(days=1)]
    told = await store.dispositions(schedule.id, ten, ten)
    assert [(one.job_id, one.reason) for one in told] == [(None, CAME_BEFORE)]


async def test_a_schedule_is_looked_at_once_for_each_edition() -> None:
    data, answer = Data(), RecordingTelemetry()
    store = await planned(BERLIN, "2020a", data)
    follower = replanner(store, data, answer)

    assert [await follower.replan_outdated() for _ in range(2)] == [1, 0]
    (schedule,) = (await store.schedules(ScheduleFilter())).items
    assert schedule.zone_data == follower.zone_data


async def test_rules_in_utc_are_left_alone() -> None:
    data, answer = Data(), RecordingTelemetry()
    store = await planned(cron("0 9 * * *").spec(), "2020a", data)

    assert await replanner(store, data, answer).replan_outdated() == 0


async def test_a_zone_that_is_gone_is_told_and_stops_no_other() -> None:
    data, answer = Data(), RecordingTelemetry()
    store = await planned(BERLIN, "2020a", data)

    def gone(_spec: object, _budget: object = None, /) -> NoReturn:
        raise LookupError("no such zone")

    follower = Replanner(store, ManualClock(NOW), FixedRandomness(), answer, HORIZON, gone)

    assert await follower.replan_outdated() == 1
    assert len(answer.of("unplannable")) == 1


async def test_a_schedule_stored_with_a_zone_in_doubt_goes_on_and_is_told() -> None:
    data, told = Data(), RecordingTelemetry()
    stored = RecurrenceSpec("cron", "0 9 * * *", tz="Factory")
    store = await planned(stored, "2020a", data)

    await replanner(store, data, told).replan_outdated()

    ((schedule, reason),) = told.of("zone_in_doubt")
    assert schedule.recurrence == stored
    assert reason == "'Factory' is no place; use an IANA name such as Europe/Berlin"
    assert told.of("unplannable") == []
    assert [at.hour for at in await waiting(store)] == [9]


async def test_a_zone_in_doubt_within_the_text_of_a_rule_is_told() -> None:
    data, told = Data(), RecordingTelemetry()
    text = "DTSTART;TZID=Factory:20200101T090000\nRRULE:FREQ=DAILY"
    store = await planned(RecurrenceSpec("rrule", text), "2020a", data)

    await replanner(store, data, told).replan_outdated()

    assert [reason for _, reason in told.of("zone_in_doubt")] == [
        "'Factory' is no place; use an IANA name such as Europe/Berlin"
    ]


async def test_a_zone_in_doubt_of_a_window_is_told() -> None:
    data, told = Data(), RecordingTelemetry()
    store = await planned(BERLIN, "2020a", data)
    (schedule,) = (await store.schedules(ScheduleFilter())).items
    window = Window(start=0, end=60, timezone="localtime")
    await store.update_schedule(replace(schedule, window=(window,), version=2), None, NOW)

    await replanner(store, data, told).replan_outdated()

    assert [reason for _, reason in told.of("zone_in_doubt")] == [
        "'localtime' is another zone on another machine; use an IANA name such as Europe/Berlin"
    ]
