"""What timelines remember of the past: no second look into the store, and nothing out of date."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.engine.bulk import BulkRunner
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import JobState
from onbeat.model.limits import LANE_RUNS_MAX, OLD_BUCKETS_MAX
from onbeat.model.live import LiveBatch, LiveEvent
from onbeat.model.outcome import Failed, Succeeded
from onbeat.model.schedule import Schedule
from onbeat.model.timeline import JobRun
from onbeat.operations.old_lanes import OldLanes
from onbeat.operations.tables.jobs import JOB_BULK, JOB_RETRY
from onbeat.operations.tables.schedules import SCHEDULE_BACKFILL, SCHEDULE_UPDATE, TIMELINE_SHOW
from onbeat.ports.store import JobExport
from onbeat.rules.day_axis import DayAxis
from onbeat.rules.old_lanes import BELIEVED, STILL_MOVING, OldLane
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import a_plan, a_schedule, an_id, an_occurrence
from operations.harness import NOON, OperationsHarness

YESTERDAY = "2026-03-01"
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class Watched(MemoryStore):
    """Notes which lanes are read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    async def runs_between(self, ids: Any, first: Any, last: Any, limit: int) -> Any:
        self.reads += ids
        return await super().runs_between(ids, first, last, limit)

    async def run_counts(self, ids: Any, first: Any, last: Any, width: Any, limit: int) -> Any:
        self.reads += ids
        return await super().run_counts(ids, first, last, width, limit)

    async def skips_between(self, ids: Any, first: Any, last: Any, limit: int) -> Any:
        self.reads += ids
        return await super().skips_between(ids, first, last, limit)

    async def forgotten_between(self, ids: Any, first: Any, last: Any, limit: int) -> Any:
        self.reads += ids
        return await super().forgotten_between(ids, first, last, limit)

    def taken(self) -> set[str]:
        found, self.reads = set(self.reads), []
        return found


@pytest.fixture
def store() -> Watched:
    return Watched()


@pytest.fixture
def office(store: Watched) -> OperationsHarness:
    return OperationsHarness(store)


async def add_runs(
    office: OperationsHarness, count: int, state: JobState, first: datetime = NOON - DAY
) -> Schedule:
    """One run a minute."""
    schedule = a_schedule(planned_through=NOON, plan_at=NOON + DAY)
    await office.store.add_schedule(schedule, a_plan(schedule))
    for number in range(count):
        at = first + timedelta(minutes=number)
        job = an_occurrence(schedule, at, id=JobId(an_id()), state=state)
        job = replace(job, started_at=at, finished_at=at, attempt=1, token=1)
        await office.store.import_jobs([JobExport(job=job)])
    return schedule


async def lane_of(office: OperationsHarness, day: str = YESTERDAY) -> dict[str, Any]:
    (lane,) = (await office.ask(TIMELINE_SHOW, day=day))["lanes"]
    return lane


@pytest.mark.parametrize("count", [3, LANE_RUNS_MAX + 10])
async def test_a_second_look_at_a_day_that_is_over_reads_no_run(
    office: OperationsHarness, store: Watched, count: int
) -> None:
    schedule = await add_runs(office, count, JobState.FAILED)
    first = await lane_of(office)
    assert first["runs"] == count
    assert first["buckets"][0]["first_failure"] == first["buckets"][0]["from"]
    assert store.taken() == {schedule.id}
    assert await lane_of(office) == first
    assert store.taken() == set()
    office.move(seconds=BELIEVED.total_seconds())
    assert await lane_of(office) == first
    assert store.taken() == {schedule.id}


async def test_of_a_day_that_goes_on_only_the_rest_is_read(
    office: OperationsHarness, store: Watched
) -> None:
    await add_runs(office, 3, JobState.SUCCEEDED, NOON - 4 * HOUR)
    seen: list[Any] = []
    reading = store.runs_between

    async def noting(ids: Any, first: Any, last: Any, limit: int) -> Any:
        seen.append(first)
        return await reading(ids, first, last, limit)

    store.runs_between = noting
    before = await lane_of(office, "2026-03-02")
    again = await lane_of(office, "2026-03-02")
    assert again == before
    assert seen == [NOON - DAY, NOON - STILL_MOVING]


async def test_a_retry_drops_what_was_known_of_its_schedule(
    office: OperationsHarness, store: Watched
) -> None:
    await add_runs(office, 3, JobState.FAILED)
    lane = await lane_of(office)
    store.taken()
    await office.ask(JOB_RETRY, id=lane["marks"][0]["job_id"])
    assert (await lane_of(office))["runs"] == 2


async def test_a_backfill_and_an_edit_drop_it_too(
    office: OperationsHarness, store: Watched
) -> None:
    schedule = await add_runs(office, 1, JobState.SUCCEEDED)
    await lane_of(office)
    span = {"from": "2026-03-01T01:30:00Z", "to": "2026-03-01T03:30:00Z", "limit": 2}
    await office.ask(SCHEDULE_BACKFILL, span, id=schedule.id)
    store.taken()
    await lane_of(office)
    assert store.taken() == {schedule.id}
    await office.ask(SCHEDULE_UPDATE, {"name": "another"}, id=schedule.id)
    await lane_of(office)
    assert store.taken() == {schedule.id}


