"""What waits follows zone data that has been replaced."""

from datetime import timedelta

from msgspec.structs import replace

from engine.bench import Chance, Told
from onbeat.app.virtual import ManualClock
from onbeat.engine.replanner import Replanner
from onbeat.model.job import JobState
from onbeat.model.page import JobFilter, ScheduleFilter
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.recurrence import compile_spec, cron
from onbeat.rules.planning import first_watermark, plan
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import NOW, a_schedule

HORIZON = timedelta(minutes=10)
BERLIN = cron("0 9 * * *", tz="Europe/Berlin").spec()
LATER = cron("0 10 * * *", tz="Europe/Berlin").spec()


class Data:
    """Zone data whose newer edition puts Berlin's nine o'clock an hour later."""

    def __init__(self):
        self.is_newer = False

    def read(self, spec: RecurrenceSpec):
        return compile_spec(LATER if self.is_newer and spec == BERLIN else spec)


async def planned(spec, zone_data, data):
    store = MemoryStore()
    await store.open()
    bare = a_schedule(recurrence=spec, zone_data=zone_data)
    schedule = replace(bare, planned_through=first_watermark(NOW, None))
    await store.add_schedule(schedule, plan(schedule, NOW, HORIZON, Chance().ids, data.read))
    return store


def replanner(store, data, told):
    return Replanner(store, ManualClock(NOW), Chance(), told, HORIZON, data.read)


async def waiting(store):
    page = await store.jobs(JobFilter(state=JobState.WAITING))
    return sorted(job.due_at for job in page.items)


async def test_a_moved_occurrence_is_planned_anew_and_told():
    data, told = Data(), Told()
    store = await planned(BERLIN, "2020a", data)
    before = await waiting(store)
    data.is_newer = True

    await replanner(store, data, told).follow_zone_data()

    assert await waiting(store) == [before[0] + timedelta(hours=1)]
    assert [count for _, count in told.of("zone_data_moved")] == [1]


async def test_what_stays_where_it_was_keeps_its_job():
    data, told = Data(), Told()
    store = await planned(BERLIN, "2020a", data)
    before = (await store.jobs(JobFilter())).items

    await replanner(store, data, told).follow_zone_data()

    assert (await store.jobs(JobFilter())).items == before
    assert told.of("zone_data_moved") == []


async def test_a_schedule_is_looked_at_once_for_each_edition():
    data, told = Data(), Told()
    store = await planned(BERLIN, "2020a", data)
    follower = replanner(store, data, told)

    assert [await follower.follow_zone_data() for _ in range(2)] == [1, 0]
    (schedule,) = (await store.schedules(ScheduleFilter())).items
    assert schedule.zone_data == follower.zone_data


async def test_rules_in_utc_are_left_alone():
    data, told = Data(), Told()
    store = await planned(cron("0 9 * * *").spec(), "2020a", data)

    assert await replanner(store, data, told).follow_zone_data() == 0


async def test_a_zone_that_is_gone_is_told_and_stops_no_other():
    data, told = Data(), Told()
    store = await planned(BERLIN, "2020a", data)

    def gone(_spec):
        raise LookupError("no such zone")

    follower = Replanner(store, ManualClock(NOW), Chance(), told, HORIZON, gone)

    assert await follower.follow_zone_data() == 1
    assert len(told.of("unplannable")) == 1
