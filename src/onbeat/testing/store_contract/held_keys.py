"""Unique keys that jobs with `unique_for` hold after their end."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.model.errors import Conflict
from onbeat.model.held_key import ALWAYS, HeldKey
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Cancelled, Outcome, Snoozed
from onbeat.ports.store import Enqueued, Store
from onbeat.testing.build import DAY, HOUR, MINUTE, NOW, TICK, a_job
from onbeat.testing.store_contract.fan_out import sent_by
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    PASSING_FAILURE,
    SUCCESS,
    a_settlement,
    claim_jobs,
    end,
    run_and_end,
    run_job,
    stored_job,
)

SENDERS = 8
ROUNDS = 10


def a_holder(span: timedelta = DAY, **fields: Any) -> Job:
    return a_job(unique="key", unique_for=span, **fields)


def a_rival(at: datetime = NOW, **fields: Any) -> Job:
    """Another job with the same key, sent at this instant."""
    return a_job(unique="key", created_at=at, due_at=at, **fields)


async def is_duplicate_of(store: Store, holder: Job, rival: Job) -> bool:
    (answer,) = await store.enqueue([rival])
    assert answer.created == (await store.job(rival.id) is not None)
    return answer == Enqueued(holder.id, created=False)


class HeldKeyContract:
    @pytest.mark.parametrize("outcome", [SUCCESS, FAILURE, Cancelled("enough")])
    async def test_a_job_holds_its_key_after_any_end_of_an_attempt(
        self, store: Store, outcome: Outcome
    ) -> None:
        holder = await run_and_end(store, a_holder(), outcome)
        assert await is_duplicate_of(store, holder, a_rival(NOW + DAY - TICK))
        assert await store.held_key("key", NOW) == HeldKey(
            key="key", job_id=holder.id, until=NOW + DAY
        )

    async def test_the_key_is_free_at_the_end_of_the_span(self, store: Store) -> None:
        await run_and_end(store, a_holder())
        rival = a_rival(NOW + DAY)
        assert list(await store.enqueue([rival])) == [Enqueued(rival.id, created=True)]
        assert await store.held_key("key", NOW + DAY) is None

    async def test_a_key_may_be_held_for_ever(self, store: Store) -> None:
        holder = await run_and_end(store, a_holder(ALWAYS))
        assert await is_duplicate_of(store, holder, a_rival(NOW + 10_000 * DAY))
        assert await store.prune_held_keys(NOW + 10_000 * DAY, 100) == 0
        held = await store.held_key("key", NOW)
        assert held is not None
        assert held.until is None

    async def test_a_stored_job_keeps_its_span(self, store: Store) -> None:
        for span in (TICK, 31 * DAY, ALWAYS):
            job = a_job(unique=str(span), unique_for=span)
            await store.enqueue([job])
            assert (await stored_job(store, job)).unique_for == span

    async def test_a_key_without_a_span_is_free_at_once(self, store: Store) -> None:
        await run_and_end(store, a_job(unique="key"))
        rival = a_rival()
        assert list(await store.enqueue([rival])) == [Enqueued(rival.id, created=True)]

    async def test_a_job_cancelled_before_its_start_holds_nothing(self, store: Store) -> None:
        job = a_holder()
        await store.enqueue([job])
        await store.cancel([job.id], "not needed", NOW)
        assert await store.held_key("key", NOW) is None

    async def test_a_job_cancelled_between_attempts_holds_its_key(self, store: Store) -> None:
        job = await run_and_end(store, a_holder(retry=IN_A_MINUTE), PASSING_FAILURE)
        await store.cancel([job.id], "enough", NOW + HOUR)
        held = await store.held_key("key", NOW + DAY)
        assert held == HeldKey(key="key", job_id=job.id, until=NOW + HOUR + DAY)

    async def test_a_cancel_request_that_no_attempt_saw_holds_the_key(self, store: Store) -> None:
        job = await run_job(store, a_holder())
        await store.cancel([job.id], "enough", NOW)
        await store.settle([a_settlement(job, Snoozed(MINUTE))])
        assert (await stored_job(store, job)).state is JobState.CANCELLED
        assert await is_duplicate_of(store, job, a_rival())

    async def test_a_job_cancelled_by_its_condition_holds_nothing(self, store: Store) -> None:
        job = await run_and_end(store, a_holder(), Cancelled("not now", unstarted=True))
        assert (job.attempt, job.started_at) == (0, None)
        assert len(await store.attempts(job.id)) == 1
        assert await store.held_key("key", NOW) is None

    async def test_a_job_that_was_put_off_and_expires_holds_nothing(self, store: Store) -> None:
        job = await run_job(store, a_holder(expires_at=NOW + MINUTE, start_by=NOW + MINUTE))
        again = await end(store, job, Snoozed(MINUTE, "not now", unstarted=True))
        assert (again.attempt, again.started_at) == (0, None)
        await store.cancel_overdue([job.id], "expired", NOW + HOUR)
        assert (await stored_job(store, job)).state is JobState.CANCELLED
        assert await store.held_key("key", NOW) is None

    async def test_a_job_cancelled_by_its_condition_after_an_attempt_holds_its_key(
        self, store: Store
    ) -> None:
        await run_and_end(store, a_holder(retry=IN_A_MINUTE), PASSING_FAILURE)
        (claimed,) = await claim_jobs(store, now=NOW + HOUR)
        await end(store, claimed, Cancelled("not now", unstarted=True), NOW + HOUR)
        held = await store.held_key("key", NOW + DAY)
        assert held == HeldKey(key="key", job_id=claimed.id, until=NOW + HOUR + DAY)

    async def test_a_postponed_job_holds_its_key_only_as_a_live_one(self, store: Store) -> None:
        job = await run_job(store, a_holder())
        await store.settle([a_settlement(job, Snoozed(MINUTE))])
        assert await store.held_key("key", NOW) is None
        assert await is_duplicate_of(store, job, a_rival())

    async def test_a_settlement_after_a_lost_lease_holds_nothing(self, store: Store) -> None:
        job = await run_job(store, a_holder())
        stale = a_settlement(replace(job, token=job.token + 1))
        assert list(await store.settle([stale])) == [False]
        assert await store.held_key("key", NOW) is None

    async def test_a_late_settlement_does_not_hold_the_key_again(self, store: Store) -> None:
        job = await run_job(store, a_holder())
        await end(store, job, FAILURE)
        late = a_settlement(job, SUCCESS, NOW + HOUR)
        assert list(await store.settle([late])) == [False]
        held = await store.held_key("key", NOW)
        assert held is not None
        assert held.until == NOW + DAY

    async def test_many_jobs_hold_keys_in_one_call(self, store: Store) -> None:
        jobs = [a_job(unique=f"{n}", unique_for=DAY if n % 2 else None) for n in range(20)]
        await store.enqueue(jobs)
        await store.settle([a_settlement(job) for job in await claim_jobs(store)])
        rivals = [a_rival(), *(a_job(unique=f"{n}") for n in range(20))]
        answers = await store.enqueue(rivals)
        assert [answer.created for answer in answers] == [True] + [True, False] * 10
        assert [answer.id for answer in answers[2::2]] == [job.id for job in jobs[1::2]]

    async def test_a_job_sent_again_after_its_end_is_not_its_own_duplicate(
        self, store: Store
    ) -> None:
        job = a_holder()
        await run_and_end(store, job)
        assert list(await store.enqueue([job])) == [Enqueued(job.id, created=True)]
        assert (await stored_job(store, job)).state is JobState.SUCCEEDED

    async def test_the_holder_can_be_retried(self, store: Store) -> None:
        job = await run_and_end(store, a_holder(), FAILURE)
        (again,) = await store.retry([job.id], NOW + HOUR)
        assert again is not None
        assert again.state is JobState.WAITING
        assert await is_duplicate_of(store, job, a_rival(NOW + HOUR))
        (claimed,) = await claim_jobs(store, now=NOW + HOUR)
        await end(store, claimed, SUCCESS, NOW + HOUR)
        held = await store.held_key("key", NOW)
        assert held == HeldKey(key="key", job_id=job.id, until=NOW + HOUR + DAY)

    async def test_a_job_whose_key_another_one_holds_cannot_be_retried(self, store: Store) -> None:
        first = await run_and_end(store, a_job(unique="key"), FAILURE)
        await run_and_end(store, a_holder())
        with pytest.raises(Conflict, match="holds the unique key"):
            await store.retry([first.id], NOW)
        (again,) = await store.retry([first.id], NOW + DAY)
        assert again is not None
        assert again.state is JobState.WAITING

    async def test_a_held_key_leaves_out_what_a_running_job_sends(self, store: Store) -> None:
        holder = await run_and_end(store, a_holder())
        sender = await run_job(store, a_job())
        rival, other = a_rival(), a_job(unique="free")
        assert list(await store.enqueue_from([sent_by(sender, rival, other)])) == [True]
        assert await store.job(rival.id) is None
        assert await store.job(other.id) is not None
        assert holder.id != other.id

    async def test_a_job_that_waits_for_a_duplicate_waits_for_nothing_new(
        self, store: Store
    ) -> None:
        holder = await run_and_end(store, a_holder())
        after = a_job(after=(holder.id,))
        await store.enqueue([after])
        assert (await stored_job(store, after)).blocked_by == 0

    async def test_past_keys_are_pruned(self, store: Store) -> None:
        jobs = [a_job(unique=f"{n}", unique_for=DAY) for n in range(3)]
        await store.enqueue(jobs)
        await store.settle([a_settlement(job) for job in await claim_jobs(store)])
        assert await store.prune_held_keys(NOW + DAY - TICK, 100) == 0
        assert await store.prune_held_keys(NOW + DAY, 2) == 2
        assert await store.prune_held_keys(NOW + DAY, 2) == 1

    async def test_keys_are_exported_in_pages_and_imported(self, store: Store) -> None:
        keys = [HeldKey(key=f"{n}", job_id=a_job().id, until=NOW) for n in range(5)]
        assert await store.import_held_keys(keys) == 5
        assert await store.import_held_keys(keys) == 0
        first = await store.export_held_keys(None, 3)
        rest = await store.export_held_keys(first[-1].key, 3)
        assert [*first, *rest] == keys
        longer = [replace(keys[0], until=None), replace(keys[1], until=NOW - TICK)]
        assert await store.import_held_keys(longer) == 1
        assert await store.import_held_keys(keys) == 0

    async def test_senders_that_race_with_the_end_of_the_holder_add_nothing(
        self, store: Store
    ) -> None:
        for number in range(ROUNDS):
            job = a_job(unique=f"key {number}", unique_for=DAY)
            holder = await run_job(store, job)
            rivals = [a_job(unique=f"key {number}") for _ in range(SENDERS)]
            settled, *answers = await asyncio.gather(
                store.settle([a_settlement(holder)]), *(store.enqueue([one]) for one in rivals)
            )
            assert list(settled) == [True]
            assert {tuple(one) for one in answers} == {(Enqueued(holder.id, created=False),)}
