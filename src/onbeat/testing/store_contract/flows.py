"""Flows: jobs that wait until no live job is a member, however that comes about."""

import asyncio
from typing import Any, Final

import pytest
from msgspec.structs import replace

from onbeat.model.ids import JobId
from onbeat.model.job import Edge, Job, JobState
from onbeat.model.outcome import Cancelled, Outcome
from onbeat.model.page import JobFilter
from onbeat.ports.store import SentJobs, Store
from onbeat.testing.build import MINUTE, NOW, SECOND, a_job, an_id
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
    run_and_end,
    run_job,
    stored_job,
)

ENDS: Final[tuple[tuple[Outcome, frozenset[Edge]], ...]] = (
    (SUCCESS, frozenset({Edge.SUCCESS, Edge.END})),
    (FAILURE, frozenset({Edge.FAILURE, Edge.END})),
    (Cancelled("enough"), frozenset({Edge.END})),
)
"""How one member ends while the others succeed, and the edges to the flow that this frees."""
ROUNDS: Final = 5


def a_flow(count: int = 2, **fields: Any) -> list[Job]:
    """Members of a new flow."""
    flow = JobId(an_id())
    return [a_job(flow=flow, **fields) for _ in range(count)]


def last_of(flow: JobId | None, on: Edge = Edge.SUCCESS, **fields: Any) -> Job:
    """A job that waits for the end of the flow."""
    assert flow is not None
    return a_job(awaits_flow=flow, edges={flow: on}, flow=JobId(an_id()), **fields)


async def close(store: Store) -> int:
    closed = 0
    while count := await store.close_flows(NOW):
        closed += count
    return closed


