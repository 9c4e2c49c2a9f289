"""Limits of a queue: jobs that they hold back or admit, and until when."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from onbeat.model.job import JobState
from onbeat.model.outcome import Lost, Outcome, Released, Snoozed, Succeeded
from onbeat.model.queue import NO_LIMITS, Limits, Rate
from onbeat.model.worker import carrier_id
from onbeat.ports.store import Hint, Store
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, a_job
from onbeat.testing.store_contract.hints import expect_hint
from onbeat.testing.store_contract.steps import (
    FAILURE,
    OTHER_WORKER,
    WORKER,
    a_request,
    claim_jobs,
    end,
    ids_of,
    limit,
    run_job,
    slow_jobs,
    stored_job,
    wait_for_next,
)

TENTH = SECOND / 10
TEN_A_SECOND = Rate(10, SECOND)

ENDS: tuple[Outcome, ...] = (
    Succeeded(),
    FAILURE,
    Released(),
    Snoozed(HOUR),
    Lost("the worker died"),
)


class ConcurrencyContract:
    async def test_no_more_are_given_out_than_may_run(self, store: Store) -> None:
        await limit(store, concurrency=3)
        jobs = slow_jobs(5)
        await store.enqueue(jobs)
        assert ids_of(await claim_jobs(store)) == ids_of(jobs[:3])

    async def test_what_is_given_out_runs_as_from_any_queue(self, store: Store) -> None:
        await limit(store, concurrency=1)
        (job,) = slow_jobs(1)
        await store.enqueue([job])
        answer = await store.claim(a_request(lease=MINUTE))
        assert tuple(answer.jobs) == (
            replace(
                job,
                state=JobState.RUNNING,
                worker=WORKER,
                token=1,
                attempt=1,
                started_at=NOW,
                lease_until=NOW + MINUTE,
            ),
        )
        assert await stored_job(store, job) == answer.jobs[0]

    async def test_what_runs_under_any_worker_counts(self, store: Store) -> None:
        await limit(store, concurrency=3)
        await store.enqueue(slow_jobs(5))
        assert len(await claim_jobs(store, worker=WORKER, limit=2)) == 2
        assert len(await claim_jobs(store, worker=OTHER_WORKER)) == 1
        assert await claim_jobs(store) == ()

    async def test_what_runs_counts_although_the_claimant_cannot_run_it(self, store: Store) -> None:
        await limit(store, concurrency=3)
        await store.enqueue(slow_jobs(2, task="rest"))
        await claim_jobs(store, lanes=frozenset({"rest"}))
        await store.enqueue(slow_jobs(5))
        assert len(await claim_jobs(store)) == 1

    async def test_what_runs_in_another_queue_does_not_count(self, store: Store) -> None:
        await limit(store, concurrency=1)
        await run_job(store, a_job())
        await store.enqueue(slow_jobs(2))
        assert len(await claim_jobs(store)) == 1

    async def test_each_limited_queue_has_its_own_places(self, store: Store) -> None:
        await limit(store, "a", concurrency=1)
        await limit(store, "b", concurrency=2)
        await store.enqueue([*slow_jobs(5, queue="a"), *slow_jobs(5, queue="b")])
        assert [job.queue for job in await claim_jobs(store)] == ["a", "b", "b"]

    @pytest.mark.parametrize("outcome", ENDS, ids=lambda outcome: type(outcome).__name__)
    async def test_the_end_of_an_attempt_frees_its_place(
        self, store: Store, outcome: Outcome
    ) -> None:
        await limit(store, concurrency=1)
        job = await run_job(store, a_job(queue="slow", due_at=NOW))
        await store.enqueue(slow_jobs(2, due_at=NOW - HOUR))
        assert await claim_jobs(store) == ()
        await end(store, job, outcome)
        assert len(await claim_jobs(store)) == 1

    async def test_a_freed_place_is_told(self, store: Store) -> None:
        await limit(store, concurrency=1)
        job = await run_job(store, a_job(queue="slow"))
        await store.enqueue(slow_jobs(1))
        async with expect_hint(store, Hint.JOBS):
            await end(store, job)

    async def test_a_job_asked_to_stop_has_its_place_until_it_ends(self, store: Store) -> None:
        await limit(store, concurrency=1)
        job = await run_job(store, a_job(queue="slow"))
        await store.enqueue(slow_jobs(1))
        await store.cancel([job.id], "by hand", NOW)
        assert await claim_jobs(store) == ()

    async def test_a_carried_job_has_its_place_through_its_start(self, store: Store) -> None:
        await limit(store, concurrency=1)
        await store.enqueue(slow_jobs(2))
        (job,) = await claim_jobs(store, worker=carrier_id("1"), lease=MINUTE)
        assert await claim_jobs(store) == ()
        (started,) = await store.start(WORKER, [(job.id, job.token)], NOW)
        assert await claim_jobs(store) == ()
        assert started is not None
        await end(store, started)
        assert len(await claim_jobs(store)) == 1

    async def test_a_waiting_job_that_ends_frees_nothing(self, store: Store) -> None:
        await limit(store, concurrency=1)
        await run_job(store, a_job(queue="slow"))
        first, second = slow_jobs(2)
        await store.enqueue([first, second])
        await store.cancel([first.id], "by hand", NOW)
        assert await claim_jobs(store) == ()

    async def test_jobs_that_ran_before_the_limit_count(self, store: Store) -> None:
        await store.enqueue(slow_jobs(5))
        await claim_jobs(store, limit=2)
        await limit(store, concurrency=3)
        assert len(await claim_jobs(store)) == 1

    async def test_nothing_is_taken_back_when_a_limit_is_lowered(self, store: Store) -> None:
        await limit(store, concurrency=3)
        await store.enqueue(slow_jobs(5))
        jobs = await claim_jobs(store)
        await limit(store, concurrency=1)
        assert len(await store.held_leases(WORKER)) == 3
        await end(store, jobs[0])
        await end(store, jobs[1])
        assert await claim_jobs(store) == ()
        await end(store, jobs[2])
        assert len(await claim_jobs(store)) == 1

    async def test_a_limit_that_is_raised_holds_from_the_next_claim_on(self, store: Store) -> None:
        await limit(store, concurrency=1)
        await store.enqueue(slow_jobs(5))
        await claim_jobs(store)
        await limit(store, concurrency=3)
        assert len(await claim_jobs(store)) == 2

    async def test_a_limit_that_is_lifted_holds_nothing_back(self, store: Store) -> None:
        await limit(store, concurrency=1)
        await store.enqueue(slow_jobs(5))
        await claim_jobs(store)
        await store.limit_queue("slow", NO_LIMITS)
        assert len(await claim_jobs(store)) == 4

    async def test_a_limit_holds_where_the_queue_is_asked_for_by_name(self, store: Store) -> None:
        await limit(store, concurrency=1)
        await store.enqueue([*slow_jobs(3), *slow_jobs(3, queue="other")])
        jobs = await claim_jobs(store, queues=("slow", "empty"))
        assert [job.queue for job in jobs] == ["slow"]

    async def test_the_limit_of_a_queue_that_was_not_asked_for_opens_nothing(
        self, store: Store
    ) -> None:
        await limit(store, concurrency=1)
        await store.enqueue(slow_jobs(3))
        assert await claim_jobs(store, queues=("other",)) == ()

    async def test_a_limited_queue_that_is_paused_gives_out_nothing(self, store: Store) -> None:
        await limit(store, concurrency=2)
        await store.enqueue(slow_jobs(3))
        await store.pause_queue("slow", paused=True)
        answer = await store.claim(a_request())
        assert (tuple(answer.jobs), answer.next_due_at) == ((), None)
        await store.pause_queue("slow", paused=False)
        assert len(await claim_jobs(store)) == 2

    async def test_where_only_the_end_of_a_job_helps_no_time_is_told(self, store: Store) -> None:
        await limit(store, concurrency=1)
        await store.enqueue(slow_jobs(3))
        assert (await store.claim(a_request())).next_due_at is None
        assert (await store.claim(a_request())).next_due_at is None

    async def test_a_later_job_of_a_limited_queue_is_told_as_the_next(self, store: Store) -> None:
        await limit(store, concurrency=3)
        await store.enqueue([*slow_jobs(1), *slow_jobs(1, due_at=NOW + HOUR)])
        assert (await store.claim(a_request())).next_due_at == NOW + HOUR

    async def test_a_job_is_never_given_out_early_from_a_limited_queue(self, store: Store) -> None:
        await limit(store, concurrency=3)
        await store.enqueue(slow_jobs(1, due_at=NOW + SECOND))
        assert await claim_jobs(store) == ()
        assert len(await claim_jobs(store, now=NOW + SECOND)) == 1

    async def test_limits_are_still_there_after_close_and_open(self, store: Store) -> None:
        await limit(store, concurrency=1)
        await store.enqueue(slow_jobs(3))
        await store.close()
        await store.open()
        assert len(await claim_jobs(store)) == 1
        assert await claim_jobs(store) == ()


class RateContract:
    async def test_no_more_start_at_once_than_the_rate_counts(self, store: Store) -> None:
        await limit(store, rate=TEN_A_SECOND)
        jobs = slow_jobs(15)
        await store.enqueue(jobs)
        assert ids_of(await claim_jobs(store)) == ids_of(jobs[:10])
        assert await claim_jobs(store) == ()

    async def test_a_rate_is_refilled_evenly(self, store: Store) -> None:
        await limit(store, rate=TEN_A_SECOND)
        await store.enqueue(slow_jobs(100))
        counts = [
            len(await claim_jobs(store, now=NOW + tenths * TENTH)) for tenths in (0, 1, 1, 5, 7, 30)
        ]
        assert counts == [10, 1, 0, 4, 2, 10]

    async def test_starts_of_several_claims_count_together(self, store: Store) -> None:
        await limit(store, rate=TEN_A_SECOND)
        await store.enqueue(slow_jobs(15))
        assert len(await claim_jobs(store, limit=4)) == 4
        assert len(await claim_jobs(store, limit=4, worker=OTHER_WORKER)) == 4
        assert len(await claim_jobs(store)) == 2

    async def test_an_end_gives_no_start_back(self, store: Store) -> None:
        await limit(store, rate=Rate(1, HOUR))
        await store.enqueue(slow_jobs(3))
        (job,) = await claim_jobs(store)
        await end(store, job, Released())
        assert await claim_jobs(store) == ()

    async def test_another_try_is_another_start(self, store: Store) -> None:
        await limit(store, rate=Rate(2, HOUR))
        await store.enqueue(slow_jobs(1))
        for _ in range(2):
            (job,) = await claim_jobs(store)
            await end(store, job, Released())
        assert await claim_jobs(store) == ()

    async def test_the_start_of_a_carried_job_is_not_counted_again(self, store: Store) -> None:
        await limit(store, rate=Rate(2, HOUR))
        await store.enqueue(slow_jobs(3))
        (job,) = await claim_jobs(store, worker=carrier_id("1"), limit=1)
        await store.start(WORKER, [(job.id, job.token)], NOW)
        assert len(await claim_jobs(store)) == 1

    async def test_when_a_rate_lets_the_next_go_is_told(self, store: Store) -> None:
        await limit(store, rate=TEN_A_SECOND)
        await store.enqueue(slow_jobs(15))
        answer = await store.claim(a_request())
        assert answer.next_due_at is not None
        assert NOW < answer.next_due_at <= NOW + TENTH
        assert await wait_for_next(store) == NOW + TENTH

    async def test_a_rate_lets_nothing_go_before_it_is_due(self, store: Store) -> None:
        await limit(store, rate=TEN_A_SECOND)
        await store.enqueue([*slow_jobs(10), *slow_jobs(1, due_at=NOW + HOUR)])
        await claim_jobs(store)
        assert await wait_for_next(store) == NOW + HOUR

    async def test_a_rate_holds_back_what_becomes_due_before_it_is_refilled(
        self, store: Store
    ) -> None:
        await limit(store, rate=Rate(1, HOUR))
        await store.enqueue([*slow_jobs(1), *slow_jobs(1, due_at=NOW + MINUTE)])
        await claim_jobs(store)
        assert await wait_for_next(store) == NOW + HOUR

    async def test_a_job_of_another_queue_is_told_if_it_comes_first(self, store: Store) -> None:
        await limit(store, rate=Rate(1, HOUR))
        await store.enqueue([*slow_jobs(2), a_job(due_at=NOW + MINUTE)])
        await claim_jobs(store)
        assert await wait_for_next(store) == NOW + MINUTE

    async def test_of_two_rates_the_sooner_is_told(self, store: Store) -> None:
        await limit(store, "a", rate=Rate(1, HOUR))
        await limit(store, "b", rate=Rate(1, MINUTE))
        await store.enqueue([*slow_jobs(2, queue="a"), *slow_jobs(2, queue="b")])
        await claim_jobs(store)
        assert await wait_for_next(store) == NOW + MINUTE

    async def test_rate_and_concurrency_hold_together(self, store: Store) -> None:
        await limit(store, concurrency=4, rate=Rate(6, HOUR))
        await store.enqueue(slow_jobs(20))
        jobs = await claim_jobs(store)
        assert len(jobs) == 4
        for job in jobs:
            await end(store, job)
        assert len(await claim_jobs(store)) == 2

    async def test_what_concurrency_held_back_costs_no_start(self, store: Store) -> None:
        await limit(store, concurrency=1, rate=Rate(3, HOUR))
        await store.enqueue(slow_jobs(9))
        for _ in range(3):
            (job,) = await claim_jobs(store)
            assert await claim_jobs(store) == ()
            await end(store, job)
        assert await claim_jobs(store) == ()

    async def test_a_rate_that_was_not_used_up_is_full_in_time(self, store: Store) -> None:
        await limit(store, rate=TEN_A_SECOND)
        await store.enqueue(slow_jobs(30))
        await claim_jobs(store, limit=3)
        assert len(await claim_jobs(store, now=NOW + HOUR)) == 10

    async def test_a_long_rate_is_kept_to_the_microsecond(self, store: Store) -> None:
        await limit(store, rate=Rate(7, timedelta(days=1, microseconds=1)))
        await store.enqueue(slow_jobs(30))
        assert len(await claim_jobs(store)) == 7
        # One seventh of the span, rounded up.
        assert await wait_for_next(store) == NOW + timedelta(microseconds=12_342_857_143)

    async def test_limits_set_again_refill_nothing(self, store: Store) -> None:
        await limit(store, rate=TEN_A_SECOND, concurrency=20)
        await store.enqueue(slow_jobs(30))
        await claim_jobs(store)
        await limit(store, rate=TEN_A_SECOND, concurrency=30)
        assert await claim_jobs(store) == ()

    async def test_a_new_rate_holds_at_once_whatever_the_old_one_was(self, store: Store) -> None:
        await limit(store, rate=Rate(1, 24 * HOUR))
        await store.enqueue(slow_jobs(30))
        await claim_jobs(store)
        await limit(store, rate=TEN_A_SECOND)
        assert len(await claim_jobs(store)) == 10
        assert await wait_for_next(store) == NOW + TENTH

    async def test_a_new_rate_of_one_queue_refills_no_other(self, store: Store) -> None:
        await limit(store, rate=TEN_A_SECOND)
        await store.enqueue(slow_jobs(30))
        await claim_jobs(store)
        await limit(store, "other", rate=Rate(1, HOUR))
        assert await claim_jobs(store) == ()

    async def test_a_rate_that_is_lifted_holds_nothing_back(self, store: Store) -> None:
        await limit(store, rate=TEN_A_SECOND)
        await store.enqueue(slow_jobs(30))
        await claim_jobs(store)
        await store.limit_queue("slow", Limits(concurrency=15))
        assert len(await claim_jobs(store)) == 5

    async def test_starts_are_still_counted_after_close_and_open(self, store: Store) -> None:
        await limit(store, rate=TEN_A_SECOND)
        await store.enqueue(slow_jobs(15))
        await claim_jobs(store, limit=7)
        await store.close()
        await store.open()
        assert len(await claim_jobs(store)) == 3

    async def test_pruning_refills_nothing(self, store: Store) -> None:
        await limit(store, rate=TEN_A_SECOND)
        await store.enqueue(slow_jobs(15))
        await claim_jobs(store)
        await store.prune(finished_before=NOW, failed_before=NOW, limit=10)
        assert await claim_jobs(store) == ()
