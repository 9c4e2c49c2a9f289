"""Repeated copies of jobs that have changed in either store."""

import msgspec

from onbeat.model.attempt import OutcomeName
from onbeat.model.job import JobState
from onbeat.model.outcome import Released, Succeeded
from onbeat.model.schedule import Overlap
from onbeat.ports.store import SentJobs, Store
from onbeat.testing.build import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    a_job,
    a_plan,
    a_schedule,
    an_occurrence,
)
from onbeat.testing.store_contract.copy.jobs import (
    CopyDirection,
    both_ways,
    copy,
    everything,
    export_of,
    source_and_target,
)
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    OTHER_WORKER,
    PASSING_FAILURE,
    a_settlement,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    run_and_end,
    run_job,
    stored_job,
)


class CopiedAgainContract:
    @both_ways
    async def test_a_job_that_ended_meanwhile_ends(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        job = await run_job(source, a_job())
        await copy(source, target)
        await end(source, job, Succeeded(msgspec.Raw(b"1")), NOW + SECOND)
        assert await copy(source, target) == 1
        assert await everything(target) == await everything(source)
        assert await claim_jobs(target) == ()

    @both_ways
    async def test_a_job_that_was_cancelled_meanwhile_is_cancelled(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = a_job()
        await source.enqueue([job])
        await copy(source, target)
        await source.cancel([job.id], "by hand", NOW)
        assert await copy(source, target) == 1
        assert await everything(target) == await everything(source)

    @both_ways
    async def test_a_job_that_ran_meanwhile_is_as_it_was_left(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = a_job(retry=IN_A_MINUTE, start_by=NOW + HOUR, unique="key")
        await source.enqueue([job])
        await copy(source, target)
        waits = await end(source, (await claim_jobs(source))[0], PASSING_FAILURE)
        assert await copy(source, target) == 1
        assert await stored_job(target, job) == waits
        (attempt,) = await target.attempts(job.id)
        assert attempt.outcome is OutcomeName.FAILED
        assert ids_of(await claim_jobs(target, now=NOW + MINUTE)) == [job.id]

    @both_ways
    async def test_a_job_that_failed_and_was_retried_meanwhile_waits_again(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = await run_and_end(source, a_job(), FAILURE)
        await copy(source, target)
        await source.retry([job.id], NOW)
        runs = await run_job(source, job)
        await end(source, runs, Released())
        assert await copy(source, target) == 1
        assert await everything(target) == await everything(source)
        assert ids_of(await claim_jobs(target)) == [job.id]

    @both_ways
    async def test_what_waited_for_a_job_that_ended_meanwhile_is_free(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        first = await run_job(source, a_job())
        second = a_job(after=(first.id,))
        await source.enqueue([second])
        await copy(source, target)
        await end(source, first)
        await copy(source, target)
        assert (await stored_job(target, second)).blocked_by == 0
        assert ids_of(await claim_jobs(target)) == [second.id]

    @both_ways
    async def test_what_waited_for_a_job_that_failed_meanwhile_ends_with_it(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        first = await run_job(source, a_job())
        second = a_job(after=(first.id,))
        third = a_job(after=(second.id,))
        await source.enqueue([second, third])
        await copy(source, target)
        await end(source, first, FAILURE)
        await copy(source, target)
        assert await everything(target) == await everything(source)
        assert (await stored_job(target, third)).state is JobState.CANCELLED
        assert await copy(source, target) == 0

    @both_ways
    async def test_what_waited_by_overlap_for_a_job_that_ended_meanwhile_is_free(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule(overlap=Overlap.WAIT)
        earlier = an_occurrence(schedule, NOW - HOUR, retry=IN_A_MINUTE)
        later = an_occurrence(schedule)
        await add_planned(source, schedule, earlier, later)
        (runs,) = await claim_jobs(source)
        await end(source, runs, PASSING_FAILURE)
        await copy(source, target)
        assert await claim_jobs(target) == ()
        assert (await stored_job(target, later)).blocked_by == 1
        await source.cancel([earlier.id], "by hand", NOW)
        await copy(source, target)
        assert ids_of(await claim_jobs(target)) == [later.id]

    @both_ways
    async def test_a_job_that_went_on_here_is_left_alone(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = await run_job(source, a_job())
        await copy(source, target)
        (runs,) = await claim_jobs(target)
        await end(source, job)
        assert await copy(source, target) == 0
        assert await stored_job(target, job) == runs
        done = await end(target, runs, FAILURE)
        assert await copy(source, target) == 0
        assert await stored_job(target, job) == done
        assert len(await target.attempts(job.id)) == 1

    @both_ways
    async def test_a_job_that_runs_here_with_the_same_token_is_left_alone(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = a_job()
        await source.enqueue([job])
        await copy(source, target)
        (runs,) = await claim_jobs(target, worker=OTHER_WORKER)
        await end(source, (await claim_jobs(source))[0])
        assert await copy(source, target) == 0
        assert await stored_job(target, job) == runs
        assert list(await target.settle([a_settlement(runs)])) == [True]

    @both_ways
    async def test_a_job_that_ended_here_with_the_same_token_is_left_alone(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = a_job()
        await source.enqueue([job])
        await copy(source, target)
        await target.cancel([job.id], "by hand", NOW)
        before = await export_of(target, job)
        assert await copy(source, target) == 0
        await source.cancel([job.id], "another reason", NOW)
        assert await copy(source, target) == 0
        assert await export_of(target, job) == before

    @both_ways
    async def test_a_job_that_runs_here_is_left_alone_however_far_it_is_there(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = a_job()
        await source.enqueue([job])
        await copy(source, target)
        (here,) = await claim_jobs(target)
        for _ in range(2):
            (runs,) = await claim_jobs(source)
            await end(source, runs, Released())
        assert await copy(source, target) == 0
        assert list(await target.settle([a_settlement(here)])) == [True]
        done = await export_of(target, job)
        assert await copy(source, target) == 0
        assert await export_of(target, job) == done

    @both_ways
    async def test_a_job_that_was_handed_back_meanwhile_is_as_it_was_left(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = await run_job(source, a_job())
        await copy(source, target)
        await end(source, job, Released())
        assert await copy(source, target) == 1
        assert await everything(target) == await everything(source)
        assert list(await target.settle([a_settlement(job)])) == [False]

    @both_ways
    async def test_how_far_a_job_that_still_runs_has_come_is_copied(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = await run_job(source, a_job())
        await copy(source, target)
        cursor = msgspec.Raw(b'{"page":7}')
        await source.enqueue_from(
            [SentJobs(sender=job.id, token=job.token, jobs=(), cursor=cursor)]
        )
        assert await copy(source, target) == 1
        assert (await stored_job(target, job)).cursor == cursor
        assert await copy(source, target) == 0

    @both_ways
    async def test_new_jobs_and_occurrences_come_with_the_next_copy(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule()
        await add_planned(source, schedule, an_occurrence(schedule))
        await copy(source, target)
        following = an_occurrence(schedule, NOW + HOUR)
        await source.apply_plans([a_plan(schedule, following)])
        await source.enqueue([a_job()])
        # The schedule's watermark, a disposition, and two jobs.
        assert await copy(source, target) == 4
        assert await everything(target) == await everything(source)