async def test_news_of_other_processes_drop_it(office: OperationsHarness, store: Watched) -> None:
    schedule = await add_runs(office, 1, JobState.SUCCEEDED)
    await lane_of(office)
    store.taken()
    at = office.clock.now()
    event = LiveEvent(kind="schedule", id=schedule.id, at=at, to="backfilled")
    office.context.live.on_past = office.context.past.changed
    office.context.live.bring(LiveBatch((event,)))
    await lane_of(office)
    assert store.taken() == {schedule.id}


async def test_what_waits_keeps_its_time_from_being_over(
    office: OperationsHarness, store: Watched
) -> None:
    schedule = await add_runs(office, 1, JobState.WAITING)
    await lane_of(office)
    store.taken()
    await lane_of(office)
    assert store.taken() == {schedule.id}


async def test_runs_that_were_pruned_are_told(office: OperationsHarness, store: Watched) -> None:
    office.context = replace(office.context, keep=6 * HOUR, keep_failed=12 * HOUR)
    schedule = a_schedule(plan_at=NOON + DAY)
    jobs = [an_occurrence(schedule, NOON - HOUR), an_occurrence(schedule, NOON)]
    await store.add_schedule(schedule, a_plan(schedule, *jobs))
    for outcome in (Succeeded(), Failed("it broke", retryable=False)):
        await office.run(outcome, "work")
    office.clock.at = NOON + 10 * HOUR
    now = office.clock.now()
    await store.prune(finished_before=now - 6 * HOUR, failed_before=now - 12 * HOUR, limit=10)

    answer = await office.ask(TIMELINE_SHOW)

    (lane,) = answer["lanes"]
    kinds = [mark["kind"] for mark in lane["marks"]]
    assert kinds[:2] == ["forgotten", "failed"]
    assert lane["buckets"][0]["forgotten"] == 1
    assert answer["kept_since"] == "2026-03-02T16:00:00Z"
    assert answer["failures_kept_since"] == "2026-03-02T10:00:00Z"
    later = await office.ask(TIMELINE_SHOW, day="2026-03-03")
    assert (later["kept_since"], later["failures_kept_since"]) == (None, None)


def test_a_schedule_that_nobody_knows_is_nothing_to_forget(office: OperationsHarness) -> None:
    office.context.past.forget([ScheduleId(an_id())])
    assert office.context.past.buckets == 0


def an_old_lane(schedule: Schedule, until: datetime, runs: int = 0) -> OldLane:
    return OldLane(
        until=until,
        read_at=NOON,
        updated_at=schedule.updated_at,
        runs=tuple(
            JobRun(
                id=JobId(an_id()),
                schedule_id=schedule.id,
                state=JobState.SUCCEEDED,
                due_at=NOON - DAY,
            )
            for _ in range(runs)
        ),
        counts=None,
        skips=(),
        forgotten=(),
    )


def test_only_so_many_buckets_are_kept_those_looked_at_last() -> None:
    axis = DayAxis(first=NOON - DAY, last=NOON, now=NOON, width=HOUR)
    past = OldLanes(buckets_max=48)
    first, second, third = (a_schedule() for _ in range(3))
    for one in (first, second):
        past.keep(axis, one.id, an_old_lane(one, NOON), past.changes)
    assert past.buckets == 48
    assert past.known(axis, first) is not None
    past.keep(axis, third.id, an_old_lane(third, NOON - 23 * HOUR), past.changes)
    kept = [past.known(axis, one) is not None for one in (first, second, third)]
    assert (kept, past.buckets) == ([True, False, True], 25)
    past.keep(axis, third.id, an_old_lane(third, NOON - 23 * HOUR, runs=25), past.changes)
    assert (past.known(axis, first), past.buckets) == (None, 25), "records weigh, too"
    assert OldLanes().buckets_max == OLD_BUCKETS_MAX


def test_what_was_read_before_a_change_is_not_kept() -> None:
    axis = DayAxis(first=NOON - DAY, last=NOON, now=NOON, width=HOUR)
    past, schedule = OldLanes(), a_schedule()
    before = past.changes
    past.changed([schedule.id])
    past.keep(axis, schedule.id, an_old_lane(schedule, NOON), before)
    assert past.known(axis, schedule) is None


async def test_a_chunk_of_a_bulk_drops_all_lanes(office: OperationsHarness, store: Watched) -> None:
    schedule = await add_runs(office, 3, JobState.FAILED)
    live, past = office.context.live, office.context.past
    live.on_past = past.changed
    await office.ask(JOB_BULK, {"do": "retry", "where": {"state": "failed"}})
    await lane_of(office)
    assert past.buckets
    office.move(minutes=1)
    await BulkRunner(store, office.clock, live).step()
    assert past.buckets == 0
    assert (await lane_of(office))["runs"] == 0
    assert store.taken() == {schedule.id}


async def test_a_retry_is_told_to_other_processes(office: OperationsHarness) -> None:
    schedule = await add_runs(office, 1, JobState.FAILED)
    lane = await lane_of(office)
    outlet = office.context.live.open_here()
    await office.ask(JOB_RETRY, id=lane["marks"][0]["job_id"])
    found = [(event.kind, event.id, event.to) for event in outlet.take().events]
    assert ("schedule", schedule.id, "retried") in found
