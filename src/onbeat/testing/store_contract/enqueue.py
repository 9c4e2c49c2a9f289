"""New jobs: stored completely, once for each unique key, and after their predecessors."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import Edge, Job, JobState
from onbeat.model.outcome import Outcome, Released, Succeeded
from onbeat.model.page import JobFilter
from onbeat.model.retry import Backoff, RetryPolicy
from onbeat.model.schedule import Overlap
from onbeat.model.target import HandlerTarget, HttpTarget
from onbeat.ports.store import Enqueued, Store
from onbeat.testing.build import DAY, HOUR, MINUTE, NOW, TICK, a_job, a_schedule, an_id
from onbeat.testing.store_contract.steps import (
    FAILURE,
    PASSING_FAILURE,
    a_cancelled_job,
    claim_jobs,
    end,
    ids_of,
    run_and_end,
    run_job,
    stored_job,
)

ODD_TEXTS = (
    "",
    " ",
    "it's",
    'say "so"',
    "back\\slash",
    "; DROP TABLE jobs; --",
    "%_?:name$1",
    "two\nlines\tand\rmore",
    "\x01\x1f\x7f",
    "snowman \u2603, separators \u2028\u2029, clef \U0001d11e",
    "\U0001f469\u200d\U0001f680 e\u0301 \ufeff",
    "null",
    "x" * 1_000,
)

INSTANTS = (
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1901, 3, 4, 5, 6, 7, 8, tzinfo=UTC),
    datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2100, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
)


def a_full_job(job: Job) -> Job:
    """A job with every field that a caller can set."""
    return msgspec.structs.replace(
        job,
        target=HandlerTarget("work", msgspec.Raw(b'[1,"two",null]'), msgspec.Raw(b'{"k":[{}]}')),
        queue="queue",
        priority=-7,
        unique="key",
        unique_for=31 * DAY,
        retry=RetryPolicy(
            attempts_max=9,
            backoff=Backoff.LINEAR,
            delay=timedelta(milliseconds=1),
            delay_max=DAY,
            jitter=False,
        ),
        timeout=timedelta(seconds=1.5),
        expires_at=NOW + DAY + TICK,
        start_by=NOW + HOUR + TICK,
        labels={"team": "blue", "": "empty"},
        schedule_id=a_schedule().id,
        occurrence=NOW - TICK,
        group="group",
        overlap=Overlap.WAIT,
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        tracestate="vendor=a:1;b:2,other@shop=x y",
    )


class EnqueueContract:
    async def test_an_enqueued_job_is_kept_as_it_was_given(self, store: Store) -> None:
        job = a_full_job(a_job())
        await store.enqueue([job])
        assert await store.job(job.id) == job

    @pytest.mark.parametrize("secret", [None, "one", ("one", "two")])
    async def test_a_callback_is_kept_as_it_was_given(
        self, store: Store, secret: str | tuple[str, ...] | None
    ) -> None:
        target = HttpTarget("https://example.org/?a=b", "POST", {"X-A": "1"}, "{}", secret)
        job = a_job(target=target)
        await store.enqueue([job])
        assert (await stored_job(store, job)).target == target
        (taken,) = await claim_jobs(store, lanes=frozenset({"@http"}))
        assert taken.target == target

    async def test_what_is_enqueued_is_still_there_after_close_and_open(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        await store.close()
        await store.open()
        assert await store.job(job.id) == job

    async def test_answers_come_in_the_order_of_the_jobs(self, store: Store) -> None:
        jobs = [a_job(), a_job(), a_job()][::-1]
        answers = await store.enqueue(jobs)
        assert list(answers) == [Enqueued(job.id, created=True) for job in jobs]

    async def test_no_jobs_are_enqueued_by_an_empty_call(self, store: Store) -> None:
        assert list(await store.enqueue([])) == []

    async def test_many_jobs_may_come_in_one_call(self, store: Store) -> None:
        jobs = [a_job() for _ in range(2_000)]
        await store.enqueue(jobs)
        assert ids_of(await claim_jobs(store, limit=2_000)) == ids_of(jobs)

    async def test_a_job_enqueued_again_is_not_doubled(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        (answer,) = await store.enqueue([job])
        assert answer.id == job.id
        assert len((await store.jobs(JobFilter())).items) == 1

    async def test_a_job_enqueued_again_goes_on_as_it_is(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.enqueue([msgspec.structs.replace(job, state=JobState.WAITING)])
        assert await stored_job(store, job) == job

    @pytest.mark.parametrize("text", ODD_TEXTS)
    async def test_odd_text_comes_back_as_it_went_in(self, store: Store, text: str) -> None:
        job = a_job(labels={"label": text, text: "key"}, unique=text or None)
        await store.enqueue([job])
        (answer,) = await store.cancel([job.id], text, NOW)
        assert answer is not None
        assert (answer.labels, answer.unique, answer.reason) == (job.labels, job.unique, text)

    @pytest.mark.parametrize("instant", INSTANTS, ids=str)
    async def test_an_instant_is_kept_to_the_microsecond(
        self, store: Store, instant: datetime
    ) -> None:
        job = a_job(due_at=instant, created_at=instant)
        await store.enqueue([job])
        assert await stored_job(store, job) == job


class UniqueContract:
    async def test_a_second_live_job_with_a_key_is_not_created(self, store: Store) -> None:
        first, second = a_job(unique="key"), a_job(unique="key")
        await store.enqueue([first])
        answers = await store.enqueue([second])
        assert list(answers) == [Enqueued(first.id, created=False)]
        assert await store.job(second.id) is None

    async def test_of_two_with_one_key_in_one_call_the_first_wins(self, store: Store) -> None:
        first, second = a_job(unique="key"), a_job(unique="key")
        answers = await store.enqueue([first, second])
        assert list(answers) == [
            Enqueued(first.id, created=True),
            Enqueued(first.id, created=False),
        ]

    async def test_other_keys_are_not_taken(self, store: Store) -> None:
        await store.enqueue([a_job(unique="key")])
        answers = await store.enqueue([a_job(unique="Key"), a_job(unique="key "), a_job()])
        assert [answer.created for answer in answers] == [True, True, True]

    async def test_a_running_job_holds_its_key(self, store: Store) -> None:
        await run_job(store, a_job(unique="key"))
        (answer,) = await store.enqueue([a_job(unique="key")])
        assert not answer.created

    async def test_a_job_that_waits_for_another_try_holds_its_key(self, store: Store) -> None:
        await run_and_end(store, a_job(unique="key"), PASSING_FAILURE)
        (answer,) = await store.enqueue([a_job(unique="key")])
        assert not answer.created

    @pytest.mark.parametrize("outcome", [Succeeded(), FAILURE], ids=["succeeded", "failed"])
    async def test_an_ended_job_frees_its_key(self, store: Store, outcome: Outcome) -> None:
        await run_and_end(store, a_job(unique="key"), outcome)
        (answer,) = await store.enqueue([a_job(unique="key")])
        assert answer.created

    async def test_a_cancelled_job_frees_its_key_at_once(self, store: Store) -> None:
        first, second = a_job(unique="key"), a_job(unique="key")
        await store.enqueue([first])
        await store.cancel([first.id], "by hand", NOW)
        (answer,) = await store.enqueue([second])
        assert answer == Enqueued(second.id, created=True)

    async def test_a_job_cancelled_with_another_frees_its_key(self, store: Store) -> None:
        first = a_job()
        await store.enqueue([first, a_job(unique="key", after=(first.id,))])
        await store.cancel([first.id], "by hand", NOW)
        (answer,) = await store.enqueue([a_job(unique="key")])
        assert answer.created

    async def test_a_job_that_is_cancelled_at_once_leaves_its_key_to_the_next_of_the_call(
        self, store: Store
    ) -> None:
        dead = await a_cancelled_job(store)
        first, second = (a_job(unique="key", after=(dead.id,)) for _ in range(2))
        third, double = a_job(unique="key"), a_job(unique="key")
        last = a_job(after=(third.id,))
        for _ in range(2):  # an answer that was lost
            answers = await store.enqueue([first, second, third, double, last])
            assert [answer.id for answer in answers] == [
                first.id, second.id, third.id, third.id, last.id,
            ]  # fmt: skip
        for job in (first, second):
            assert (await stored_job(store, job)).state is JobState.CANCELLED
        assert ids_of(await claim_jobs(store)) == [third.id]
        assert (await stored_job(store, last)).blocked_by == 1

    async def test_one_that_is_cancelled_with_a_job_of_the_call_leaves_its_key_too(
        self, store: Store
    ) -> None:
        dead, holder = await a_cancelled_job(store), await run_job(store, a_job(unique="other"))
        doomed, double = a_job(after=(dead.id,)), a_job(unique="other")
        first, second = a_job(unique="key", after=(doomed.id,)), a_job(unique="key")
        last = a_job(after=(double.id,))
        answers = await store.enqueue([doomed, double, first, second, last])
        assert [answer.created for answer in answers] == [True, False, True, True, True]
        assert ids_of(await claim_jobs(store)) == [second.id]
        waiting = await stored_job(store, last)
        assert (waiting.after, waiting.blocked_by) == ((holder.id,), 1)

    async def test_a_job_that_goes_on_keeps_its_key_from_the_next_of_the_call(
        self, store: Store
    ) -> None:
        dead, running = await a_cancelled_job(store), await run_job(store, a_job())
        first = a_job(unique="key", after=(running.id,))
        second = a_job(unique="more", after=(dead.id,), edges={dead.id: Edge.END})
        doubles = [a_job(unique="key"), a_job(unique="more")]
        answers = await store.enqueue([first, second, *doubles])
        assert [answer.id for answer in answers] == [first.id, second.id, first.id, second.id]

    async def test_a_caller_loses_no_job_to_one_of_another_that_is_cancelled_at_once(
        self, store: Store
    ) -> None:
        dead = await a_cancelled_job(store)
        doomed = [a_job(unique=f"key {n}", after=(dead.id,)) for n in range(20)]
        jobs = [a_job(unique=f"key {n}") for n in range(20)]
        calls = (store.enqueue([job]) for pair in zip(doomed, jobs, strict=True) for job in pair)
        answers = [answer for (answer,) in await asyncio.gather(*calls)]
        assert answers[1::2] == [Enqueued(job.id, created=True) for job in jobs]
        assert sorted(ids_of(await claim_jobs(store))) == sorted(job.id for job in jobs)


class AfterContract:
    async def test_a_job_is_blocked_by_all_that_it_waits_for(self, store: Store) -> None:
        first, second = a_job(), a_job()
        third = a_job(after=(first.id, second.id))
        await store.enqueue([first, second, third])
        assert (await stored_job(store, third)).blocked_by == 2

    async def test_success_of_the_last_frees_a_job(self, store: Store) -> None:
        first, second = a_job(), a_job()
        third = a_job(after=(first.id, second.id))
        await store.enqueue([first, second, third])
        jobs = await claim_jobs(store)
        await end(store, jobs[0])
        assert await claim_jobs(store) == ()
        await end(store, jobs[1])
        assert ids_of(await claim_jobs(store)) == [third.id]

    async def test_two_that_end_in_one_call_both_free(self, store: Store) -> None:
        first, second = await run_job(store, a_job()), await run_job(store, a_job())
        third = a_job(after=(first.id, second.id))
        await store.enqueue([third])
        await end(store, first)
        await end(store, second)
        assert ids_of(await claim_jobs(store)) == [third.id]

    async def test_a_job_named_twice_blocks_once(self, store: Store) -> None:
        first = await run_job(store, a_job())
        second = a_job(after=(first.id, first.id))
        await store.enqueue([second])
        await end(store, first)
        assert ids_of(await claim_jobs(store)) == [second.id]

    async def test_a_job_that_has_succeeded_blocks_nothing(self, store: Store) -> None:
        first = await run_and_end(store, a_job())
        second = a_job(after=(first.id,))
        await store.enqueue([second])
        assert ids_of(await claim_jobs(store)) == [second.id]

    async def test_a_job_that_is_tried_again_goes_on_blocking(self, store: Store) -> None:
        first = await run_job(store, a_job())
        second = a_job(after=(first.id,))
        await store.enqueue([second])
        await end(store, first, Released())
        assert (await stored_job(store, second)).blocked_by == 1

    async def test_failure_cancels_those_that_wait(self, store: Store) -> None:
        first = await run_job(store, a_job())
        second = a_job(after=(first.id,))
        await store.enqueue([second])
        await end(store, first, FAILURE, NOW + MINUTE)
        gone = await stored_job(store, second)
        assert (gone.state, gone.finished_at) == (JobState.CANCELLED, NOW + MINUTE)
        assert gone.reason == f"job {first.id} it waited for failed"

    async def test_a_cancel_cancels_those_that_wait(self, store: Store) -> None:
        first = a_job()
        second = a_job(after=(first.id,))
        await store.enqueue([first, second])
        await store.cancel([first.id], "by hand", NOW)
        gone = await stored_job(store, second)
        assert gone.state is JobState.CANCELLED
        assert gone.reason == f"job {first.id} it waited for was cancelled"

    async def test_a_whole_chain_is_cancelled(self, store: Store) -> None:
        chain = [a_job()]
        for _ in range(300):
            chain.append(a_job(after=(chain[-1].id,)))
        await store.enqueue(chain)
        (first,) = await claim_jobs(store)
        await end(store, first, FAILURE)
        states = {(await stored_job(store, job)).state for job in chain[1:]}
        assert states == {JobState.CANCELLED}

    async def test_one_failure_is_enough(self, store: Store) -> None:
        first, second = await run_job(store, a_job()), await run_job(store, a_job())
        third = a_job(after=(first.id, second.id))
        await store.enqueue([third])
        await end(store, first, FAILURE)
        await end(store, second)
        assert (await stored_job(store, third)).state is JobState.CANCELLED

    async def test_a_job_after_a_failed_one_is_cancelled_at_once(self, store: Store) -> None:
        first = await run_and_end(store, a_job(), FAILURE)
        second = a_job(after=(first.id,))
        await store.enqueue([second])
        gone = await stored_job(store, second)
        assert gone.state is JobState.CANCELLED
        assert gone.reason == f"job {first.id} it waited for failed"

    async def test_a_job_after_a_cancelled_one_is_cancelled_at_once(self, store: Store) -> None:
        first = a_job()
        await store.enqueue([first])
        await store.cancel([first.id], "by hand", NOW)
        second = a_job(after=(first.id,))
        await store.enqueue([second])
        gone = await stored_job(store, second)
        assert gone.reason == f"job {first.id} it waited for was cancelled"

    async def test_a_job_cannot_wait_for_one_that_does_not_exist(self, store: Store) -> None:
        with pytest.raises(Invalid):
            await store.enqueue([a_job(after=(JobId(an_id()),))])

    async def test_a_refused_call_stores_none_of_its_jobs(self, store: Store) -> None:
        with pytest.raises(Invalid):
            await store.enqueue([a_job(), a_job(after=(JobId(an_id()),))])
        assert (await store.jobs(JobFilter())).items == ()
