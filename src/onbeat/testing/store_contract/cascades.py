"""The effects of a job's end on chains and stars of dependents, of any size."""

import pytest

from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.model.outcome import Outcome
from onbeat.model.page import JobFilter
from onbeat.ports.store import Store
from onbeat.testing.build import MINUTE, NOW, a_job
from onbeat.testing.store_contract.steps import (
    FAILURE,
    SUCCESS,
    claim_jobs,
    end,
    run_job,
    stored_job,
)

CHAIN = 2_000
STAR = DEPENDENTS_MAX + 1
ROUNDS_MAX = 20


async def a_chain(store: Store, length: int = CHAIN) -> list[Job]:
    """Jobs that each wait for the previous one; the first runs."""
    head = await run_job(store, a_job())
    chain = [head]
    for _ in range(length):
        chain.append(a_job(after=(chain[-1].id,)))
    await store.enqueue(chain[1:])
    return chain


async def a_star(store: Store) -> Job:
    """A running job with more dependents than one transaction handles."""
    head = await run_job(store, a_job())
    await store.enqueue([a_job(after=(head.id,)) for _ in range(STAR)])
    return head


async def settle_cascades(store: Store) -> int:
    """Continue cascades until none are left; returns the number of rounds."""
    rounds = 0
    while await store.continue_cascades(NOW):
        rounds += 1
        assert rounds <= ROUNDS_MAX, "no cascade goes on for ever"
    return rounds


async def count(store: Store, state: JobState) -> int:
    return (await store.stats(NOW)).jobs[state]


async def blocked(store: Store) -> int:
    """The number of blocked jobs."""
    jobs, page = 0, await store.jobs(JobFilter(state=JobState.WAITING, limit=1_000))
    while True:
        jobs += sum(1 for job in page.items if job.blocked_by)
        if page.cursor is None:
            return jobs
        filter = JobFilter(state=JobState.WAITING, limit=1_000, before=JobId(page.cursor))
        page = await store.jobs(filter)


async def claimable(store: Store) -> int:
    result = 0
    while jobs := await claim_jobs(store, limit=1_000):
        result += len(jobs)
    return result


class CascadeContract:
    async def test_a_long_chain_fails_with_its_first_job(self, store: Store) -> None:
        chain = await a_chain(store)
        await end(store, chain[0], FAILURE, NOW + MINUTE)
        assert await store.continue_cascades(NOW) == 0
        last = await stored_job(store, chain[-1])
        assert (last.state, last.finished_at) == (JobState.CANCELLED, NOW + MINUTE)
        assert last.reason == f"job {chain[-2].id} it waited for was cancelled"
        assert (
            await stored_job(store, chain[1])
        ).reason == f"job {chain[0].id} it waited for failed"
        assert (await store.jobs(JobFilter(state=JobState.WAITING))).items == ()

    async def test_a_long_chain_is_cancelled_with_its_first_job(self, store: Store) -> None:
        first, *others = await a_chain(store)
        await store.cancel([others[0].id], "by hand", NOW)
        assert (await stored_job(store, others[-1])).state is JobState.CANCELLED
        assert (await stored_job(store, first)).state is JobState.RUNNING
        assert (await store.jobs(JobFilter(state=JobState.WAITING))).items == ()

    async def test_each_success_frees_only_the_next_of_a_chain(self, store: Store) -> None:
        chain = await a_chain(store, 100)
        for place, job in enumerate(chain[1:], 1):
            await end(store, await stored_job(store, chain[place - 1]))
            assert [claim_job.id for claim_job in await claim_jobs(store)] == [job.id]

    async def test_more_levels_than_one_transaction_takes_are_all_cancelled(
        self, store: Store
    ) -> None:
        chain = await a_chain(store, DEPENDENTS_MAX // 4 + 100)
        await end(store, chain[0], FAILURE)
        assert (await stored_job(store, chain[-1])).state is JobState.WAITING
        assert await settle_cascades(store) == 1
        assert (await stored_job(store, chain[-1])).state is JobState.CANCELLED

    @pytest.mark.parametrize("outcome", [SUCCESS, FAILURE])
    async def test_of_too_many_dependents_the_rest_comes_later(
        self, store: Store, outcome: Outcome
    ) -> None:
        head = await a_star(store)
        await end(store, head, outcome)
        assert await blocked(store) == 1
        assert await settle_cascades(store)
        assert await blocked(store) == 0
        assert await claimable(store) == (STAR if outcome is SUCCESS else 0)

    async def test_sensitive_dependents_are_looked_at_once_however_many(self, store: Store) -> None:
        head = a_job(due_at=NOW + MINUTE)
        hidden = [a_job(after=(head.id,), sensitive=True) for _ in range(STAR)]
        last = a_job(after=(head.id,))
        await store.enqueue([head, *hidden, last])
        await store.cancel([head.id], "by hand", NOW)
        await settle_cascades(store)
        await store.retry([head.id], NOW)
        await settle_cascades(store)
        assert await count(store, JobState.WAITING) == 2
        assert (await stored_job(store, last)).blocked_by == 1
        assert await count(store, JobState.CANCELLED) == STAR

    async def test_a_star_is_cancelled_by_a_cancel(self, store: Store) -> None:
        head = a_job(due_at=NOW + MINUTE)
        await store.enqueue([head, *(a_job(after=(head.id,)) for _ in range(STAR))])
        await store.cancel([head.id], "by hand", NOW)
        await settle_cascades(store)
        assert await count(store, JobState.CANCELLED) == STAR + 1

    async def test_dependents_left_over_wait_for_a_job_that_is_tried_again(
        self, store: Store
    ) -> None:
        head = await a_star(store)
        await end(store, head, FAILURE)
        await store.retry([head.id], NOW, dependents=False)
        assert await settle_cascades(store)
        assert await blocked(store) == 1
        (again,) = await claim_jobs(store)
        await end(store, again)
        await settle_cascades(store)
        assert len(await claim_jobs(store)) == 1

    async def test_a_job_that_one_end_frees_and_another_cancels_is_cancelled(
        self, store: Store
    ) -> None:
        first, second = await run_job(store, a_job()), await run_job(store, a_job())
        third = a_job(after=(first.id, second.id))
        fourth = a_job(after=(second.id,))
        await store.enqueue([third, fourth, a_job(after=(third.id, fourth.id))])
        await end(store, first)
        await end(store, second, FAILURE)
        assert await count(store, JobState.CANCELLED) == 3
        assert await store.continue_cascades(NOW) == 0
