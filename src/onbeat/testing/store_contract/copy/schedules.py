"""Copies of schedules, and of later edits to them."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.model.page import JobFilter
from onbeat.model.plan import Skip
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import CatchUp, Overlap, ScheduleStatus
from onbeat.ports.store import Disposition, DispositionExport, Hint, Store
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
from onbeat.testing.store_contract.copy.jobs import (
    CopyDirection,
    all_dispositions,
    all_schedules,
    both_ways,
    copy,
    everything,
    source_and_target,
)
from onbeat.testing.store_contract.hints import expect_hint
from onbeat.testing.store_contract.steps import (
    IN_A_MINUTE,
    PASSING_FAILURE,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    stored_job,
)


class CopiedScheduleContract:
    @both_ways
    async def test_a_schedule_is_copied_as_it_is(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule(
            name="every morning",
            key="key: \u2603",
            recurrence=RecurrenceSpec(kind="rrule", text="FREQ=DAILY", tz="Europe/Berlin"),
            planned_through=NOW + TICK,
            plan_at=NOW + HOUR + TICK,
            starts_at=NOW - DAY,
            ends_at=NOW + 900 * DAY,
            catch_up=CatchUp.ALL,
            grace=timedelta(seconds=1.5),
            overlap=Overlap.REPLACE,
            jitter=SECOND,
            queue="queue",
            priority=-3,
            retry=IN_A_MINUTE,
            timeout=MINUTE,
            expires_after=HOUR,
            labels={"a": "b"},
            version=7,
            zone_data="2026a",
        )
        await source.import_schedules([schedule])
        await copy(source, target)
        assert await target.schedule(schedule.id) == schedule
        assert await target.schedule_by_key("key: \u2603") == schedule

    @both_ways
    async def test_a_schedule_goes_on_where_it_was(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule()
        done = an_occurrence(schedule)
        await add_planned(source, schedule, done)
        await copy(source, target)
        (due,) = await target.due_schedules(NOW, 10)
        assert due.planned_through == NOW
        again, new = an_occurrence(schedule), an_occurrence(schedule, NOW + HOUR)
        assert list(await target.apply_plans([a_plan(due, again, new)])) == [True]
        page = await target.jobs(JobFilter(schedule_id=schedule.id))
        assert sorted(ids_of(page.items)) == sorted([done.id, new.id])

    @both_ways
    async def test_the_next_plan_is_known(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        await add_planned(source, a_schedule(plan_at=NOW + HOUR))
        await copy(source, target)
        assert await target.next_plan_at() == NOW + HOUR

    @both_ways
    async def test_a_finished_schedule_stays_finished(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule()
        await add_planned(source, schedule, finished=True)
        await copy(source, target)
        stored = await target.schedule(schedule.id)
        assert stored is not None
        assert stored.status is ScheduleStatus.FINISHED
        assert list(await target.due_schedules(NOW + DAY, 10)) == []

    @both_ways
    async def test_the_jobs_of_a_paused_schedule_wait_for_its_resume(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule(status=ScheduleStatus.PAUSED)
        job = an_occurrence(schedule)
        await add_planned(source, schedule, job)
        await copy(source, target)
        assert await claim_jobs(target) == ()
        active = replace(schedule, status=ScheduleStatus.ACTIVE, version=2)
        assert await target.update_schedule(active, None, NOW)
        assert ids_of(await claim_jobs(target)) == [job.id]

    @both_ways
    async def test_a_pause_since_the_last_copy_holds_the_jobs(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule()
        await add_planned(source, schedule, an_occurrence(schedule))
        await copy(source, target)
        paused = replace(schedule, status=ScheduleStatus.PAUSED, version=2)
        await source.update_schedule(paused, None, NOW)
        await copy(source, target)
        assert await everything(target) == await everything(source)
        assert await claim_jobs(target) == ()

    async def test_the_newer_version_wins(self, store: Store) -> None:
        schedule = a_schedule(version=2, key="old", planned_through=NOW)
        await store.import_schedules([schedule])
        older = replace(schedule, version=1, planned_through=NOW + HOUR)
        assert await store.import_schedules([older]) == 0
        assert await store.schedule(schedule.id) == schedule
        newer = replace(schedule, version=3, name="new", key="new", planned_through=NOW - HOUR)
        assert await store.import_schedules([newer]) == 1
        assert await store.schedule(schedule.id) == newer
        assert await store.schedule_by_key("old") is None

    async def test_within_a_version_the_later_watermark_wins(self, store: Store) -> None:
        schedule = a_schedule()
        await store.import_schedules([schedule])
        behind = replace(schedule, planned_through=NOW - HOUR, plan_at=NOW - HOUR)
        assert await store.import_schedules([behind, schedule]) == 0
        assert await store.schedule(schedule.id) == schedule
        ahead = replace(schedule, planned_through=NOW + TICK, plan_at=NOW + HOUR)
        assert await store.import_schedules([ahead]) == 1
        assert await store.schedule(schedule.id) == ahead

    @both_ways
    async def test_a_schedule_that_has_finished_meanwhile_is_finished(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule()
        await add_planned(source, schedule)
        await copy(source, target)
        await source.apply_plans([a_plan(schedule, finished=True)])
        assert await copy(source, target) == 1
        assert await everything(target) == await everything(source)
        assert await copy(source, target) == 0

    async def test_a_key_that_another_schedule_has_is_refused(self, store: Store) -> None:
        holder = a_schedule(key="key")
        await add_planned(store, holder)
        with pytest.raises(Conflict):
            await store.import_schedules([a_schedule(), a_schedule(key="key")])
        assert await all_schedules(store) == [holder]

    async def test_restored_schedules_are_told(self, store: Store) -> None:
        async with expect_hint(store, Hint.SCHEDULES):
            await store.import_schedules([a_schedule()])

    @both_ways
    async def test_what_became_of_occurrences_is_copied(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        schedules = [a_schedule(), a_schedule()]
        for schedule in schedules:
            jobs = [an_occurrence(schedule, NOW + number * HOUR) for number in range(1, 5)]
            skips = (
                Skip(NOW - DAY, NOW - HOUR, "misfire"),
                Skip(NOW, NOW, "paused: \u2603"),
            )
            await add_planned(source, schedule, *jobs, skips=skips)
        await copy(source, target)
        for schedule in schedules:
            span = (schedule.id, NOW - 9 * DAY, NOW + 9 * DAY)
            answer = await target.dispositions(*span)
            assert list(answer) == list(await source.dispositions(*span))
            assert len(answer) == 6

    @both_ways
    async def test_what_became_of_occurrences_outlives_their_schedule(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule()
        await add_planned(source, schedule, an_occurrence(schedule))
        await source.delete_schedule(schedule.id, NOW)
        before = await all_dispositions(source)
        await copy(source, target)
        assert len(before) == 1
        assert await all_dispositions(target) == before
        assert await target.schedule(schedule.id) is None

    async def test_an_instant_keeps_the_disposition_that_it_has(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule)
        await add_planned(store, schedule, job, skips=(Skip(NOW - DAY, NOW - HOUR, "misfire"),))
        before = await all_dispositions(store)
        rows = [
            Disposition(first=NOW, last=NOW, job_id=None, reason="another"),
            Disposition(first=NOW - DAY, last=NOW - DAY, job_id=JobId("another"), reason=None),
            Disposition(first=NOW - HOUR, last=NOW - HOUR, job_id=None, reason="in the run"),
        ]
        assert (
            await store.import_dispositions([DispositionExport(schedule.id, row) for row in rows])
            == 0
        )
        assert await all_dispositions(store) == before
        new = Disposition(first=NOW + HOUR, last=NOW + HOUR, job_id=None, reason="new")
        traced = [DispositionExport(schedule.id, row) for row in (rows[0], new)]
        assert await store.import_dispositions(traced) == 1
        assert await all_dispositions(store) == [*before, DispositionExport(schedule.id, new)]


class CopiedEditContract:
    """Copies of a schedule that was edited since the last copy."""

    @both_ways
    async def test_jobs_follow_an_edit(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule(retry=IN_A_MINUTE)
        tried, coming = an_occurrence(schedule), an_occurrence(schedule, NOW + HOUR)
        by_hand = a_job(schedule_id=schedule.id, due_at=NOW + HOUR)
        await add_planned(source, schedule, tried, coming)
        await end(source, (await claim_jobs(source))[0], PASSING_FAILURE)
        await source.enqueue([by_hand])
        await copy(source, target)
        edited = replace(schedule, version=2, queue="other", priority=3, labels={"a": "b"})
        assert await source.update_schedule(edited, None, NOW)
        await copy(source, target)
        assert await everything(target) == await everything(source)
        for job in (tried, coming, by_hand):
            assert (await stored_job(target, job)).queue == "other"
        assert await copy(source, target) == 0

    @both_ways
    async def test_what_was_planned_by_an_older_rule_does_not_run(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule()
        kept, void = an_occurrence(schedule), an_occurrence(schedule, NOW + HOUR)
        await add_planned(
            source, schedule, kept, void, skips=(Skip(NOW - DAY, NOW - HOUR, "misfire"),)
        )
        await copy(source, target)
        ruled = replace(schedule, version=2, planned_through=NOW + MINUTE)
        new = an_occurrence(ruled, NOW + MINUTE)
        plan = a_plan(ruled, new, planned_through=NOW + MINUTE)
        assert await source.update_schedule(ruled, plan, NOW)
        await copy(source, target)
        assert await everything(target) == await everything(source)
        assert await target.job(void.id) is None
        assert ids_of(await claim_jobs(target, now=NOW + DAY)) == [kept.id, new.id]
        assert await copy(source, target) == 0

    @both_ways
    async def test_what_is_planned_goes_on_from_the_newer_watermark(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule()
        await add_planned(source, schedule, an_occurrence(schedule, NOW + HOUR))
        await copy(source, target)
        paused = replace(schedule, version=2, status=ScheduleStatus.PAUSED)
        await source.update_schedule(paused, a_plan(paused, planned_through=NOW), NOW)
        await copy(source, target)
        resumed = replace(schedule, version=3, planned_through=NOW)
        again = an_occurrence(resumed, NOW + HOUR)
        assert await target.update_schedule(resumed, a_plan(resumed, again), NOW)
        assert ids_of(await claim_jobs(target, now=NOW + HOUR)) == [again.id]

    @both_ways
    async def test_what_was_planned_here_alone_goes_with_the_older_form(
        self, store: Store, way: CopyDirection
    ) -> None:
        """Otherwise it would run beside the job that the source planned for the same occurrence."""
        source, target = source_and_target(store, way)
        schedule = a_schedule()
        await add_planned(source, schedule)
        await copy(source, target)
        own = an_occurrence(schedule, NOW + HOUR)
        await target.apply_plans([a_plan(schedule, own)])
        edited = replace(schedule, version=2)
        planned_there = an_occurrence(edited, NOW + HOUR)
        assert await source.update_schedule(edited, a_plan(edited, planned_there), NOW)
        await copy(source, target)
        assert await everything(target) == await everything(source)
        assert await target.job(own.id) is None

    @both_ways
    async def test_an_occurrence_that_ran_here_stays_with_its_job(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule()
        first, second = an_occurrence(schedule), an_occurrence(schedule, NOW + HOUR)
        await add_planned(source, schedule, first, second)
        await copy(source, target)
        done = await end(target, (await claim_jobs(target))[0])
        before = [all_disposition.disposition for all_disposition in await all_dispositions(target)]
        edited = replace(schedule, version=2, priority=3)
        assert await source.update_schedule(edited, None, NOW)
        await copy(source, target)
        assert await stored_job(target, done) == done
        assert [
            all_disposition.disposition for all_disposition in await all_dispositions(target)
        ] == before
        assert ids_of(await claim_jobs(target, now=NOW + HOUR)) == [second.id]

    @both_ways
    async def test_what_waits_for_a_planned_job_still_does(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule()
        first = an_occurrence(schedule)
        second = a_job(after=(first.id,))
        await add_planned(source, schedule, first)
        await source.enqueue([second])
        await copy(source, target)
        edited = replace(schedule, version=2, priority=3)
        assert await source.update_schedule(edited, None, NOW)
        schedules, dispositions, _ = await everything(source)
        await target.import_schedules(schedules)
        await target.import_dispositions(dispositions)
        (runs,) = await claim_jobs(target)
        assert (runs.id, runs.priority) == (first.id, 3)
        await end(target, runs)
        assert ids_of(await claim_jobs(target)) == [second.id]

    async def test_an_edit_that_was_made_here_later_stays(self, store: Store) -> None:
        schedule = a_schedule(version=2, updated_at=NOW)
        job = an_occurrence(schedule, NOW + HOUR)
        await add_planned(store, schedule, job)
        before = await everything(store)
        earlier = replace(schedule, version=3, updated_at=NOW - HOUR, name="another")
        assert await store.import_schedules([earlier]) == 0
        assert await everything(store) == before

    async def test_another_edit_of_the_same_version_stays(self, store: Store) -> None:
        schedule = a_schedule(version=2, updated_at=NOW)
        await store.import_schedules([schedule])
        other = replace(schedule, updated_at=NOW + SECOND, planned_through=NOW + HOUR, name="other")
        assert await store.import_schedules([other]) == 0
        assert await store.schedule(schedule.id) == schedule
