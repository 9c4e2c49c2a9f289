"""Operations on jobs by hand: cancel and retry."""

import pytest
from msgspec.structs import replace

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Lost, Outcome, Released, Succeeded
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, NOW, SECOND, a_job, a_schedule, an_id, an_occurrence
from onbeat.testing.store_contract.steps import (
    FAILURE,
    PASSING_FAILURE,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    run_and_end,
    run_job,
    stored_job,
)

LATER = NOW + HOUR


async def a_failed_pair(store: Store) -> tuple[Job, Job]:
    """A job that has failed, and one that was cancelled with it."""
    first = await run_job(store, a_job())
    second = a_job(after=(first.id,))
    await store.enqueue([second])
    await end(store, first, FAILURE)
    return first, second


class CancelContract:
    async def test_a_waiting_job_ends_cancelled(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        (answer,) = await store.cancel([job.id], "by hand", LATER)
        assert answer is not None
        assert (answer.state, answer.reason) == (JobState.CANCELLED, "by hand")
        assert answer.finished_at == LATER

    async def test_the_answer_to_a_cancel_is_what_is_stored(self, store: Store) -> None:
        waiting, runs = a_job(due_at=LATER), await run_job(store, a_job())
        await store.enqueue([waiting])
        answer = await store.cancel([waiting.id, runs.id], "by hand", NOW)
        assert list(answer) == [await stored_job(store, waiting), await stored_job(store, runs)]

    async def test_a_cancelled_job_is_not_given_out(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        await store.cancel([job.id], "by hand", NOW)
        assert await claim_jobs(store) == ()

    async def test_a_running_job_is_asked_to_stop(self, store: Store) -> None:
        job = await run_job(store, a_job())
        (answer,) = await store.cancel([job.id], "by hand", NOW)
        assert answer is not None
        assert (answer.state, answer.cancel_reason) == (JobState.RUNNING, "by hand")

    async def test_a_running_job_keeps_its_lease_when_asked_to_stop(self, store: Store) -> None:
        job = await run_job(store, a_job())
        (answer,) = await store.cancel([job.id], "by hand", NOW)
        assert answer is not None
        assert (answer.worker, answer.token) == (job.worker, job.token)

    @pytest.mark.parametrize("outcome", [Succeeded(), FAILURE], ids=["succeeded", "failed"])
    async def test_an_ended_job_is_not_cancelled(self, store: Store, outcome: Outcome) -> None:
        job = await run_and_end(store, a_job(), outcome)
        assert list(await store.cancel([job.id], "by hand", LATER)) == [job]

    async def test_a_cancelled_job_keeps_its_reason(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        first = await store.cancel([job.id], "by hand", NOW)
        assert list(await store.cancel([job.id], "again", LATER)) == list(first)

    async def test_a_blocked_job_is_cancelled_for_good(self, store: Store) -> None:
        first = await run_job(store, a_job())
        second = await run_job(store, a_job())
        third = a_job(after=(first.id, second.id))
        await store.enqueue([third])
        (answer,) = await store.cancel([third.id], "by hand", NOW)
        await end(store, first)
        assert await store.job(third.id) == answer

    async def test_an_ended_job_is_blocked_by_nothing(self, store: Store) -> None:
        first = a_job()
        second = a_job(after=(first.id,))
        await store.enqueue([first, second])
        (answer,) = await store.cancel([second.id], "by hand", NOW)
        assert answer is not None
        assert answer.blocked_by == 0

    async def test_a_job_that_waits_for_another_try_is_cancelled(self, store: Store) -> None:
        job = await run_and_end(store, a_job(), PASSING_FAILURE)
        (answer,) = await store.cancel([job.id], "by hand", NOW)
        assert answer is not None
        assert answer.state is JobState.CANCELLED

    async def test_answers_to_a_cancel_come_in_the_order_asked(self, store: Store) -> None:
        first, second = a_job(), a_job()
        await store.enqueue([first, second])
        answer = await store.cancel([second.id, JobId(an_id()), first.id], "by hand", NOW)
        assert [job and job.id for job in answer] == [second.id, None, first.id]

    async def test_a_request_to_stop_is_told_in_the_jobs_history(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.cancel([job.id], "by hand", LATER)
        (transition,) = await store.transitions(job.id)
        assert (transition.to, transition.cause) == ("cancel requested", "by hand")
        assert transition.at == LATER

    async def test_a_request_to_stop_is_told_once_although_it_is_repeated(
        self, store: Store
    ) -> None:
        job = await run_job(store, a_job())
        await store.cancel([job.id], "by hand", NOW)
        await store.cancel([job.id], "by hand", NOW)
        assert len(await store.transitions(job.id)) == 1


class RetryContract:
    async def test_a_failed_job_waits_again(self, store: Store) -> None:
        job = await run_and_end(store, a_job(), FAILURE)
        (answer,) = await store.retry([job.id], LATER)
        assert answer is not None
        assert (answer.state, answer.due_at) == (JobState.WAITING, LATER)

    async def test_a_cancelled_job_waits_again(self, store: Store) -> None:
        job = a_job(due_at=LATER)
        await store.enqueue([job])
        await store.cancel([job.id], "by hand", NOW)
        await store.retry([job.id], NOW)
        assert ids_of(await claim_jobs(store)) == [job.id]

    async def test_the_answer_to_a_retry_is_what_is_stored(self, store: Store) -> None:
        job = await run_and_end(store, a_job(), FAILURE)
        (answer,) = await store.retry([job.id], NOW)
        assert await store.job(job.id) == answer

    async def test_a_retry_leaves_no_trace_of_the_end(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.cancel([job.id], "by hand", NOW)
        job = await end(store, job, FAILURE)
        (answer,) = await store.retry([job.id], LATER)
        assert answer is not None
        assert (answer.finished_at, answer.reason, answer.cancel_reason) == (None, None, None)
        assert (answer.error, answer.result) == (None, None)

    async def test_a_retry_has_a_fresh_budget(self, store: Store) -> None:
        job = await run_job(store, a_job())
        for outcome in (Released(), Lost("the worker died")):
            await end(store, job, outcome)
            (job,) = await claim_jobs(store)
        await end(store, job, FAILURE)
        (answer,) = await store.retry([job.id], NOW)
        assert answer is not None
        assert (answer.attempt, answer.lost, answer.released) == (0, 0, 0)

    async def test_a_retry_has_no_bounds_of_time(self, store: Store) -> None:
        job = a_job(start_by=NOW, expires_at=NOW)
        await store.enqueue([job])
        await store.cancel_overdue([job.id], "expired", LATER)
        await store.retry([job.id], LATER)
        assert ids_of(await claim_jobs(store, now=LATER + HOUR)) == [job.id]
        assert (await stored_job(store, job)).expires_at is None

    async def test_a_retry_keeps_the_attempts_before_it(self, store: Store) -> None:
        job = await run_and_end(store, a_job(), FAILURE)
        before = await store.attempts(job.id)
        await store.retry([job.id], NOW)
        assert list(await store.attempts(job.id)) == list(before)

    async def test_attempts_before_and_after_a_retry_are_told_together(self, store: Store) -> None:
        job = await run_and_end(store, a_job(), FAILURE)
        await store.retry([job.id], NOW)
        (again,) = await claim_jobs(store)
        await end(store, again)
        assert len(await store.attempts(job.id)) == 2

    async def test_the_token_rises_on_across_a_retry(self, store: Store) -> None:
        job = await run_and_end(store, a_job(), FAILURE)
        await store.retry([job.id], NOW)
        (again,) = await claim_jobs(store)
        assert again.token > job.token

    async def test_a_retry_is_told_in_the_jobs_history(self, store: Store) -> None:
        job = await run_and_end(store, a_job(), FAILURE)
        await store.retry([job.id], LATER)
        (transition,) = await store.transitions(job.id)
        assert (transition.to, transition.at) == ("retried", LATER)

    async def test_a_job_that_has_succeeded_is_not_retried(self, store: Store) -> None:
        job = await run_and_end(store, a_job())
        assert list(await store.retry([job.id], LATER)) == [job]

    async def test_a_live_job_is_not_retried(self, store: Store) -> None:
        job = await run_job(store, a_job())
        waiting = a_job()
        await store.enqueue([waiting])
        assert list(await store.retry([job.id, waiting.id], LATER)) == [job, waiting]

    async def test_an_unknown_job_is_not_retried(self, store: Store) -> None:
        assert list(await store.retry([JobId(an_id())], NOW)) == [None]

    async def test_a_retry_takes_its_unique_key_again(self, store: Store) -> None:
        job = await run_and_end(store, a_job(unique="key"), FAILURE)
        await store.retry([job.id], NOW)
        (answer,) = await store.enqueue([a_job(unique="key")])
        assert (answer.id, answer.created) == (job.id, False)

    async def test_a_retry_cannot_take_a_key_that_is_held(self, store: Store) -> None:
        job = await run_and_end(store, a_job(unique="key"), FAILURE)
        await store.enqueue([a_job(unique="key")])
        with pytest.raises(Conflict):
            await store.retry([job.id], NOW)

    async def test_a_refused_retry_changes_nothing(self, store: Store) -> None:
        free = await run_and_end(store, a_job(), FAILURE)
        job = await run_and_end(store, a_job(unique="key"), FAILURE)
        await store.enqueue([a_job(unique="key")])
        with pytest.raises(Conflict):
            await store.retry([free.id, job.id], NOW)
        assert await stored_job(store, free) == free

    async def test_two_with_one_key_are_not_retried_together(self, store: Store) -> None:
        first = await run_and_end(store, a_job(unique="key"), FAILURE)
        second = await run_and_end(store, a_job(unique="key"), FAILURE)
        with pytest.raises(Conflict):
            await store.retry([first.id, second.id], NOW)
        assert await stored_job(store, first) == first

    async def test_a_job_cancelled_with_another_can_be_tried_by_hand(self, store: Store) -> None:
        first = await run_job(store, a_job())
        second = a_job(after=(first.id,))
        await store.enqueue([second])
        await end(store, first, FAILURE)
        await store.retry([second.id], NOW)
        assert ids_of(await claim_jobs(store)) == [second.id]

    async def test_a_job_cancelled_with_another_comes_back_with_it(self, store: Store) -> None:
        first, second = await a_failed_pair(store)
        await store.retry([first.id], NOW)
        assert (await stored_job(store, second)).state is JobState.WAITING

    async def test_a_cancel_of_a_job_cancelled_with_another_stands(self, store: Store) -> None:
        first, second = await a_failed_pair(store)
        third = a_job(after=(second.id,))
        await store.enqueue([third])
        before = await stored_job(store, second)
        (answer,) = await store.cancel([second.id], "by hand", LATER)
        assert answer == replace(before, cancel_reason="by hand")
        await store.retry([first.id], LATER)
        assert ids_of(await claim_jobs(store, now=LATER)) == [first.id]
        assert await stored_job(store, second) == answer
        assert (await stored_job(store, third)).state is JobState.CANCELLED

    async def test_such_a_cancel_is_told_once_in_the_jobs_history(self, store: Store) -> None:
        _, second = await a_failed_pair(store)
        for reason in ("by hand", "again"):
            (answer,) = await store.cancel([second.id], reason, LATER)
            assert answer is not None
            assert answer.cancel_reason == "by hand"
        last = (await store.transitions(second.id))[-1]
        assert (last.to, last.cause) == ("cancel requested", "by hand")
        assert len(await store.transitions(second.id)) == 2

    async def test_a_job_that_was_cancelled_so_can_be_tried_by_hand(self, store: Store) -> None:
        first, second = await a_failed_pair(store)
        third = a_job(after=(second.id,))
        await store.enqueue([third])
        await store.cancel([second.id], "by hand", NOW)
        (again,) = await store.retry([second.id], NOW)
        assert again is not None
        assert again.cancel_reason is None
        assert (await stored_job(store, third)).state is JobState.WAITING
        (running,) = await claim_jobs(store)
        await end(store, running, FAILURE)
        await store.retry([first.id], NOW)
        assert (await stored_job(store, second)).state is JobState.FAILED

    async def test_jobs_that_are_cancelled_together_have_no_other_cause(self, store: Store) -> None:
        first = a_job()
        second = a_job(after=(first.id,))
        await store.enqueue([first, second])
        answers = await store.cancel([first.id, second.id], "by hand", NOW)
        shown = [
            (one.reason, one.cause_id, one.cancel_reason) for one in answers if one is not None
        ]
        assert shown == [("by hand", None, None)] * 2
        await store.retry([first.id], NOW)
        assert (await stored_job(store, second)).state is JobState.CANCELLED

    async def test_a_retried_occurrence_is_not_planned_again(self, store: Store) -> None:
        schedule = a_schedule()
        plan = await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        await end(store, job, FAILURE)
        await store.retry([job.id], NOW + SECOND)
        await store.apply_plans([plan])
        assert ids_of(await claim_jobs(store, now=LATER)) == [job.id]
