from datetime import datetime, timedelta
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from engine.harness import EngineHarness
from onbeat.engine.planner import TOO_COSTLY_PAUSE, UNREADABLE_PAUSE
from onbeat.model.job import Job, JobState
from onbeat.model.page import JobFilter
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import CatchUp, Schedule, ScheduleStatus
from onbeat.recurrence import Budget, rrule
from onbeat.rules.expiry import EXPIRED
from onbeat.rules.plans import MISFIRED
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, a_job, a_plan, a_schedule

UNREADABLE = RecurrenceSpec("function", "elsewhere")


async def added(bench: EngineHarness, **fields: Any) -> Schedule:
    schedule = a_schedule(**fields)
    await bench.store.add_schedule(schedule, a_plan(schedule))
    return schedule


async def jobs_of(bench: EngineHarness, schedule: Schedule, **filters: Any) -> list[Job]:
    page = await bench.store.jobs(JobFilter(schedule_id=schedule.id, limit=100, **filters))
    return sorted(page.items, key=lambda job: job.due_at)


async def test_a_due_schedule_gets_its_jobs_and_its_next_look() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        schedule = await added(bench)
        assert await bench.planner.plan_due() == 1
        (job,) = await jobs_of(bench, schedule)
        assert job.occurrence == NOW + HOUR
        stored = await bench.store.schedule(schedule.id)
        assert stored.plan_at == NOW + 50 * MINUTE
        assert await bench.planner.plan_due() == 0
        assert bench.told.of("planned")[0] == (1, 0)


async def test_two_planners_give_an_occurrence_one_job() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        schedule = await added(bench)
        read = await bench.store.due_schedules(NOW, 10)
        plans = [
            bench.planner.plan_or_postpone(schedule, NOW, Budget(100))
            for schedule in (*read, *read)
        ]
        assert list(await bench.store.apply_plans(plans)) == [True, False]
        assert len(await jobs_of(bench, schedule)) == 1
        assert len(await bench.store.dispositions(schedule.id, NOW, NOW + 24 * HOUR)) == 1


async def test_a_plan_of_a_schedule_that_was_edited_meanwhile_is_refused_and_not_counted() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        schedule = await added(bench)
        original = bench.store.inner.due_schedules

        async def read_then_edited(now: datetime, limit: int) -> tuple[Schedule]:
            result = await original(now, limit)
            edited = replace(schedule, version=2, queue="other")
            await bench.store.inner.update_schedule(edited, None, now)
            return result

        bench.store.inner.due_schedules = read_then_edited
        await bench.planner.plan_due()
        assert await jobs_of(bench, schedule) == []
        assert bench.told.of("planned") == [(0, 0)]


async def test_a_rule_that_cannot_be_read_here_is_put_off_and_in_nobodys_way() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        odd = await added(bench, recurrence=UNREADABLE)
        plain = await added(bench)
        assert await bench.planner.plan_due() == 2
        assert len(await jobs_of(bench, plain)) == 1
        stored = await bench.store.schedule(odd.id)
        assert stored.plan_at == NOW + UNREADABLE_PAUSE
        assert stored.planned_through == odd.planned_through
        assert stored.status is ScheduleStatus.ACTIVE
        ((answer, _),) = bench.told.of("unplannable")
        assert answer.id == odd.id


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_a_rule_that_raises_no_ordinary_error_is_put_off_too(error: type[Any]) -> None:
    def raises(_spec: object, _budget: object = None, /) -> NoReturn:
        raise error("odd")

    async with EngineHarness(work=lambda: None) as bench:
        await added(bench)
        bench.planner.compile = raises
        assert await bench.planner.plan_due() == 1
        assert len(bench.told.of("unplannable")) == 1


