"""Claims: which jobs, in which order, and when the next one is due."""

from msgspec.structs import replace

from onbeat.model.job import JobState, Progress
from onbeat.model.outcome import Released
from onbeat.model.schedule import ScheduleStatus
from onbeat.model.target import HttpTarget
from onbeat.ports.store import Settlement, Store
from onbeat.testing.build import (
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
    IN_A_MINUTE,
    OTHER_WORKER,
    PASSING_FAILURE,
    WORKER,
    a_request,
    a_settlement,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    run_job,
)


class ClaimContract:
    async def test_a_claimed_job_runs_under_the_claimants_lease(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        answer = await store.claim(a_request())
        assert tuple(answer.jobs) == (
            replace(job, state=JobState.RUNNING, worker=WORKER, token=1, attempt=1, started_at=NOW),
        )

    async def test_a_claim_is_stored(self, store: Store) -> None:
        await store.enqueue([a_job()])
        (job,) = await claim_jobs(store)
        assert await store.job(job.id) == job

    async def test_a_running_job_is_not_given_out_again(self, store: Store) -> None:
        await run_job(store, a_job())
        assert await claim_jobs(store, worker=OTHER_WORKER) == ()

    async def test_an_ended_job_is_not_given_out_again(self, store: Store) -> None:
        await end(store, await run_job(store, a_job()))
        assert await claim_jobs(store) == ()

    async def test_the_token_rises_with_every_claim(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await end(store, job, Released())
        (again,) = await claim_jobs(store)
        assert again.token > job.token

    async def test_an_attempt_that_was_handed_back_is_not_counted(self, store: Store) -> None:
        await end(store, await run_job(store, a_job()), Released())
        (again,) = await claim_jobs(store)
        assert again.attempt == 1

    async def test_an_attempt_that_failed_is_counted(self, store: Store) -> None:
        await end(store, await run_job(store, a_job(retry=IN_A_MINUTE)), PASSING_FAILURE)
        (again,) = await claim_jobs(store, now=NOW + MINUTE)
        assert again.attempt == 2

    async def test_an_attempt_begins_without_the_progress_of_the_last(self, store: Store) -> None:
        job = await run_job(store, a_job())
        settlement = a_settlement(job, Released())
        far = replace(settlement.job, progress=Progress(3, 10))
        await store.settle([Settlement(job=far, attempt=settlement.attempt)])
        (again,) = await claim_jobs(store)
        assert again.progress is None

    async def test_a_job_is_due_at_its_very_instant(self, store: Store) -> None:
        await store.enqueue([a_job(due_at=NOW)])
        assert len(await claim_jobs(store, now=NOW)) == 1

    async def test_a_job_is_never_given_out_early(self, store: Store) -> None:
        await store.enqueue([a_job(due_at=NOW + TICK)])
        assert await claim_jobs(store, now=NOW) == ()

    async def test_at_most_the_limit_is_given_out(self, store: Store) -> None:
        await store.enqueue([a_job() for _ in range(5)])
        assert len(await claim_jobs(store, limit=3)) == 3

    async def test_a_smaller_priority_goes_first(self, store: Store) -> None:
        late, soon = a_job(priority=5, due_at=NOW - HOUR), a_job(priority=-5)
        await store.enqueue([late, soon])
        assert ids_of(await claim_jobs(store)) == [soon.id, late.id]

    async def test_an_earlier_due_time_goes_first_within_a_priority(self, store: Store) -> None:
        second, first = a_job(due_at=NOW - SECOND), a_job(due_at=NOW - HOUR)
        await store.enqueue([second, first])
        assert ids_of(await claim_jobs(store)) == [first.id, second.id]

    async def test_the_smaller_id_goes_first_among_equals(self, store: Store) -> None:
        first, second = a_job(), a_job()
        await store.enqueue([second, first])
        assert ids_of(await claim_jobs(store)) == [first.id, second.id]

    async def test_what_is_due_before_all_that_was_claimed_is_claimed(self, store: Store) -> None:
        jobs = [a_job() for _ in range(4)]
        await store.enqueue(jobs)
        given_back = (await claim_jobs(store, limit=2))[0]
        late = a_job(due_at=NOW - HOUR)
        await store.enqueue([late])
        await end(store, given_back, Released())
        rest = ids_of(await claim_jobs(store))
        assert rest == ids_of([late, given_back, *jobs[2:]])

    async def test_one_order_holds_across_queues_and_tasks(self, store: Store) -> None:
        fourth = a_job("work", queue="b", priority=2)
        second = a_job("rest", queue="a", due_at=NOW - SECOND)
        first = a_job("work", queue="b", due_at=NOW - MINUTE)
        third = a_job("rest", queue="b")
        await store.enqueue([fourth, second, first, third])
        jobs = await claim_jobs(store, lanes=frozenset({"work", "rest"}))
        assert ids_of(jobs) == ids_of([first, second, third, fourth])

    async def test_the_first_in_order_are_given_out_when_the_limit_cuts(self, store: Store) -> None:
        jobs = [a_job(due_at=NOW - number * SECOND, queue=f"q{number % 3}") for number in range(9)]
        await store.enqueue(jobs)
        assert ids_of(await claim_jobs(store, limit=4)) == ids_of(jobs[:-5:-1])

    async def test_a_blocked_job_is_not_given_out(self, store: Store) -> None:
        first = a_job(due_at=NOW + HOUR)
        await store.enqueue([first, a_job(after=(first.id,))])
        assert await claim_jobs(store) == ()

    async def test_a_lapsed_job_is_not_given_out(self, store: Store) -> None:
        await store.enqueue([a_job(due_at=NOW - HOUR, start_by=NOW - TICK)])
        assert await claim_jobs(store) == ()

    async def test_a_job_may_start_at_the_last_instant_of_its_bound(self, store: Store) -> None:
        await claim_jobs(store)
        await store.enqueue([a_job(start_by=NOW)])
        assert len(await claim_jobs(store)) == 1

    async def test_a_bound_is_held_against_the_instant_of_the_claim(self, store: Store) -> None:
        await store.enqueue([a_job(start_by=NOW)])
        assert await claim_jobs(store, now=NOW + HOUR) == ()
        assert len(await claim_jobs(store, now=NOW)) == 1

    async def test_a_job_that_was_tried_does_not_lapse(self, store: Store) -> None:
        job = await run_job(store, a_job(start_by=NOW))
        await claim_jobs(store, now=NOW + HOUR)
        await end(store, job, Released())
        assert len(await claim_jobs(store, now=NOW + HOUR)) == 1

    async def test_a_paused_queue_gives_out_nothing(self, store: Store) -> None:
        await store.enqueue([a_job(queue="slow")])
        await store.pause_queue("slow", paused=True)
        assert await claim_jobs(store) == ()

    async def test_a_resumed_queue_gives_out_what_waited(self, store: Store) -> None:
        await store.enqueue([a_job(queue="slow")])
        await store.pause_queue("slow", paused=True)
        await store.pause_queue("slow", paused=False)
        assert len(await claim_jobs(store)) == 1

    async def test_a_paused_queue_stops_no_other(self, store: Store) -> None:
        other = a_job(queue="quick")
        await store.enqueue([a_job(queue="slow"), other])
        await store.pause_queue("slow", paused=True)
        assert ids_of(await claim_jobs(store)) == [other.id]

    async def test_a_paused_schedule_has_none_of_its_jobs_given_out(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule))
        paused = replace(schedule, status=ScheduleStatus.PAUSED, version=2)
        await store.update_schedule(paused, None, NOW)
        assert await claim_jobs(store) == ()

    async def test_a_job_added_to_a_paused_schedule_is_not_given_out(self, store: Store) -> None:
        schedule = a_schedule(status=ScheduleStatus.PAUSED)
        await add_planned(store, schedule)
        await store.enqueue([a_job(schedule_id=schedule.id)])
        assert await claim_jobs(store) == ()

    async def test_a_resumed_schedule_has_its_jobs_given_out(self, store: Store) -> None:
        schedule = a_schedule(status=ScheduleStatus.PAUSED)
        await add_planned(store, schedule, an_occurrence(schedule))
        active = replace(schedule, status=ScheduleStatus.ACTIVE, version=2)
        await store.update_schedule(active, None, NOW)
        assert len(await claim_jobs(store)) == 1

    async def test_an_attempt_begun_before_the_pause_that_fails_waits_for_the_resume(
        self, store: Store
    ) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        paused = replace(schedule, status=ScheduleStatus.PAUSED, version=2)
        await store.update_schedule(paused, None, NOW)
        await end(store, job, Released())
        assert await claim_jobs(store) == ()

    async def test_a_task_that_the_claimant_does_not_know_is_not_given_out(
        self, store: Store
    ) -> None:
        await store.enqueue([a_job("unknown")])
        assert await claim_jobs(store) == ()

    async def test_a_claimant_that_knows_nothing_gets_nothing(self, store: Store) -> None:
        await store.enqueue([a_job()])
        assert await claim_jobs(store, lanes=frozenset[str]()) == ()

    async def test_a_callback_goes_to_those_that_can_call(self, store: Store) -> None:
        job = a_job(target=HttpTarget("https://example.org/"))
        await store.enqueue([a_job(), job])
        assert ids_of(await claim_jobs(store, lanes=frozenset({"@http"}))) == [job.id]

    async def test_only_the_queues_asked_for_are_served(self, store: Store) -> None:
        mine = a_job(queue="mine")
        await store.enqueue([a_job(queue="other"), mine])
        assert ids_of(await claim_jobs(store, queues=("mine", "empty"))) == [mine.id]

    async def test_a_claimant_of_no_queues_gets_nothing(self, store: Store) -> None:
        await store.enqueue([a_job()])
        assert await claim_jobs(store, queues=()) == ()

    async def test_what_is_not_given_out_is_not_in_the_way(self, store: Store) -> None:
        first = a_job(due_at=NOW + HOUR)
        schedule = a_schedule(status=ScheduleStatus.PAUSED)
        await add_planned(store, schedule)
        await store.pause_queue("paused", paused=True)
        await store.enqueue([first])
        for _ in range(50):
            await store.enqueue(
                [
                    a_job(due_at=NOW - HOUR, start_by=NOW - MINUTE),
                    a_job(due_at=NOW - HOUR, after=(first.id,)),
                    a_job(due_at=NOW - HOUR, queue="paused"),
                    a_job("unknown", due_at=NOW - HOUR),
                    a_job(due_at=NOW - HOUR, schedule_id=schedule.id),
                ]
            )
        last = a_job()
        await store.enqueue([last])
        assert ids_of(await claim_jobs(store, limit=1)) == [last.id]

    async def test_a_claim_tells_when_the_next_job_is_due(self, store: Store) -> None:
        await store.enqueue([a_job(), a_job(due_at=NOW + HOUR), a_job(due_at=NOW + MINUTE)])
        answer = await store.claim(a_request())
        assert answer.next_due_at == NOW + MINUTE

    async def test_a_claim_tells_of_no_next_job_where_there_is_none(self, store: Store) -> None:
        await store.enqueue([a_job()])
        answer = await store.claim(a_request())
        assert answer.next_due_at is None

    async def test_a_claim_tells_only_of_jobs_that_the_claimant_could_take(
        self, store: Store
    ) -> None:
        first = a_job("unknown", due_at=NOW + SECOND)
        await store.pause_queue("paused", paused=True)
        await store.enqueue(
            [
                first,
                a_job(due_at=NOW + SECOND, after=(first.id,)),
                a_job(due_at=NOW + SECOND, queue="paused"),
                a_job(due_at=NOW + SECOND, queue="other"),
                a_job(due_at=NOW + HOUR),
            ]
        )
        answer = await store.claim(a_request(queues=("default", "paused")))
        assert answer.next_due_at == NOW + HOUR

    async def test_a_retry_counts_as_the_next_job(self, store: Store) -> None:
        await end(store, await run_job(store, a_job(retry=IN_A_MINUTE)), PASSING_FAILURE)
        answer = await store.claim(a_request())
        assert answer.next_due_at == NOW + MINUTE

    async def test_planned_jobs_are_given_out_when_due(self, store: Store) -> None:
        schedule = a_schedule()
        await store.add_schedule(schedule, a_plan(schedule))
        job = an_occurrence(schedule, NOW + HOUR)
        await store.apply_plans([a_plan(schedule, job)])
        assert ids_of(await claim_jobs(store, now=NOW + HOUR)) == [job.id]
