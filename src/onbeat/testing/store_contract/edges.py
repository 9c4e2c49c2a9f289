"""Which ends of a job free those that come after it and which cancel them; how they come back."""

import asyncio
from typing import Any, Final

import pytest
from msgspec.structs import replace

from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import Edge, Job, JobState
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.model.outcome import Cancelled, Outcome
from onbeat.ports.store import Store
from onbeat.testing.build import DAY, HOUR, MINUTE, NOW, SECOND, a_job
from onbeat.testing.store_contract.cascades import count, settle_cascades
from onbeat.testing.store_contract.copy.jobs import (
    CopyDirection,
    both_ways,
    copy,
    source_and_target,
)
from onbeat.testing.store_contract.steps import (
    FAILURE,
    SUCCESS,
    a_settlement,
    claim_jobs,
    end,
    ids_of,
    run_job,
    stored_job,
)

ENDS: Final[tuple[tuple[Outcome, frozenset[Edge]], ...]] = (
    (SUCCESS, frozenset({Edge.SUCCESS, Edge.END})),
    (FAILURE, frozenset({Edge.FAILURE, Edge.END})),
    (Cancelled("enough"), frozenset({Edge.END})),
)
"""Each end of a job, and the edges that it frees."""
ROUNDS: Final = 10


def after(*others: Job, on: Edge = Edge.SUCCESS, **fields: Any) -> Job:
    """A job that comes after the others, with this edge to each."""
    ids = tuple(other.id for other in others)
    edges = None if on is Edge.SUCCESS else dict.fromkeys(ids, on)
    return a_job(after=ids, edges=edges, **fields)


async def states(store: Store, *jobs: Job) -> list[JobState]:
    return [(await stored_job(store, job)).state for job in jobs]


