"""Pruning: what is deleted by age, and what must be kept."""

from datetime import datetime

from onbeat.model.job import Job
from onbeat.model.outcome import Outcome
from onbeat.model.plan import Skip
from onbeat.ports.store import Store
from onbeat.testing.build import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    a_job,
    a_plan,
    a_schedule,
    an_occurrence,
)
from onbeat.testing.store_contract.steps import (
    FAILURE,
    SUCCESS,
    add_planned,
    claim_jobs,
    end,
    run_and_end,
    run_job,
    stored_job,
)

LONG_PAST = NOW + 30 * DAY


async def prune_once(
    store: Store,
    *,
    finished_before: datetime = LONG_PAST,
    failed_before: datetime = LONG_PAST,
    limit: int = 100,
) -> int:
    return await store.prune(
        finished_before=finished_before, failed_before=failed_before, limit=limit
    )


async def ended_at(store: Store, at: datetime, outcome: Outcome = SUCCESS) -> Job:
    return await end(store, await run_job(store, a_job()), outcome, at)


class PruneContract:
    async def test_a_vacuum_changes_nothing(self, store: Store) -> None:
        live = a_job()
        ended = await ended_at(store, NOW)
        await store.enqueue([live])
        assert await store.vacuum() > 0
        assert await stored_job(store, live) == live
        assert await stored_job(store, ended) == ended

    async def test_jobs_kept_long_enough_go(self, store: Store) -> None:
        job = await run_and_end(store, a_job())
        assert await prune_once(store) == 1
        assert await store.job(job.id) is None

    async def test_a_job_that_succeeded_is_kept_as_long_as_asked(self, store: Store) -> None:
        job = await ended_at(store, NOW)
        assert await prune_once(store, finished_before=NOW) == 0
        assert await store.job(job.id) == job

    async def test_a_failed_job_has_a_keep_of_its_own(self, store: Store) -> None:
        job = await ended_at(store, NOW, FAILURE)
        assert await prune_once(store, failed_before=NOW) == 0
        assert await store.job(job.id) == job

    async def test_a_failed_job_goes_when_its_own_keep_is_over(self, store: Store) -> None:
        job = await ended_at(store, NOW, FAILURE)
        assert await prune_once(store, finished_before=NOW - DAY) == 1
        assert await store.job(job.id) is None

    async def test_a_cancelled_job_goes_when_both_keeps_are_over(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        await store.cancel([job.id], "by hand", NOW)
        assert await prune_once(store) == 1
        assert await store.job(job.id) is None

    async def test_live_jobs_are_never_pruned(self, store: Store) -> None:
        old = a_job(created_at=NOW - 900 * DAY, due_at=NOW + DAY)
        runs = await run_job(store, a_job(created_at=NOW - 900 * DAY))
        await store.enqueue([old])
        assert await prune_once(store) == 0
        assert await stored_job(store, runs) == runs
        assert await stored_job(store, old) == old

    async def test_at_most_the_limit_goes_in_one_call(self, store: Store) -> None:
        for _ in range(5):
            await run_and_end(store, a_job())
        assert await prune_once(store, limit=3) == 3
        assert await prune_once(store, limit=3) == 2

    async def test_the_oldest_go_first(self, store: Store) -> None:
        newer = await ended_at(store, NOW + HOUR)
        older = await ended_at(store, NOW + MINUTE)
        await prune_once(store, limit=1)
        assert await store.job(older.id) is None
        assert await store.job(newer.id) == newer

    async def test_attempts_go_with_their_job(self, store: Store) -> None:
        job = await run_and_end(store, a_job(), FAILURE)
        await store.retry([job.id], NOW)
        (again,) = await claim_jobs(store)
        await end(store, again)
        await prune_once(store)
        assert list(await store.attempts(job.id)) == []

    async def test_the_history_goes_with_its_job(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.cancel([job.id], "by hand", NOW)
        await end(store, job)
        await prune_once(store)
        assert list(await store.transitions(job.id)) == []

    async def test_old_dispositions_go(self, store: Store) -> None:
        schedule = a_schedule()
        skip = Skip(NOW - 3 * DAY, NOW - 2 * DAY, "misfire")
        await add_planned(store, schedule, skips=(skip,))
        await prune_once(store, failed_before=NOW - DAY)
        assert list(await store.dispositions(schedule.id, NOW - 9 * DAY, NOW)) == []

    async def test_dispositions_are_kept_as_long_as_failures(self, store: Store) -> None:
        schedule = a_schedule()
        skip = Skip(NOW - 3 * DAY, NOW - DAY, "misfire")
        await add_planned(store, schedule, skips=(skip,))
        await prune_once(store, failed_before=NOW - 2 * DAY)
        assert len(await store.dispositions(schedule.id, NOW - 9 * DAY, NOW)) == 1

    async def test_the_disposition_of_a_job_that_has_not_ended_stays(self, store: Store) -> None:
        schedule = a_schedule(planned_through=NOW - 3 * DAY)
        runs, waits = (an_occurrence(schedule, NOW - days * DAY) for days in (2, 1))
        await add_planned(store, schedule, runs, waits)
        await claim_jobs(store, limit=1)
        await prune_once(store)
        answer = await store.dispositions(schedule.id, NOW - 9 * DAY, NOW)
        assert [disposition.job_id for disposition in answer] == [runs.id, waits.id]

    async def test_the_watermark_stays_when_jobs_and_dispositions_go(self, store: Store) -> None:
        schedule = a_schedule(planned_through=NOW - DAY)
        await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        await end(store, job)
        await prune_once(store)
        stored = await store.schedule(schedule.id)
        assert stored is not None
        assert stored.planned_through == NOW

    async def test_what_is_pruned_frees_nothing_that_still_waits(self, store: Store) -> None:
        first = await run_job(store, a_job())
        gone = await run_and_end(store, a_job())
        second = a_job(after=(gone.id, first.id))
        await store.enqueue([second])
        await prune_once(store)
        assert (await stored_job(store, second)).blocked_by == 1

    async def test_a_schedule_goes_on_after_pruning(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        await end(store, job)
        await prune_once(store)
        following = an_occurrence(schedule, NOW + HOUR)
        assert list(await store.apply_plans([a_plan(schedule, following)])) == [True]
        assert await store.job(following.id) == following

    async def test_what_has_run_and_is_pruned_is_not_planned_by_a_slower_planner(
        self, store: Store
    ) -> None:
        schedule = a_schedule(planned_through=NOW - HOUR)
        slower = a_plan(schedule, an_occurrence(schedule), planned_from=schedule.planned_through)
        await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        await end(store, job)
        await prune_once(store)
        assert not await store.dispositions(schedule.id, NOW - DAY, LONG_PAST)
        assert list(await store.apply_plans([slower])) == [False]
        assert await claim_jobs(store) == ()

    async def test_nothing_is_pruned_where_nothing_is(self, store: Store) -> None:
        assert await prune_once(store) == 0
