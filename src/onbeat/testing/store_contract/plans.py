"""Plans: applied once, atomically, and only to the version of the schedule that was read."""

from msgspec.structs import replace

from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Released
from onbeat.model.plan import Dropped, Skip
from onbeat.model.schedule import ScheduleStatus
from onbeat.model.worker import carrier_id
from onbeat.ports.store import Disposition, Store
from onbeat.testing.build import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    TICK,
    a_job,
    a_plan,
    a_schedule,
    an_occurrence,
)
from onbeat.testing.store_contract.steps import (
    PASSING_FAILURE,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    limit,
    run_and_end,
    run_job,
    slow_jobs,
    stored_job,
)

CARRIER = carrier_id("1")


async def claim_and_hand_back(store: Store, job: Job) -> Job:
    """The job after a carrier has claimed it and released it unstarted."""
    return await end(store, await run_job(store, job, worker=CARRIER), Released())


class PlanContract:
    async def test_a_plan_adds_its_jobs(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        job = an_occurrence(schedule, NOW + HOUR)
        await store.apply_plans([a_plan(schedule, job)])
        assert await store.job(job.id) == job

    async def test_each_planned_job_is_what_became_of_its_occurrence(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        job = an_occurrence(schedule, NOW + HOUR)
        await store.apply_plans([a_plan(schedule, job)])
        at = NOW + HOUR
        assert list(await store.dispositions(schedule.id, NOW, NOW + DAY)) == [
            Disposition(first=at, last=at, job_id=job.id, reason=None)
        ]

    async def test_skips_are_kept_with_their_reason(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        skip = Skip(NOW + HOUR, NOW + 3 * HOUR, "misfire: it slept")
        await store.apply_plans([a_plan(schedule, skips=(skip,))])
        assert list(await store.dispositions(schedule.id, NOW, NOW + DAY)) == [
            Disposition(first=skip.first, last=skip.last, job_id=None, reason=skip.reason)
        ]

    async def test_a_plan_says_how_far_it_goes_and_when_to_look_again(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        plan = a_plan(schedule, planned_through=NOW + HOUR, plan_at=NOW + MINUTE)
        await store.apply_plans([plan])
        stored = await store.schedule(schedule.id)
        assert stored == replace(schedule, planned_through=NOW + HOUR, plan_at=NOW + MINUTE)

    async def test_planning_twice_is_planning_once(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        first = an_occurrence(schedule, NOW + HOUR)
        again = an_occurrence(schedule, NOW + HOUR)
        await store.apply_plans([a_plan(schedule, first), a_plan(schedule, again)])
        assert await store.job(again.id) is None
        (row,) = await store.dispositions(schedule.id, NOW, NOW + DAY)
        assert row.job_id == first.id

    async def test_a_plan_repeated_is_true_again(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        plan = a_plan(schedule, an_occurrence(schedule, NOW + HOUR))
        await store.apply_plans([plan])
        assert list(await store.apply_plans([plan])) == [True]

    async def test_a_plan_repeated_leaves_a_job_as_it_went_on(self, store: Store) -> None:
        schedule = a_schedule()
        plan = await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        await store.apply_plans([plan])
        assert await stored_job(store, job) == job

    async def test_of_a_plan_only_what_is_new_is_added(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule, NOW + HOUR))
        again = an_occurrence(schedule, NOW + HOUR)
        new = an_occurrence(schedule, NOW + 2 * HOUR)
        await store.apply_plans([a_plan(schedule, again, new)])
        assert await store.job(again.id) is None
        assert await store.job(new.id) == new

    async def test_an_occurrence_that_was_skipped_gets_no_job(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, skips=(Skip(NOW + HOUR, NOW + 3 * HOUR, "misfire"),))
        late = [an_occurrence(schedule, NOW + number * HOUR) for number in (1, 2, 3)]
        await store.apply_plans([a_plan(schedule, *late)])
        assert [await store.job(job.id) for job in late] == [None, None, None]

    async def test_a_skip_leaves_out_an_instant_that_has_a_job(self, store: Store) -> None:
        """As where the clock was set back after the job had begun, and its schedule is paused."""
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW + 2 * HOUR)
        await add_planned(store, schedule, job)
        await store.apply_plans(
            [a_plan(schedule, skips=(Skip(NOW + HOUR, NOW + 3 * HOUR, "paused"),))]
        )
        found = await store.dispositions(schedule.id, NOW, NOW + DAY)
        assert [(one.first, one.last, one.job_id) for one in found] == [
            (NOW + HOUR, NOW + 2 * HOUR - TICK, None),
            (NOW + 2 * HOUR, NOW + 2 * HOUR, job.id),
            (NOW + 2 * HOUR + TICK, NOW + 3 * HOUR, None),
        ]

    async def test_another_schedule_has_its_own_occurrences(self, store: Store) -> None:
        schedule, other = a_schedule(), a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule, NOW + HOUR))
        job = an_occurrence(other, NOW + HOUR)
        await add_planned(store, other, job)
        assert await store.job(job.id) == job

    async def test_a_plan_from_an_older_reading_is_refused(self, store: Store) -> None:
        schedule = a_schedule(version=2)
        await add_planned(store, schedule)
        job = an_occurrence(schedule, NOW + HOUR)
        assert list(await store.apply_plans([a_plan(schedule, job, version=1)])) == [False]
        assert await store.job(job.id) is None
        assert await store.schedule(schedule.id) == schedule

    async def test_a_plan_from_behind_the_watermark_is_refused(self, store: Store) -> None:
        """Another planner was faster, and what it has planned is decided."""
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule, NOW + HOUR))
        late = an_occurrence(schedule, NOW + 2 * HOUR)
        behind = a_plan(schedule, late, planned_from=schedule.planned_through, plan_at=NOW)
        before = await store.schedule(schedule.id)
        assert list(await store.apply_plans([behind])) == [False]
        assert await store.job(late.id) is None
        assert await store.schedule(schedule.id) == before

    async def test_of_two_plans_from_one_watermark_the_first_is_stored(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        jobs = [an_occurrence(schedule, NOW + number * HOUR) for number in (1, 2)]
        plans = [a_plan(schedule, job, planned_from=schedule.planned_through) for job in jobs]
        assert list(await store.apply_plans(plans)) == [True, False]
        assert [await store.job(job.id) for job in jobs] == [jobs[0], None]

    async def test_a_plan_from_the_watermark_is_stored(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule, NOW + HOUR))
        job = an_occurrence(schedule, NOW + 2 * HOUR)
        plan = a_plan(schedule, job, planned_from=NOW + HOUR)
        assert list(await store.apply_plans([plan])) == [True]
        assert await store.job(job.id) == job

    async def test_a_plan_for_a_schedule_that_is_gone_is_refused(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW + HOUR)
        assert list(await store.apply_plans([a_plan(schedule, job)])) == [False]
        assert await store.job(job.id) is None

    async def test_each_plan_stands_by_itself(self, store: Store) -> None:
        gone, schedule = a_schedule(), a_schedule()
        await add_planned(store, schedule)
        job = an_occurrence(schedule, NOW + HOUR)
        plans = [a_plan(gone), a_plan(schedule, job)]
        assert list(await store.apply_plans(plans)) == [False, True]
        assert await store.job(job.id) == job

    async def test_a_planned_job_of_a_paused_schedule_waits_for_its_resume(
        self, store: Store
    ) -> None:
        schedule = a_schedule(status=ScheduleStatus.PAUSED)
        job = an_occurrence(schedule)
        await add_planned(store, schedule, job)
        assert await claim_jobs(store) == ()
        await store.update_schedule(
            replace(schedule, status=ScheduleStatus.ACTIVE, version=2), None, NOW
        )
        assert ids_of(await claim_jobs(store)) == [job.id]

    async def test_a_watermark_never_falls(self, store: Store) -> None:
        schedule = a_schedule(planned_through=NOW + DAY)
        await add_planned(store, schedule)
        await store.apply_plans([a_plan(schedule, planned_through=NOW)])
        stored = await store.schedule(schedule.id)
        assert stored is not None
        assert stored.planned_through == NOW + DAY

    async def test_a_plan_is_no_edit(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        await store.apply_plans([a_plan(schedule, an_occurrence(schedule, NOW + HOUR))])
        stored = await store.schedule(schedule.id)
        assert stored is not None
        assert stored.version == schedule.version

    async def test_a_plan_that_finds_nothing_left_finishes_the_schedule(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        await store.apply_plans([a_plan(schedule, plan_at=None, finished=True)])
        stored = await store.schedule(schedule.id)
        assert stored is not None
        assert (stored.status, stored.plan_at) == (ScheduleStatus.FINISHED, None)

    async def test_a_dropped_job_is_cancelled_with_the_reason(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, start_by=NOW + MINUTE)
        await add_planned(store, schedule, job)
        await store.apply_plans([a_plan(schedule, dropped=(Dropped(job.id, "misfire"),))])
        gone = await stored_job(store, job)
        assert (gone.state, gone.reason) == (JobState.CANCELLED, "misfire")

    async def test_history_tells_when_late_jobs_were_decided_on(self, store: Store) -> None:
        schedule = a_schedule()
        dropped = an_occurrence(schedule, start_by=NOW + MINUTE)
        excused = an_occurrence(schedule, NOW + MINUTE, start_by=NOW + 2 * MINUTE)
        await add_planned(store, schedule, dropped, excused)
        plan = a_plan(
            schedule,
            dropped=(Dropped(dropped.id, "misfire"),),
            allowed_late=(excused.id,),
            decided_at=NOW + HOUR,
        )
        await store.apply_plans([plan])
        assert (await stored_job(store, dropped)).finished_at == NOW + HOUR
        for job, to in ((dropped, "cancelled"), (excused, "excused")):
            last = (await store.transitions(job.id))[-1]
            assert (last.to, last.at) == (to, NOW + HOUR)

    async def test_the_occurrence_of_a_dropped_job_is_a_skip(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, start_by=NOW + MINUTE)
        await add_planned(store, schedule, job)
        await store.apply_plans([a_plan(schedule, dropped=(Dropped(job.id, "misfire"),))])
        assert list(await store.dispositions(schedule.id, NOW, NOW)) == [
            Disposition(first=NOW, last=NOW, job_id=None, reason="misfire")
        ]

    async def test_a_job_that_has_started_is_not_dropped(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        await store.apply_plans([a_plan(schedule, dropped=(Dropped(job.id, "misfire"),))])
        assert await stored_job(store, job) == job
        (row,) = await store.dispositions(schedule.id, NOW, NOW)
        assert row.job_id == job.id

    async def test_a_job_that_was_tried_is_not_dropped(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        tried = await end(store, job, PASSING_FAILURE)
        await store.apply_plans([a_plan(schedule, dropped=(Dropped(job.id, "misfire"),))])
        assert await stored_job(store, job) == tried

    async def test_an_excused_job_may_start_although_it_is_late(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, start_by=NOW + MINUTE)
        await add_planned(store, schedule, job)
        assert await claim_jobs(store, now=NOW + HOUR) == ()
        await store.apply_plans([a_plan(schedule, allowed_late=(job.id,))])
        assert ids_of(await claim_jobs(store, now=NOW + HOUR)) == [job.id]

    async def test_an_excuse_is_told_in_the_jobs_history(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, start_by=NOW + MINUTE)
        await add_planned(store, schedule, job)
        await store.apply_plans([a_plan(schedule, allowed_late=(job.id,))])
        (transition,) = await store.transitions(job.id)
        assert transition.to == "excused"

    async def test_schedules_are_due_the_earliest_first(self, store: Store) -> None:
        second, first = a_schedule(plan_at=NOW), a_schedule(plan_at=NOW - HOUR)
        await add_planned(store, second)
        await add_planned(store, first)
        assert list(await store.due_schedules(NOW, 10)) == [first, second]

    async def test_at_most_the_limit_of_schedules_is_told_as_due(self, store: Store) -> None:
        second, first = a_schedule(plan_at=NOW), a_schedule(plan_at=NOW - HOUR)
        await add_planned(store, second)
        await add_planned(store, first)
        assert list(await store.due_schedules(NOW, 1)) == [first]

    async def test_only_active_schedules_are_due(self, store: Store) -> None:
        await add_planned(store, a_schedule(status=ScheduleStatus.PAUSED))
        await add_planned(store, a_schedule(status=ScheduleStatus.FINISHED))
        assert list(await store.due_schedules(NOW, 10)) == []

    async def test_a_schedule_is_not_due_before_its_time(self, store: Store) -> None:
        await add_planned(store, a_schedule(plan_at=NOW + TICK))
        await add_planned(store, a_schedule(plan_at=None))
        assert list(await store.due_schedules(NOW, 10)) == []

    async def test_the_next_plan_is_that_of_the_earliest_active_schedule(
        self, store: Store
    ) -> None:
        await add_planned(store, a_schedule(plan_at=NOW + DAY))
        await add_planned(store, a_schedule(plan_at=NOW + HOUR))
        await add_planned(store, a_schedule(plan_at=None))
        await add_planned(store, a_schedule(plan_at=NOW, status=ScheduleStatus.PAUSED))
        assert await store.next_plan_at() == NOW + HOUR

    async def test_without_schedules_there_is_no_next_plan(self, store: Store) -> None:
        assert await store.next_plan_at() is None

    async def test_schedules_are_found_by_id_where_they_exist(self, store: Store) -> None:
        schedule, gone = a_schedule(), a_schedule()
        await add_planned(store, schedule)
        assert list(await store.schedules_by_id({schedule.id, gone.id})) == [schedule]


class OverdueContract:
    async def test_jobs_that_could_not_start_in_time_are_told_earliest_first(
        self, store: Store
    ) -> None:
        second = a_job(start_by=NOW - SECOND)
        first = a_job(start_by=NOW - MINUTE)
        await store.enqueue([second, first])
        assert ids_of(await store.overdue_jobs(NOW, 10)) == [first.id, second.id]

    async def test_a_claim_does_not_hide_what_has_lapsed(self, store: Store) -> None:
        job = a_job(start_by=NOW - SECOND)
        await store.enqueue([job])
        await claim_jobs(store)
        assert list(await store.overdue_jobs(NOW, 10)) == [job]

    async def test_at_most_the_limit_is_told_as_lapsed(self, store: Store) -> None:
        await store.enqueue([a_job(start_by=NOW - SECOND) for _ in range(5)])
        assert len(await store.overdue_jobs(NOW, 3)) == 3

    async def test_a_job_at_its_bound_has_not_lapsed(self, store: Store) -> None:
        await store.enqueue([a_job(start_by=NOW), a_job()])
        assert list(await store.overdue_jobs(NOW, 10)) == []

    async def test_a_job_that_started_in_time_has_not_lapsed(self, store: Store) -> None:
        await store.enqueue([a_job(start_by=NOW)])
        await claim_jobs(store)
        assert list(await store.overdue_jobs(NOW + HOUR, 10)) == []

    async def test_a_cancelled_job_has_not_lapsed(self, store: Store) -> None:
        job = a_job(start_by=NOW)
        await store.enqueue([job])
        await store.cancel([job.id], "by hand", NOW)
        assert list(await store.overdue_jobs(NOW + HOUR, 10)) == []

    async def test_lapsed_jobs_are_cancelled_with_the_reason(self, store: Store) -> None:
        job = a_job(start_by=NOW)
        await store.enqueue([job])
        assert await store.cancel_overdue([job.id], "expired", NOW + HOUR) == 1
        gone = await stored_job(store, job)
        assert (gone.state, gone.reason) == (JobState.CANCELLED, "expired")
        assert gone.finished_at == NOW + HOUR

    async def test_a_job_that_started_meanwhile_is_not_cancelled_as_lapsed(
        self, store: Store
    ) -> None:
        await store.enqueue([a_job(start_by=NOW)])
        (job,) = await claim_jobs(store)
        assert await store.cancel_overdue([job.id], "expired", NOW + HOUR) == 0
        assert await stored_job(store, job) == job

    async def test_a_job_that_came_back_unstarted_still_has_to_start_in_time(
        self, store: Store
    ) -> None:
        job = await claim_and_hand_back(store, a_job(start_by=NOW + MINUTE))
        assert job.start_by == NOW + MINUTE
        later = NOW + MINUTE + TICK
        assert await claim_jobs(store, now=later) == ()
        assert list(await store.overdue_jobs(later, 10)) == [job]
        assert await claim_jobs(store, now=later) == ()
        assert await store.cancel_overdue([job.id], "expired", later) == 1
        assert (await stored_job(store, job)).state is JobState.CANCELLED

    async def test_a_job_that_came_back_unstarted_is_given_out_in_time(self, store: Store) -> None:
        job = await claim_and_hand_back(store, a_job(start_by=NOW + MINUTE))
        assert await claim_jobs(store, now=NOW + HOUR) == ()
        assert ids_of(await claim_jobs(store, now=NOW + MINUTE)) == [job.id]

    async def test_a_limited_job_that_came_back_unstarted_is_not_given_out_late(
        self, store: Store
    ) -> None:
        await limit(store, concurrency=1)
        (late,) = slow_jobs(1, start_by=NOW + MINUTE)
        await claim_and_hand_back(store, late)
        (other,) = slow_jobs(1)
        await store.enqueue([other])
        assert ids_of(await claim_jobs(store, now=NOW + HOUR)) == [other.id]

    async def test_an_occurrence_that_came_back_unstarted_is_judged_as_one_that_never_ran(
        self, store: Store
    ) -> None:
        schedule = a_schedule()
        jobs = [an_occurrence(schedule, NOW - TICK * n, start_by=NOW) for n in range(2)]
        await add_planned(store, schedule, *jobs)
        for job in await claim_jobs(store, worker=CARRIER):
            await end(store, job, Released())
        judged = a_plan(
            schedule, dropped=(Dropped(jobs[0].id, "misfire"),), allowed_late=(jobs[1].id,)
        )
        await store.apply_plans([judged])
        assert (await stored_job(store, jobs[0])).state is JobState.CANCELLED
        assert ids_of(await claim_jobs(store, now=NOW + HOUR)) == [jobs[1].id]

    async def test_an_occurrence_that_came_back_unstarted_goes_with_its_rule(
        self, store: Store
    ) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW, start_by=NOW + HOUR)
        await add_planned(store, schedule, job)
        await end(store, (await claim_jobs(store, worker=CARRIER))[0], Released())
        ruled = replace(schedule, version=2)
        again = an_occurrence(schedule, NOW)
        plan = a_plan(ruled, again)
        assert await store.update_schedule(ruled, plan, NOW - HOUR)
        assert (await stored_job(store, job)).state is JobState.CANCELLED
        assert ids_of(await claim_jobs(store)) == [again.id]

    async def test_a_job_that_began_is_bounded_no_more(self, store: Store) -> None:
        job = await run_job(store, a_job(start_by=NOW + MINUTE))
        waits = await end(store, job, Released())
        assert waits.start_by is None
        assert list(await store.overdue_jobs(NOW + HOUR, 10)) == []
        assert ids_of(await claim_jobs(store, now=NOW + HOUR)) == [job.id]

    async def test_a_job_that_was_tried_is_not_cancelled_as_lapsed(self, store: Store) -> None:
        job = await run_and_end(store, a_job(), PASSING_FAILURE)
        assert await store.cancel_overdue([job.id], "expired", NOW + HOUR) == 0
        assert await stored_job(store, job) == job