class EdgeContract:
    @pytest.mark.parametrize("edge", Edge)
    @pytest.mark.parametrize(("outcome", "frees"), ENDS)
    async def test_an_end_frees_who_wants_it_and_cancels_the_others(
        self, store: Store, outcome: Outcome, frees: frozenset[Edge], edge: Edge
    ) -> None:
        head = await run_job(store, a_job())
        job = after(head, on=edge)
        await store.enqueue([job])
        await end(store, head, outcome, NOW + MINUTE)
        stored = await stored_job(store, job)
        if edge in frees:
            assert ids_of(await claim_jobs(store)) == [job.id]
        else:
            assert (stored.state, stored.cause_id) == (JobState.CANCELLED, head.id)
            assert stored.reason is not None
            assert stored.reason.startswith(f"job {head.id} it waited for ")
            assert await claim_jobs(store) == ()

    @pytest.mark.parametrize("edge", Edge)
    @pytest.mark.parametrize(("outcome", "frees"), ENDS)
    async def test_it_makes_no_difference_whether_the_end_came_before(
        self, store: Store, outcome: Outcome, frees: frozenset[Edge], edge: Edge
    ) -> None:
        head = await end(store, await run_job(store, a_job()), outcome)
        job = after(head, on=edge)
        await store.enqueue([job])
        stored = await stored_job(store, job)
        assert stored.blocked_by == 0
        assert (stored.state is JobState.WAITING) == (edge in frees)
        assert stored.cause_id == (None if edge in frees else head.id)

    async def test_a_job_with_several_edges_waits_for_all(self, store: Store) -> None:
        one, two = await run_job(store, a_job()), await run_job(store, a_job())
        edges = {one.id: Edge.FAILURE, two.id: Edge.END}
        job = a_job(after=(one.id, two.id), edges=edges)
        await store.enqueue([job])
        await end(store, two, FAILURE)
        assert (await stored_job(store, job)).blocked_by == 1
        await end(store, one, FAILURE)
        assert ids_of(await claim_jobs(store)) == [job.id]

    async def test_one_end_frees_each_dependent_by_one(self, store: Store) -> None:
        one, two, three = [await run_job(store, a_job()) for _ in range(3)]
        both, all_three = after(one, two), after(one, two, three)
        await store.enqueue([both, all_three])
        await store.settle([a_settlement(job) for job in (one, two)])
        assert (await stored_job(store, both)).blocked_by == 0
        assert (await stored_job(store, all_three)).blocked_by == 1
        await end(store, three)
        assert ids_of(await claim_jobs(store)) == [both.id, all_three.id]

    async def test_a_job_after_some_that_have_ended_waits_for_the_rest(self, store: Store) -> None:
        ended, live = await run_job(store, a_job()), await run_job(store, a_job())
        await end(store, ended)
        job, free = after(ended, live), after(ended)
        await store.enqueue([job, free])
        assert (await stored_job(store, job)).blocked_by == 1
        assert ids_of(await claim_jobs(store)) == [free.id]

    async def test_a_repeated_enqueue_beside_new_jobs_leaves_what_has_changed(
        self, store: Store
    ) -> None:
        one, two = await run_job(store, a_job()), await run_job(store, a_job())
        job = after(one, two)
        await store.enqueue([job])
        await end(store, one)
        other = after(job)
        await store.enqueue([job, other])
        assert (await stored_job(store, job)).blocked_by == 1
        assert (await stored_job(store, other)).blocked_by == 1
        await end(store, two)
        assert ids_of(await claim_jobs(store)) == [job.id]

    @pytest.mark.parametrize("edge", Edge)
    @pytest.mark.parametrize(("outcome", "frees"), ENDS)
    async def test_a_job_waits_for_the_holder_of_a_key_in_place_of_one_not_added(
        self, store: Store, outcome: Outcome, frees: frozenset[Edge], edge: Edge
    ) -> None:
        holder = await run_job(store, a_job(unique="key"))
        double, other = a_job(unique="key"), a_job(due_at=NOW + MINUTE)
        job = after(double, other, on=edge)
        answers = await store.enqueue([double, other, job])
        assert [answer.id for answer in answers] == [holder.id, other.id, job.id]
        waiting = await stored_job(store, job)
        assert (waiting.after, waiting.blocked_by) == ((holder.id, other.id), 2)
        ends = None if edge is Edge.SUCCESS else {holder.id: edge, other.id: edge}
        assert waiting.edges == ends
        await end(store, holder, outcome)
        state = JobState.WAITING if edge in frees else JobState.CANCELLED
        ended = await stored_job(store, job)
        assert (ended.state, ended.blocked_by) == (state, int(edge in frees))

    async def test_a_call_may_repeat_a_key_that_a_later_job_waits_for(self, store: Store) -> None:
        first, double = a_job(unique="key"), a_job(unique="key")
        job, both = after(double), after(first, double)
        for _ in range(2):  # an answer that was lost
            await store.enqueue([first, double, job, both])
            for one in (job, both):
                waiting = await stored_job(store, one)
                assert (waiting.after, waiting.blocked_by) == ((first.id,), 1)
        await end(store, (await claim_jobs(store))[0])
        assert ids_of(await claim_jobs(store)) == [job.id, both.id]

    async def test_an_ended_job_that_holds_its_key_frees_at_once(self, store: Store) -> None:
        holder = await run_job(store, a_job(unique="key", unique_for=HOUR))
        await end(store, holder)
        double = a_job(unique="key")
        job = after(double)
        await store.enqueue([double, job])
        stored = await stored_job(store, job)
        assert (stored.after, stored.blocked_by) == ((holder.id,), 0)
        assert ids_of(await claim_jobs(store)) == [job.id]

    async def test_what_a_repeated_call_has_stored_waits_for_no_later_holder(
        self, store: Store
    ) -> None:
        holder = await run_job(store, a_job(unique="key"))
        double = a_job(unique="key")
        job = after(double)
        await store.enqueue([double, job])
        await end(store, holder)
        await store.enqueue([a_job(unique="key", due_at=NOW + MINUTE)])
        await store.enqueue([double, job])
        stored = await stored_job(store, job)
        assert (stored.after, stored.blocked_by) == ((holder.id,), 0)

    async def test_two_ends_of_one_holder_are_refused(self, store: Store) -> None:
        holder = a_job(unique="key")
        await store.enqueue([holder])
        double = a_job(unique="key")
        job = a_job(after=(holder.id, double.id), edges={double.id: Edge.FAILURE})
        with pytest.raises(Invalid, match="two ends"):
            await store.enqueue([double, job])
        assert await store.job(job.id) is None

    async def test_edges_and_names_are_stored(self, store: Store) -> None:
        head = a_job(name="head")
        job = after(head, on=Edge.END, name="tail")
        await store.enqueue([head, job])
        stored = await stored_job(store, job)
        assert (stored.edges, stored.name) == ({head.id: Edge.END}, "tail")
        assert await store.jobs_by_id([head.id, job.id]) == {
            head.id: await stored_job(store, head),
            job.id: stored,
        }

    @pytest.mark.parametrize("edge", Edge)
    async def test_two_settlers_free_a_job_once(self, store: Store, edge: Edge) -> None:
        outcome = FAILURE if edge is Edge.FAILURE else SUCCESS
        for _ in range(ROUNDS):
            heads = [await run_job(store, a_job()) for _ in range(2)]
            job = after(*heads, on=edge)
            await store.enqueue([job])
            await asyncio.gather(*(store.settle([a_settlement(one, outcome)]) for one in heads))
            assert ids_of(await claim_jobs(store)) == [job.id]

    async def test_of_two_settlers_the_one_that_cancels_wins(self, store: Store) -> None:
        for _ in range(ROUNDS):
            good, bad = [await run_job(store, a_job()) for _ in range(2)]
            job = after(good, bad)
            await store.enqueue([job])
            await asyncio.gather(
                store.settle([a_settlement(good)]), store.settle([a_settlement(bad, FAILURE)])
            )
            assert await states(store, job) == [JobState.CANCELLED]
            assert await claim_jobs(store) == ()

    async def test_a_repeated_enqueue_adds_no_wait(self, store: Store) -> None:
        head = await run_job(store, a_job())
        job = after(head, on=Edge.FAILURE)
        await store.enqueue([job])
        await store.enqueue([job])
        assert (await stored_job(store, job)).blocked_by == 1
        await end(store, head, FAILURE)
        assert ids_of(await claim_jobs(store)) == [job.id]

    @both_ways
    async def test_a_flow_that_is_copied_in_the_middle_goes_on(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        done = await end(source, await run_job(source, a_job()), FAILURE)
        gone, head = after(done), a_job()
        bad, lost = after(head, on=Edge.FAILURE), after(head)
        await source.enqueue([gone, head, bad, lost])
        await copy(source, target)
        assert (await stored_job(target, gone)).cause_id == done.id
        (again,) = await claim_jobs(target)
        await end(target, again, FAILURE)
        assert ids_of(await claim_jobs(target)) == [bad.id]
        assert (await stored_job(target, lost)).cause_id == head.id
        await target.retry([done.id], NOW)
        assert (await stored_job(target, gone)).blocked_by == 1


class RetriedFlowContract:
    async def test_a_retry_brings_back_what_was_cancelled_with_the_job(self, store: Store) -> None:
        head = await run_job(store, a_job())
        second = after(head)
        third = after(second)
        repair = after(head, on=Edge.FAILURE)
        await store.enqueue([second, third, repair])
        await end(store, head, FAILURE)
        await store.retry([head.id], NOW)
        assert await states(store, head, second, third) == [JobState.WAITING] * 3
        assert (await stored_job(store, third)).cause_id is None
        claimed = await claim_jobs(store)
        assert {*ids_of(claimed)} == {head.id, repair.id}
        for job in claimed:
            await end(store, job)
        for job in (second, third):
            (one,) = await claim_jobs(store)
            assert one.id == job.id
            await end(store, one)

    async def test_what_comes_back_with_a_job_keeps_its_own_times(self, store: Store) -> None:
        head = await run_job(store, a_job())
        times = {"due_at": NOW + HOUR, "expires_at": NOW + 2 * HOUR, "start_by": NOW + 2 * HOUR}
        later = replace(after(head), **times)
        past = replace(after(head), expires_at=NOW + SECOND, start_by=NOW + SECOND)
        await store.enqueue([later, past])
        await end(store, head, FAILURE)
        at = NOW + MINUTE
        await store.retry([head.id], at)
        stored = await stored_job(store, later)
        assert {name: getattr(stored, name) for name in times} == times
        assert (await stored_job(store, past)).due_at == at
        assert (await stored_job(store, past)).expires_at is None
        (again,) = await claim_jobs(store, now=at)
        await end(store, again, SUCCESS, at)
        assert ids_of(await claim_jobs(store, now=at)) == [past.id]
        assert [job.id for job in await store.overdue_jobs(NOW + DAY, 10)] == [later.id]

    async def test_a_retry_may_be_of_jobs_with_their_own_times(self, store: Store) -> None:
        begun = await end(store, await run_job(store, a_job()), FAILURE)
        later = a_job(due_at=NOW + HOUR)
        await store.enqueue([later])
        await store.cancel([later.id], "by hand", NOW)
        await store.retry([begun.id, later.id], NOW + MINUTE, at_once=False)
        assert (await stored_job(store, begun)).due_at == NOW + MINUTE
        assert (await stored_job(store, later)).due_at == NOW + HOUR

    async def test_a_retry_may_leave_the_dependents(self, store: Store) -> None:
        head = await run_job(store, a_job())
        second = after(head)
        await store.enqueue([second])
        await end(store, head, FAILURE)
        await store.retry([head.id], NOW, dependents=False)
        assert await states(store, head, second) == [JobState.WAITING, JobState.CANCELLED]
        await store.retry([second.id], NOW)
        assert (await stored_job(store, second)).blocked_by == 1

    async def test_what_another_failure_still_prevents_comes_back_with_that_one(
        self, store: Store
    ) -> None:
        one, two = [await run_job(store, a_job()) for _ in range(2)]
        both = after(one, two)
        last = after(both)
        await store.enqueue([both, last])
        await end(store, one, FAILURE)
        await end(store, two, FAILURE)
        await store.retry([one.id], NOW)
        assert await states(store, both, last) == [JobState.CANCELLED] * 2
        assert (await stored_job(store, both)).cause_id == two.id
        await store.retry([two.id], NOW)
        assert (await stored_job(store, both)).blocked_by == 2
        assert (await stored_job(store, last)).blocked_by == 1

    async def test_a_diamond_comes_back_whole(self, store: Store) -> None:
        top = await run_job(store, a_job())
        left, right = after(top), after(top)
        middle = after(right)
        bottom = after(left, middle)
        await store.enqueue([left, right, middle, bottom])
        await end(store, top, FAILURE)
        await store.retry([top.id], NOW)
        assert await count(store, JobState.WAITING) == 5
        assert (await stored_job(store, bottom)).blocked_by == 2

    async def test_of_too_many_the_rest_comes_back_later(self, store: Store) -> None:
        head = await run_job(store, a_job())
        await store.enqueue([after(head) for _ in range(DEPENDENTS_MAX + 1)])
        await end(store, head, FAILURE)
        await settle_cascades(store)
        await store.retry([head.id], NOW)
        await settle_cascades(store)
        assert await count(store, JobState.WAITING) == DEPENDENTS_MAX + 2
        (again,) = await claim_jobs(store)
        await end(store, again, FAILURE)
        await settle_cascades(store)
        assert await count(store, JobState.CANCELLED) == DEPENDENTS_MAX + 1

    async def test_what_came_back_is_no_longer_the_effect_of_its_cause(self, store: Store) -> None:
        head = await run_job(store, a_job())
        second = after(head)
        await store.enqueue([second])
        await end(store, head, FAILURE)
        await store.retry([head.id], NOW)
        await store.cancel([second.id], "by hand", NOW)
        (again,) = await claim_jobs(store)
        await end(store, again, FAILURE)
        await store.retry([head.id], NOW)
        assert await states(store, second) == [JobState.CANCELLED]

    async def test_no_dependent_is_pruned_into_the_way(self, store: Store) -> None:
        head = await end(store, await run_job(store, a_job()), FAILURE)
        second = after(head)
        await store.enqueue([second])
        await store.prune(finished_before=NOW + MINUTE, failed_before=NOW, limit=100)
        (back,) = await store.retry([head.id], NOW)
        assert back is not None
        assert await store.job(JobId(second.id)) is None