async def test_a_rule_that_raises_loses_no_occurrence() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        schedule = await added(bench, recurrence=UNREADABLE, catch_up=CatchUp.ALL)
        await bench.planner.plan_due()
        bench.clock.set(NOW + 2 * MINUTE)

        class EveryMinute:
            def after(self, instant: datetime) -> datetime:
                return NOW + ((instant - NOW) // MINUTE + 1) * MINUTE

            def before(self, instant: Any) -> Any:
                return NOW + -(-(instant - NOW) // MINUTE - 1) * MINUTE

        every_minute: Any = EveryMinute()
        bench.planner.compile = lambda *_: every_minute
        await bench.planner.plan_due()
        result = [job.occurrence for job in await jobs_of(bench, schedule)]
        assert result[:3] == [NOW + n * MINUTE for n in (1, 2, 3)]


async def make_overdue(bench: EngineHarness, schedule: Schedule, seconds: int) -> int:
    """The schedule's jobs, found so long after they could have started."""
    await bench.planner.plan_due()
    bench.clock.set(NOW + HOUR + timedelta(seconds=seconds))
    return await bench.planner.judge_overdue()


async def test_a_lapsed_job_of_latest_runs_when_there_is_none_newer() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        schedule = await added(bench)
        assert await make_overdue(bench, schedule, 1800) == 1
        assert await bench.begin_due() == 1
        assert await bench.planner.judge_overdue() == 0


async def test_a_lapsed_job_of_none_becomes_a_skip_with_its_reason() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        schedule = await added(bench, catch_up=CatchUp.NONE)
        assert await make_overdue(bench, schedule, 1800) == 1
        (job,) = await jobs_of(bench, schedule)
        assert (job.state, job.reason) == (JobState.CANCELLED, MISFIRED)
        (row,) = await bench.store.dispositions(schedule.id, NOW, NOW + HOUR)
        assert (row.job_id, row.reason) == (None, MISFIRED)
        assert bench.told.of("planned")[-1] == (0, 1)


async def test_a_job_on_its_own_that_could_not_start_in_time_expires() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        job = a_job(start_by=NOW + SECOND, expires_at=NOW + SECOND)
        await bench.store.enqueue([job])
        bench.clock.set(NOW + 2 * SECOND)
        assert await bench.begin_due() == 0
        assert await bench.planner.judge_overdue() == 1
        ended = await bench.job(job)
        assert (ended.state, ended.reason) == (JobState.CANCELLED, EXPIRED)


async def test_lapsed_jobs_of_a_rule_that_cannot_be_read_here_run_late() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        schedule = await added(bench)
        await bench.planner.plan_due()
        bench.planner.compile = None
        bench.clock.set(NOW + 90 * MINUTE)
        assert await bench.planner.judge_overdue() == 1
        assert bench.told.of("unplannable")
        assert (await jobs_of(bench, schedule))[0].start_by is None


async def test_a_clock_that_steps_back_plans_nothing_again() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        schedule = await added(bench)
        bench.clock.set(NOW + 3 * HOUR)
        await bench.planner.plan_due()
        before = await jobs_of(bench, schedule)
        bench.clock.at = NOW
        await bench.store.update_schedule(
            replace(await bench.store.schedule(schedule.id), version=2), None, NOW
        )
        await bench.planner.plan_due()
        assert await jobs_of(bench, schedule) == before


async def test_a_rule_that_takes_too_many_steps_is_put_off_and_delays_no_other() -> None:
    hours, sixties = (",".join(map(str, range(1, end))) for end in (24, 60))
    costly = rrule(
        "DTSTART:20260101T000000Z\nRRULE:FREQ=SECONDLY\n"
        f"EXRULE:FREQ=SECONDLY;BYHOUR={hours}\nEXRULE:FREQ=SECONDLY;BYMINUTE={sixties}\n"
        f"EXRULE:FREQ=SECONDLY;BYSECOND={sixties}"
    )
    async with EngineHarness(work=lambda: None) as bench:
        slow = await added(bench, recurrence=costly.spec())
        quick = await added(bench)
        assert await bench.planner.plan_due() == 2
        assert len(await jobs_of(bench, quick)) == 1
        assert await jobs_of(bench, slow) == []
        assert (await bench.store.schedule(slow.id)).plan_at == NOW + TOO_COSTLY_PAUSE
        ((answer, error),) = bench.told.of("unplannable")
        assert answer.id == slow.id
        assert "too costly" in str(error)
