"""Schedules: add, update and delete, and the effects on their jobs."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from onbeat.model.condition import Condition
from onbeat.model.errors import Conflict, NotFound
from onbeat.model.ids import ScheduleId
from onbeat.model.job import Edge, JobState
from onbeat.model.outcome import Released
from onbeat.model.page import JobFilter
from onbeat.model.plan import Skip
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import CatchUp, Overlap, Schedule, ScheduleStatus
from onbeat.model.target import HandlerTarget
from onbeat.ports.store import Store
from onbeat.testing.build import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    TICK,
    a_job,
    a_plan,
    a_schedule,
    an_id,
    an_occurrence,
)
from onbeat.testing.store_contract.steps import (
    IN_A_MINUTE,
    PASSING_FAILURE,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    stored_job,
)


def a_full_schedule() -> Schedule:
    """A schedule with every field that a caller can set."""
    return a_schedule(
        name='every "hour"',
        key="key",
        recurrence=RecurrenceSpec(kind="rrule", text="FREQ=HOURLY", anchor="x", anchored=True),
        target=HandlerTarget("work", msgspec.Raw(b"[1]"), msgspec.Raw(b'{"a":null}')),
        plan_at=None,
        starts_at=NOW - TICK,
        ends_at=NOW + TICK,
        catch_up=CatchUp.ALL,
        grace=timedelta(seconds=0.25),
        overlap=Overlap.REPLACE,
        jitter=timedelta(seconds=9),
        queue="queue",
        priority=3,
        retry=RetryPolicy(attempts_max=1),
        timeout=MINUTE,
        expires_after=DAY,
        labels={"a": "b"},
    )


def edited_schedule(schedule: Schedule, **fields: object) -> Schedule:
    return msgspec.structs.replace(schedule, version=schedule.version + 1, **fields)


class ScheduleContract:
    async def test_a_schedule_is_kept_as_it_was_given(self, store: Store) -> None:
        schedule = a_full_schedule()
        await add_planned(store, schedule)
        assert await store.schedule(schedule.id) == schedule

    async def test_a_schedule_comes_with_its_first_plan(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW + HOUR)
        await add_planned(store, schedule, job, plan_at=NOW + MINUTE)
        assert await store.job(job.id) == job
        stored = await store.schedule(schedule.id)
        assert stored == replace(schedule, planned_through=NOW + HOUR, plan_at=NOW + MINUTE)

    async def test_a_schedule_is_found_by_its_key(self, store: Store) -> None:
        schedule = a_schedule(key="key")
        await add_planned(store, schedule)
        assert await store.schedule_by_key("key") == schedule

    async def test_an_unknown_schedule_is_none(self, store: Store) -> None:
        assert await store.schedule(ScheduleId(an_id())) is None
        assert await store.schedule_by_key("key") is None

    async def test_a_taken_key_is_refused(self, store: Store) -> None:
        await add_planned(store, a_schedule(key="key"))
        with pytest.raises(Conflict):
            await add_planned(store, a_schedule(key="key"))

    async def test_a_refused_schedule_leaves_nothing_behind(self, store: Store) -> None:
        await add_planned(store, a_schedule(key="key"))
        second = a_schedule(key="key")
        job = an_occurrence(second)
        with pytest.raises(Conflict):
            await add_planned(store, second, job)
        assert await store.schedule(second.id) is None
        assert await store.job(job.id) is None


class EditContract:
    async def test_an_edit_is_stored(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        new = edited_schedule(schedule, name="new name", key="new key", updated_at=NOW + HOUR)
        assert await store.update_schedule(new, None, NOW + HOUR)
        assert await store.schedule(schedule.id) == new

    async def test_an_edit_of_an_older_reading_changes_nothing(self, store: Store) -> None:
        schedule = a_schedule(version=3)
        await add_planned(store, schedule)
        stale = replace(schedule, version=3, name="new name")
        assert not await store.update_schedule(stale, None, NOW)
        assert await store.schedule(schedule.id) == schedule

    async def test_an_edit_that_skips_a_version_changes_nothing(self, store: Store) -> None:
        schedule = a_schedule(version=3)
        await add_planned(store, schedule)
        ahead = replace(schedule, version=5, name="new name")
        assert not await store.update_schedule(ahead, None, NOW)
        assert await store.schedule(schedule.id) == schedule

    async def test_an_edit_may_be_repeated(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        new = edited_schedule(schedule, name="new name")
        planned = a_plan(new, an_occurrence(new, NOW + HOUR))
        for _ in range(2):
            assert await store.update_schedule(new, planned, NOW)
        assert all(await store.apply_plans([replace(planned, finished=True)]))
        assert await store.update_schedule(new, planned, NOW), "it has finished since"

    async def test_an_edit_that_pauses_does_not_repeat_one_that_does_not(
        self, store: Store
    ) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        active = edited_schedule(schedule, name="new name")
        assert await store.update_schedule(active, None, NOW)
        paused = replace(active, status=ScheduleStatus.PAUSED)
        assert not await store.update_schedule(paused, None, NOW)
        assert await store.schedule(schedule.id) == active

    async def test_a_schedule_that_is_gone_cannot_be_edited(self, store: Store) -> None:
        assert not await store.update_schedule(edited_schedule(a_schedule()), None, NOW)

    async def test_an_edit_cannot_take_the_key_of_another(self, store: Store) -> None:
        schedule = a_schedule(key="mine")
        await add_planned(store, a_schedule(key="taken"))
        await add_planned(store, schedule)
        with pytest.raises(Conflict):
            await store.update_schedule(edited_schedule(schedule, key="taken"), None, NOW)
        assert await store.schedule(schedule.id) == schedule

    async def test_an_edit_may_keep_its_key(self, store: Store) -> None:
        schedule = a_schedule(key="key")
        await add_planned(store, schedule)
        new = edited_schedule(schedule, name="new name")
        assert await store.update_schedule(new, None, NOW)
        assert await store.schedule_by_key("key") == new

    async def test_a_key_given_up_is_free(self, store: Store) -> None:
        schedule = a_schedule(key="key")
        await add_planned(store, schedule)
        await store.update_schedule(edited_schedule(schedule, key=None), None, NOW)
        assert await store.schedule_by_key("key") is None

    async def test_waiting_jobs_follow_an_edit(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW + HOUR)
        await add_planned(store, schedule, job)
        target = HandlerTarget("other", msgspec.Raw(b"[1]"))
        fields = {
            "target": target,
            "queue": "other",
            "priority": -3,
            "retry": RetryPolicy(attempts_max=9),
            "timeout": MINUTE,
            "overlap": Overlap.WAIT,
            "labels": {"a": "b"},
        }
        await store.update_schedule(edited_schedule(schedule, **fields), None, NOW)
        assert await stored_job(store, job) == msgspec.structs.replace(job, **fields)

    async def test_a_job_that_waits_for_another_try_follows_an_edit(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule, retry=IN_A_MINUTE))
        (job,) = await claim_jobs(store)
        await end(store, job, PASSING_FAILURE)
        await store.update_schedule(edited_schedule(schedule, queue="other"), None, NOW)
        assert (await stored_job(store, job)).queue == "other"

    async def test_jobs_are_given_out_as_the_edit_says(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule)
        await add_planned(store, schedule, job)
        await store.update_schedule(
            edited_schedule(schedule, target=HandlerTarget("other")), None, NOW
        )
        assert await claim_jobs(store) == ()
        assert ids_of(await claim_jobs(store, lanes=frozenset({"other"}))) == [job.id]

    async def test_a_running_job_stays_as_it_began(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        await store.update_schedule(
            edited_schedule(schedule, target=HandlerTarget("other")), None, NOW
        )
        assert await stored_job(store, job) == job

    async def test_an_edit_without_a_plan_keeps_what_was_planned_meanwhile(
        self, store: Store
    ) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        plan = a_plan(schedule, planned_through=NOW + DAY, plan_at=NOW + HOUR)
        await store.apply_plans([plan])
        await store.update_schedule(edited_schedule(schedule, name="new name"), None, NOW)
        stored = await store.schedule(schedule.id)
        assert stored is not None
        assert (stored.planned_through, stored.plan_at) == (NOW + DAY, NOW + HOUR)

    async def test_a_plan_made_before_an_edit_is_refused(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        await store.update_schedule(edited_schedule(schedule), None, NOW)
        assert list(await store.apply_plans([a_plan(schedule)])) == [False]

    async def test_a_paused_schedule_is_not_planned(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        await store.update_schedule(
            edited_schedule(schedule, status=ScheduleStatus.PAUSED), None, NOW
        )
        assert list(await store.due_schedules(NOW + DAY, 10)) == []


class NewRuleContract:
    async def test_later_jobs_of_the_old_rule_leave_no_trace(self, store: Store) -> None:
        schedule = a_schedule()
        jobs = [an_occurrence(schedule, NOW + hours * HOUR) for hours in (1, 2, 3)]
        await add_planned(store, schedule, *jobs)
        before = await store.stats(NOW)
        new = edited_schedule(schedule)
        await store.update_schedule(new, a_plan(new), NOW)
        assert [await store.job(job.id) for job in jobs] == [None, None, None]
        after = await store.stats(NOW)
        assert after.jobs["cancelled"] == before.jobs["cancelled"]
        assert after.jobs["waiting"] == before.jobs["waiting"] - 3
        assert (await store.jobs(JobFilter(schedule_id=schedule.id))).items == ()

    async def test_a_later_job_that_others_wait_for_is_cancelled(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW + HOUR)
        await add_planned(store, schedule, job, an_occurrence(schedule, NOW + 2 * HOUR))
        dependent = a_job(after=(job.id,))
        cleaner = a_job(after=(job.id,), edges={job.id: Edge.END})
        await store.enqueue([dependent, cleaner])
        new = edited_schedule(schedule)
        await store.update_schedule(new, a_plan(new), NOW)
        gone = await stored_job(store, job)
        assert (gone.state, gone.reason) == (JobState.CANCELLED, "schedule changed")
        assert gone.finished_at == NOW
        assert (await stored_job(store, dependent)).cause_id == job.id
        assert [one.id for one in await claim_jobs(store, now=NOW + DAY)] == [cleaner.id]

    async def test_a_later_job_that_is_cancelled_by_a_pause_says_so(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW + HOUR)
        await add_planned(store, schedule, job)
        await store.enqueue([a_job(after=(job.id,))])
        paused = edited_schedule(schedule, status=ScheduleStatus.PAUSED)
        await store.update_schedule(paused, a_plan(paused), NOW)
        gone = await stored_job(store, job)
        assert (gone.state, gone.reason) == (JobState.CANCELLED, "schedule paused")

    async def test_a_later_job_that_was_moved_by_hand_is_cancelled(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW + HOUR)
        await add_planned(store, schedule, job)
        await store.reschedule(job.id, NOW + 2 * HOUR, NOW)
        new = edited_schedule(schedule)
        await store.update_schedule(new, a_plan(new), NOW)
        assert (await stored_job(store, job)).reason == "schedule changed"
        steps = [step.to for step in await store.transitions(job.id)]
        assert steps == ["rescheduled", "cancelled"]

    async def test_the_unique_key_of_a_later_job_is_free(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule, NOW + HOUR, unique="key"))
        new = edited_schedule(schedule)
        await store.update_schedule(new, a_plan(new), NOW)
        (answer,) = await store.enqueue([a_job(unique="key")])
        assert answer.created

    async def test_a_pause_is_the_cause_of_what_it_cancels(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW + HOUR)
        await add_planned(store, schedule, job)
        await store.enqueue([a_job(after=(job.id,))])
        paused = edited_schedule(schedule, status=ScheduleStatus.PAUSED)
        await store.update_schedule(paused, a_plan(paused), NOW)
        assert (await stored_job(store, job)).reason == "schedule paused"

    async def test_later_occurrences_of_the_old_rule_are_forgotten(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule, NOW + HOUR))
        new = edited_schedule(schedule)
        await store.update_schedule(new, a_plan(new), NOW)
        assert list(await store.dispositions(schedule.id, NOW, NOW + DAY)) == []

    async def test_the_jobs_of_the_new_rule_are_added(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule, NOW + HOUR))
        new = edited_schedule(schedule)
        job = an_occurrence(schedule, NOW + HOUR)
        await store.update_schedule(new, a_plan(new, job), NOW)
        assert await store.job(job.id) == job
        (row,) = await store.dispositions(schedule.id, NOW, NOW + DAY)
        assert row.job_id == job.id

    async def test_occurrences_up_to_now_keep_their_jobs(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW)
        await add_planned(store, schedule, job)
        new = edited_schedule(schedule)
        again = an_occurrence(schedule, NOW)
        await store.update_schedule(new, a_plan(new, again), NOW)
        assert await store.job(job.id) == job
        assert await store.job(again.id) is None

    async def test_a_job_that_has_started_keeps_its_occurrence(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule, NOW + HOUR, due_at=NOW))
        (job,) = await claim_jobs(store)
        new = edited_schedule(schedule)
        again = an_occurrence(schedule, NOW + HOUR)
        await store.update_schedule(new, a_plan(new, again), NOW)
        assert await stored_job(store, job) == job
        assert await store.job(again.id) is None

    async def test_a_job_that_was_tried_keeps_its_occurrence(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule, NOW + HOUR, due_at=NOW))
        (job,) = await claim_jobs(store)
        tried = await end(store, job, Released())
        new = edited_schedule(schedule)
        again = an_occurrence(schedule, NOW + HOUR)
        await store.update_schedule(new, a_plan(new, again), NOW)
        assert await stored_job(store, job) == tried
        assert await store.job(again.id) is None

    async def test_a_skip_that_reaches_past_now_stays_up_to_now(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, skips=(Skip(NOW - HOUR, NOW + HOUR, "misfire"),))
        new = edited_schedule(schedule)
        past, later = an_occurrence(schedule, NOW), an_occurrence(schedule, NOW + HOUR)
        await store.update_schedule(new, a_plan(new, past, later), NOW)
        assert await store.job(past.id) is None
        assert await store.job(later.id) == later

    async def test_jobs_by_hand_outlive_a_new_rule(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        job = a_job(schedule_id=schedule.id, due_at=NOW + HOUR)
        await store.enqueue([job])
        new = edited_schedule(schedule)
        await store.update_schedule(new, a_plan(new), NOW)
        assert await store.job(job.id) == job

    async def test_planning_begins_anew_where_the_new_plan_ends(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule, NOW + DAY))
        new = edited_schedule(schedule)
        plan = a_plan(new, planned_through=NOW + HOUR, plan_at=NOW + MINUTE)
        await store.update_schedule(new, plan, NOW)
        stored = await store.schedule(schedule.id)
        assert stored is not None
        assert (stored.planned_through, stored.plan_at) == (NOW + HOUR, NOW + MINUTE)

    async def test_occurrences_up_to_now_are_never_planned_again(self, store: Store) -> None:
        schedule = a_schedule(planned_through=NOW + DAY)
        await add_planned(store, schedule)
        new = edited_schedule(schedule)
        await store.update_schedule(new, a_plan(new, planned_through=NOW - DAY), NOW)
        stored = await store.schedule(schedule.id)
        assert stored is not None
        assert stored.planned_through >= NOW

    async def test_a_refused_edit_plans_nothing(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW + HOUR)
        await add_planned(store, schedule, job)
        stale = replace(schedule, name="new name")
        new_job = an_occurrence(schedule, NOW + 2 * HOUR)
        assert not await store.update_schedule(stale, a_plan(schedule, new_job), NOW)
        assert await store.job(job.id) == job
        assert await store.job(new_job.id) is None


class DeleteContract:
    async def test_a_deleted_schedule_is_gone(self, store: Store) -> None:
        schedule = a_schedule(key="key")
        await add_planned(store, schedule)
        assert await store.delete_schedule(schedule.id, NOW)
        assert await store.schedule(schedule.id) is None

    async def test_a_schedule_that_is_gone_cannot_be_deleted(self, store: Store) -> None:
        assert not await store.delete_schedule(a_schedule().id, NOW)

    async def test_the_key_of_a_deleted_schedule_is_free(self, store: Store) -> None:
        schedule, second = a_schedule(key="key"), a_schedule(key="key")
        await add_planned(store, schedule)
        await store.delete_schedule(schedule.id, NOW)
        await add_planned(store, second)
        assert await store.schedule_by_key("key") == second

    async def test_waiting_jobs_of_a_deleted_schedule_are_cancelled(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW + HOUR)
        await add_planned(store, schedule, job)
        await store.delete_schedule(schedule.id, NOW)
        gone = await stored_job(store, job)
        assert (gone.state, gone.reason) == (JobState.CANCELLED, "schedule deleted")

    async def test_one_planned_job_shows_that_its_schedule_was_deleted(self, store: Store) -> None:
        schedule = a_schedule()
        late, first, *rest = [an_occurrence(schedule, NOW + hours * HOUR) for hours in range(4)]
        await add_planned(store, schedule, late, first, *rest)
        await store.delete_schedule(schedule.id, NOW)
        assert [await store.job(job.id) for job in rest] == [None, None]
        assert {(await stored_job(store, job)).reason for job in (late, first)} == {
            "schedule deleted"
        }

    async def test_a_job_keeps_its_meaning_when_its_schedule_is_deleted(self, store: Store) -> None:
        schedule = a_schedule()
        jobs = [an_occurrence(schedule, NOW + hours * HOUR) for hours in (1, 2)]
        await add_planned(store, schedule, *jobs)
        dependent = a_job(after=(jobs[1].id,))
        await store.enqueue([dependent])
        await store.delete_schedule(schedule.id, NOW)
        assert (await stored_job(store, dependent)).cause_id == jobs[1].id

    async def test_running_jobs_of_a_deleted_schedule_are_asked_to_stop(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        await store.delete_schedule(schedule.id, NOW)
        request = await stored_job(store, job)
        assert (request.state, request.cancel_reason) == (JobState.RUNNING, "schedule deleted")

    async def test_ended_jobs_of_a_deleted_schedule_stay_readable(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        settled = await end(store, job)
        await store.delete_schedule(schedule.id, NOW)
        assert await store.job(job.id) == settled

    async def test_jobs_of_a_schedule_deleted_while_paused_are_cancelled(
        self, store: Store
    ) -> None:
        schedule = a_schedule(status=ScheduleStatus.PAUSED)
        job = an_occurrence(schedule)
        await add_planned(store, schedule, job)
        await store.delete_schedule(schedule.id, NOW)
        assert (await stored_job(store, job)).state is JobState.CANCELLED

    async def test_later_occurrences_of_a_deleted_schedule_are_forgotten(
        self, store: Store
    ) -> None:
        schedule = a_schedule()
        past = an_occurrence(schedule, NOW - HOUR)
        await add_planned(store, schedule, past, an_occurrence(schedule, NOW + HOUR))
        await store.delete_schedule(schedule.id, NOW)
        rows = await store.dispositions(schedule.id, NOW - DAY, NOW + DAY)
        assert [row.job_id for row in rows] == [past.id]

    async def test_jobs_of_other_schedules_outlive_it(self, store: Store) -> None:
        schedule, other = a_schedule(), a_schedule()
        job = an_occurrence(other)
        await add_planned(store, schedule)
        await add_planned(store, other, job)
        await store.delete_schedule(schedule.id, NOW)
        assert await store.job(job.id) == job


class TriggerContract:
    async def test_a_triggered_job_expires_where_an_edited_condition_puts_it_off(
        self, store: Store
    ) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        job = a_job(schedule_id=schedule.id)
        await store.trigger(schedule.id, job)
        condition = Condition(text="false", postpone=MINUTE)
        edited = replace(schedule, condition=condition, expires_after=HOUR, version=2)
        await store.update_schedule(edited, None, NOW)
        stored = await stored_job(store, job)
        assert (stored.condition, stored.expires_at) == (condition, job.due_at + HOUR)
        assert ids_of(await claim_jobs(store, now=job.due_at + 2 * HOUR)) == [job.id]

    async def test_a_job_beside_the_occurrences_is_added_once(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        job = a_job(schedule_id=schedule.id)
        for _ in range(2):
            await store.trigger(schedule.id, job)
        assert ids_of(await claim_jobs(store)) == [job.id]

    async def test_a_job_that_has_run_is_not_triggered_again(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        job = a_job(schedule_id=schedule.id)
        await store.trigger(schedule.id, job)
        (claimed,) = await claim_jobs(store)
        settled = await end(store, claimed)
        await store.trigger(schedule.id, job)
        assert await stored_job(store, job) == settled
        assert not await claim_jobs(store)

    async def test_a_triggered_job_of_a_paused_schedule_waits(self, store: Store) -> None:
        schedule = a_schedule(status=ScheduleStatus.PAUSED)
        await add_planned(store, schedule)
        job = a_job(schedule_id=schedule.id)
        await store.trigger(schedule.id, job)
        assert not await claim_jobs(store)
        await store.update_schedule(
            replace(schedule, status=ScheduleStatus.ACTIVE, version=2), None, NOW
        )
        assert ids_of(await claim_jobs(store)) == [job.id]

    async def test_a_deleted_schedule_is_not_triggered(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        await store.delete_schedule(schedule.id, NOW)
        job = a_job(schedule_id=schedule.id)
        with pytest.raises(NotFound):
            await store.trigger(schedule.id, job)
        assert await store.job(job.id) is None


class BackfillContract:
    async def test_jobs_for_past_occurrences_are_added(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        jobs = [an_occurrence(schedule, NOW - number * HOUR, due_at=NOW) for number in (3, 2)]
        assert await store.backfill(schedule.id, jobs, []) == 2
        assert ids_of(await claim_jobs(store)) == ids_of(jobs)

    async def test_a_deleted_schedule_is_not_backfilled(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        await store.delete_schedule(schedule.id, NOW)
        job, skip = an_occurrence(schedule, NOW - HOUR), Skip(NOW - DAY, NOW - DAY, "misfire")
        with pytest.raises(NotFound):
            await store.backfill(schedule.id, [job], [skip])
        assert await store.job(job.id) is None
        assert list(await store.dispositions(schedule.id, NOW - 2 * DAY, NOW)) == []

    async def test_an_occurrence_that_has_a_job_is_left_out(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule, NOW - HOUR))
        again = an_occurrence(schedule, NOW - HOUR)
        assert await store.backfill(schedule.id, [again], []) == 0
        assert await store.job(again.id) is None

    async def test_backfilling_twice_is_backfilling_once(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        await store.backfill(schedule.id, [an_occurrence(schedule, NOW - HOUR)], [])
        again = [an_occurrence(schedule, NOW - HOUR)]
        assert await store.backfill(schedule.id, again, []) == 0

    async def test_a_past_skip_is_turned_into_a_job(self, store: Store) -> None:
        schedule = a_schedule()
        at = NOW - HOUR
        await add_planned(store, schedule, skips=(Skip(at, at, "misfire"),))
        job = an_occurrence(schedule, at)
        await store.backfill(schedule.id, [job], [])
        (row,) = await store.dispositions(schedule.id, at, at)
        assert row.job_id == job.id

    async def test_one_of_many_skipped_is_turned_into_a_job(self, store: Store) -> None:
        schedule = a_schedule()
        skip = Skip(NOW - 5 * HOUR, NOW - HOUR, "misfire")
        await add_planned(store, schedule, skips=(skip,))
        at = NOW - 3 * HOUR
        job = an_occurrence(schedule, at)
        left = [Skip(skip.first, at - HOUR, "misfire"), Skip(at + HOUR, skip.last, "misfire")]
        assert await store.backfill(schedule.id, [job], left) == 1
        rows = await store.dispositions(schedule.id, NOW - DAY, NOW)
        assert [(row.first, row.last, row.reason) for row in rows] == [
            (skip.first, at - HOUR, "misfire"),
            (at, at, None),
            (at + HOUR, skip.last, "misfire"),
        ]

    async def test_what_stays_skipped_is_not_planned_again(self, store: Store) -> None:
        schedule = a_schedule()
        skip = Skip(NOW - 5 * HOUR, NOW - HOUR, "misfire")
        await add_planned(store, schedule, skips=(skip,))
        at = NOW - 3 * HOUR
        left = [Skip(skip.first, at - HOUR, "misfire"), Skip(at + HOUR, skip.last, "misfire")]
        await store.backfill(schedule.id, [an_occurrence(schedule, at)], left)
        late = [an_occurrence(schedule, NOW - number * HOUR) for number in (5, 4, 3, 2, 1)]
        await store.apply_plans([a_plan(schedule, *late)])
        assert [await store.job(job.id) for job in late] == [None] * 5


class DispositionContract:
    async def test_dispositions_are_told_in_order(self, store: Store) -> None:
        schedule = a_schedule()
        second = an_occurrence(schedule, NOW + 2 * HOUR)
        skips = (Skip(NOW + 3 * HOUR, NOW + 4 * HOUR, "misfire"),)
        first = an_occurrence(schedule, NOW + HOUR)
        await add_planned(store, schedule, second, first, skips=skips)
        rows = await store.dispositions(schedule.id, NOW, NOW + DAY)
        assert [row.job_id for row in rows] == [first.id, second.id, None]

    async def test_both_ends_of_the_time_asked_for_are_in_it(self, store: Store) -> None:
        schedule = a_schedule()
        jobs = [an_occurrence(schedule, NOW + number * HOUR) for number in (1, 2, 3, 4)]
        await add_planned(store, schedule, *jobs)
        rows = await store.dispositions(schedule.id, NOW + 2 * HOUR, NOW + 3 * HOUR)
        assert [row.job_id for row in rows] == ids_of(jobs[1:3])

    async def test_a_run_of_skips_is_told_where_any_of_it_was_asked_for(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, skips=(Skip(NOW + HOUR, NOW + DAY, "misfire"),))
        at = NOW + 12 * HOUR
        rows = await store.dispositions(schedule.id, at, at + HOUR)
        assert [row.reason for row in rows] == ["misfire"]

    async def test_other_schedules_have_their_own(self, store: Store) -> None:
        schedule, other = a_schedule(), a_schedule()
        await add_planned(store, other, an_occurrence(other, NOW + HOUR))
        assert list(await store.dispositions(schedule.id, NOW, NOW + DAY)) == []