class FlowContract:
    @pytest.mark.parametrize("edge", Edge)
    @pytest.mark.parametrize(("outcome", "frees"), ENDS)
    async def test_the_end_of_a_flow_frees_who_wants_it_and_cancels_the_others(
        self, store: Store, outcome: Outcome, frees: frozenset[Edge], edge: Edge
    ) -> None:
        one, two = a_flow()
        last = last_of(one.flow, edge)
        await store.enqueue([one, two, last])
        assert (await stored_job(store, last)).blocked_by == 1
        claimed = await claim_jobs(store)
        assert {*ids_of(claimed)} == {one.id, two.id}
        await end(store, claimed[0], outcome)
        assert await close(store) == 0
        await end(store, claimed[1])
        assert await close(store) == 1
        if edge in frees:
            assert ids_of(await claim_jobs(store)) == [last.id]
        else:
            stored = await stored_job(store, last)
            assert (stored.state, stored.cause_id) == (JobState.CANCELLED, one.flow)

    async def test_what_comes_after_the_last_is_cancelled_with_it(self, store: Store) -> None:
        (one,) = a_flow(1)
        last = last_of(one.flow)
        more = a_job(after=(last.id,))
        await store.enqueue([one, last, more])
        (running,) = await claim_jobs(store)
        await end(store, running, FAILURE)
        await close(store)
        assert (await stored_job(store, more)).cause_id == last.id

    async def test_a_branch_that_was_not_taken_is_no_failure(self, store: Store) -> None:
        (one,) = a_flow(1)
        repair = a_job(after=(one.id,), edges={one.id: Edge.FAILURE}, flow=one.flow)
        last = last_of(one.flow)
        await store.enqueue([one, repair, last])
        (running,) = await claim_jobs(store)
        await end(store, running)
        await close(store)
        assert ids_of(await claim_jobs(store)) == [last.id]

    async def test_the_sender_is_a_member_while_it_sends(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        sent = a_job(flow=sender.id)
        last = last_of(sender.id)
        await store.enqueue_from(
            [SentJobs(sender=sender.id, token=sender.token, jobs=(sent, last))]
        )
        (running,) = await claim_jobs(store)
        await end(store, running)
        assert await close(store) == 0
        await end(store, sender)
        assert await close(store) == 1
        assert ids_of(await claim_jobs(store)) == [last.id]

    async def test_a_sender_that_fails_fails_its_flow(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        good, bad = last_of(sender.id), last_of(sender.id, Edge.FAILURE)
        await store.enqueue_from([SentJobs(sender=sender.id, token=sender.token, jobs=(good, bad))])
        await end(store, sender, FAILURE)
        assert await close(store) == 2
        assert ids_of(await claim_jobs(store)) == [bad.id]

    async def test_a_job_that_sends_into_its_flow_keeps_it_open(self, store: Store) -> None:
        (one,) = a_flow(1)
        last = last_of(one.flow)
        await store.enqueue([one, last])
        (running,) = await claim_jobs(store)
        more = a_job(flow=one.flow)
        await store.enqueue_from([SentJobs(sender=one.id, token=running.token, jobs=(more,))])
        await end(store, running)
        assert await close(store) == 0
        (running,) = await claim_jobs(store)
        await end(store, running)
        assert await close(store) == 1

    async def test_two_last_jobs_that_end_at_once_close_it(self, store: Store) -> None:
        for _ in range(ROUNDS):
            one, two = a_flow()
            last = last_of(one.flow)
            await store.enqueue([one, two, last])
            claimed = await claim_jobs(store)
            await asyncio.gather(*(store.settle([a_settlement(job)]) for job in claimed))
            await asyncio.gather(*(store.close_flows(NOW) for _ in range(4)))
            await close(store)
            (running,) = await claim_jobs(store)
            assert running.id == last.id
            await end(store, running)

    async def test_a_repeated_enqueue_waits_once(self, store: Store) -> None:
        (one,) = a_flow(1)
        last = last_of(one.flow)
        for _ in range(2):
            await store.enqueue([one, last])
        assert (await stored_job(store, last)).blocked_by == 1

    async def test_a_last_job_that_was_cancelled_may_be_tried_again(self, store: Store) -> None:
        (one,) = a_flow(1)
        last = last_of(one.flow)
        await store.enqueue([one, last])
        await store.cancel([last.id], "by hand", NOW)
        await store.retry([last.id], NOW)
        assert (await stored_job(store, last)).blocked_by == 1
        await store.cancel([last.id], "by hand", NOW)
        (running,) = await claim_jobs(store)
        await end(store, running)
        await close(store)
        await store.retry([last.id], NOW)
        assert ids_of(await claim_jobs(store)) == [last.id]

    async def test_members_are_counted_and_listed(self, store: Store) -> None:
        members = a_flow(5)
        flow = members[0].flow
        assert flow is not None
        await store.enqueue([*members, a_job(due_at=NOW + MINUTE)])
        claimed = await claim_jobs(store, limit=3)
        await end(store, claimed[0])
        await end(store, claimed[1], FAILURE)
        assert (await store.flow_counts([flow]))[flow] == {
            JobState.WAITING: 2,
            JobState.RUNNING: 1,
            JobState.SUCCEEDED: 1,
            JobState.FAILED: 1,
        }
        assert (await stored_job(store, claimed[0])).flow == flow
        page = await store.jobs(JobFilter(flow=flow, state=JobState.WAITING, limit=1))
        assert len(page.items) == 1
        rest = JobFilter(flow=flow, state=JobState.WAITING, before=page.items[0].id)
        assert len((await store.jobs(rest)).items) == 1
        failed = await store.jobs(JobFilter(flow=flow, state=JobState.FAILED))
        assert [job.id for job in failed.items] == [claimed[1].id]

    async def test_flows_are_listed_newest_first(self, store: Store) -> None:
        flows = [a_flow(3) for _ in range(3)]
        for members in flows:
            await store.enqueue(members)
        ids = sorted((str(members[0].flow) for members in flows), reverse=True)
        found = await store.newest_flows(None, 2, 10)
        assert [one.flow for one in found] == ids[:2]
        assert [dict(one.counts) for one in found] == 2 * [{JobState.WAITING: 3}]
        rest = await store.newest_flows(found[-1].flow, 2, 10)
        assert [one.flow for one in rest] == ids[2:]
        assert await store.newest_flows(rest[-1].flow, 2, 10) == []

    async def test_a_listed_flow_is_looked_at_within_bounds(self, store: Store) -> None:
        members = a_flow(6)
        await store.enqueue(members)
        claimed = await claim_jobs(store, limit=3)
        await end(store, claimed[0])
        await end(store, claimed[1], FAILURE)
        (whole,) = await store.newest_flows(None, 5, 4)
        assert dict(whole.counts) == {
            JobState.WAITING: 3,
            JobState.RUNNING: 1,
            JobState.SUCCEEDED: 1,
            JobState.FAILED: 1,
        }
        assert not whole.more
        (part,) = await store.newest_flows(None, 5, 1)
        assert part.more
        assert sum(part.counts.values()) == 4, "two live ones and two that ended"

    async def test_jobs_without_a_flow_are_in_no_list_of_flows(self, store: Store) -> None:
        await store.enqueue([a_job()])
        assert await store.newest_flows(None, 5, 5) == []

    @pytest.mark.parametrize("edge", [Edge.SUCCESS, Edge.END])
    @pytest.mark.parametrize(("outcome", "frees"), ENDS)
    async def test_the_end_of_a_flow_waits_for_the_holder_of_a_members_key(
        self, store: Store, outcome: Outcome, frees: frozenset[Edge], edge: Edge
    ) -> None:
        holder = await run_job(store, a_job(unique="key"))
        one, two = a_flow()
        one = replace(one, unique="key")
        last = last_of(one.flow, edge)
        for _ in range(2):  # an answer that was lost
            await store.enqueue([last, one, two])
            assert (await stored_job(store, last)).blocked_by == 2
        (running,) = await claim_jobs(store)
        await end(store, running)
        assert await close(store) == 1
        waiting = await stored_job(store, last)
        assert (waiting.after, waiting.blocked_by) == ((holder.id,), 1)
        await end(store, holder, outcome)
        ended = await stored_job(store, last)
        if edge in frees:
            assert ids_of(await claim_jobs(store)) == [last.id]
        else:
            assert (ended.state, ended.cause_id) == (JobState.CANCELLED, holder.id)

    async def test_what_a_running_job_sends_waits_for_the_holder_of_a_members_key(
        self, store: Store
    ) -> None:
        holder = await run_job(store, a_job(unique="key"))
        sender = await run_job(store, a_job())
        double = a_job(flow=sender.id, unique="key")
        last = last_of(sender.id)
        sent = SentJobs(sender=sender.id, token=sender.token, jobs=(double, last))
        for _ in range(2):
            assert list(await store.enqueue_from([sent])) == [True]
        await end(store, sender)
        assert await close(store) == 1
        assert (await stored_job(store, last)).after == (holder.id,)
        assert await claim_jobs(store) == ()
        await end(store, holder)
        assert ids_of(await claim_jobs(store)) == [last.id]

    async def test_the_failure_of_a_flow_is_one_of_its_own_members(self, store: Store) -> None:
        holder = await run_job(store, a_job(unique="key"))
        one, two = a_flow()
        last = last_of(one.flow, Edge.FAILURE)
        await store.enqueue([replace(one, unique="key"), two, last])
        (running,) = await claim_jobs(store)
        await end(store, running, FAILURE)
        await close(store)
        assert ids_of(await claim_jobs(store)) == [last.id]
        assert (await stored_job(store, holder)).state is JobState.RUNNING

    async def test_members_with_one_key_hold_up_no_job_twice(self, store: Store) -> None:
        one, double = a_flow(unique="key")
        last = last_of(one.flow)
        await store.enqueue([last, one, double])
        waiting = await stored_job(store, last)
        assert (waiting.after, waiting.blocked_by) == ((), 1)
        (running,) = await claim_jobs(store)
        await end(store, running)
        assert await close(store) == 1
        assert ids_of(await claim_jobs(store)) == [last.id]

    async def test_a_key_that_is_held_by_an_ended_job_holds_up_no_flow(self, store: Store) -> None:
        holder = await run_and_end(store, a_job(unique="key", unique_for=MINUTE))
        one, two = a_flow()
        last = last_of(one.flow)
        await store.enqueue([replace(one, unique="key"), two, last])
        waiting = await stored_job(store, last)
        assert (waiting.after, waiting.blocked_by) == ((holder.id,), 1)

    async def test_a_holder_that_was_pruned_holds_up_no_flow(self, store: Store) -> None:
        await run_and_end(store, a_job(unique="key", unique_for=MINUTE))
        assert await store.prune(finished_before=NOW + SECOND, failed_before=NOW, limit=10) == 1
        one, two = a_flow()
        last = last_of(one.flow)
        await store.enqueue([replace(one, unique="key"), two, last])
        waiting = await stored_job(store, last)
        assert (waiting.after, waiting.blocked_by) == ((), 1)

    @pytest.mark.parametrize("again", [SUCCESS, FAILURE])
    async def test_a_last_job_comes_back_with_the_member_that_failed(
        self, store: Store, again: Outcome
    ) -> None:
        one, two = a_flow()
        last = last_of(one.flow)
        more = a_job(after=(last.id,))
        await store.enqueue([one, two, last, more])
        first, second = await claim_jobs(store)
        await end(store, first, FAILURE)
        await end(store, second)
        await close(store)
        await store.retry([first.id], NOW)
        assert (await stored_job(store, last)).blocked_by == 1
        assert (await stored_job(store, more)).blocked_by == 1
        step = (await store.transitions(last.id))[-1]
        assert (step.to, step.cause) == ("retried", f"with flow {one.flow}")
        assert await close(store) == 0
        (running,) = await claim_jobs(store)
        await end(store, running, again)
        assert await close(store) == 1
        freed = [last.id] if again == SUCCESS else []
        assert ids_of(await claim_jobs(store)) == freed

    async def test_another_member_that_failed_cancels_the_last_job_again(
        self, store: Store
    ) -> None:
        one, two = a_flow()
        last, alarm = last_of(one.flow), last_of(one.flow, Edge.FAILURE)
        await store.enqueue([one, two, last, alarm])
        for job in await claim_jobs(store):
            await end(store, job, FAILURE)
        await close(store)
        (ran,) = await claim_jobs(store)
        await end(store, ran)
        await store.retry([one.id], NOW)
        (running,) = await claim_jobs(store)
        await end(store, running)
        assert await close(store) == 1
        stored = await stored_job(store, last)
        assert (stored.state, stored.cause_id) == (JobState.CANCELLED, one.flow)
        assert (await stored_job(store, alarm)).state is JobState.SUCCEEDED
        assert ran.id == alarm.id

    async def test_a_last_job_stays_where_its_member_is_retried_alone(self, store: Store) -> None:
        (one,) = a_flow(1)
        last = last_of(one.flow)
        await store.enqueue([one, last])
        (running,) = await claim_jobs(store)
        await end(store, running, FAILURE)
        await close(store)
        await store.retry([one.id], NOW, dependents=False)
        assert (await stored_job(store, last)).state is JobState.CANCELLED

    @both_ways
    async def test_a_copied_flow_goes_on(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        one, two = a_flow()
        last = last_of(one.flow)
        await source.enqueue([one, two, last])
        await source.cancel([two.id], "by hand", NOW)
        await source.retry([two.id], NOW)
        for _ in range(2):
            await copy(source, target)
        assert (await stored_job(target, last)).blocked_by == 1
        for running in await claim_jobs(target):
            await end(target, running)
        assert await close(target) == 1
        assert ids_of(await claim_jobs(target)) == [last.id]
