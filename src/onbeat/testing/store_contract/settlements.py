"""Settlements: what an ended attempt writes, and a stale one does not."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from onbeat.model.attempt import OutcomeName
from onbeat.model.ids import JobId, Token
from onbeat.model.job import JobState, Progress, Suspicion
from onbeat.model.outcome import Cancelled, Failed, Lost, Outcome, Released, Snoozed, Succeeded
from onbeat.model.retry import RetryPolicy
from onbeat.ports.store import Settlement, Store
from onbeat.testing.build import MINUTE, NOW, SECOND, a_job, a_worker, an_id
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    OTHER_WORKER,
    PASSING_FAILURE,
    SUCCESS,
    WORKER,
    a_settlement,
    claim_jobs,
    end,
    ids_of,
    run_job,
    stored_job,
)

LATER = NOW + SECOND

GOES_ON: tuple[Outcome, ...] = (
    PASSING_FAILURE,
    Snoozed(MINUTE),
    Released(),
    Lost("the worker died"),
)


class SettlementContract:
    async def test_success_is_kept_with_its_result(self, store: Store) -> None:
        job = await run_job(store, a_job())
        result = msgspec.Raw(b'{"answer":42}')
        settled = await end(store, job, Succeeded(result), LATER)
        assert (settled.state, settled.finished_at) == (JobState.SUCCEEDED, LATER)
        assert settled.result == result

    async def test_failure_is_kept_with_its_error_and_reason(self, store: Store) -> None:
        settled = await end(store, await run_job(store, a_job()), FAILURE)
        assert settled.state is JobState.FAILED
        assert (settled.error, settled.reason) == ("it broke", "not retryable")

    async def test_an_error_of_any_characters_is_kept(self, store: Store) -> None:
        every = "".join(map(chr, range(32))) + "\x7f\x85\u2028\ud800\udfff\uffff\U0010ffff"
        settled = await end(store, await run_job(store, a_job()), Failed(every, retryable=False))
        assert settled.state is JobState.FAILED
        assert settled.error == every.replace("\0", "\ufffd").replace("\ud800\udfff", "??")
        assert (await stored_job(store, settled)).error == settled.error
        again = await end(store, await run_job(store, a_job()), Snoozed(MINUTE, every))
        assert (await stored_job(store, again)).reason == settled.error

    async def test_an_ended_job_is_under_no_lease(self, store: Store) -> None:
        settled = await end(store, await run_job(store, a_job()))
        assert settled.worker is None

    @pytest.mark.parametrize("outcome", GOES_ON, ids=lambda outcome: type(outcome).__name__)
    async def test_a_job_that_goes_on_waits_under_no_lease(
        self, store: Store, outcome: Outcome
    ) -> None:
        settled = await end(store, await run_job(store, a_job()), outcome)
        assert (settled.state, settled.worker) == (JobState.WAITING, None)

    async def test_a_failed_attempt_is_tried_again_when_its_wait_is_over(
        self, store: Store
    ) -> None:
        job = await run_job(store, a_job(retry=IN_A_MINUTE))
        await end(store, job, PASSING_FAILURE)
        assert await claim_jobs(store, now=NOW + MINUTE - SECOND) == ()
        assert ids_of(await claim_jobs(store, now=NOW + MINUTE)) == [job.id]

    async def test_a_snoozed_job_is_given_out_after_its_delay(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await end(store, job, Snoozed(timedelta(minutes=5)))
        assert await claim_jobs(store, now=NOW + 4 * MINUTE) == ()
        assert ids_of(await claim_jobs(store, now=NOW + 5 * MINUTE)) == [job.id]

    async def test_a_job_handed_back_is_given_out_at_once(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await end(store, job, Released())
        assert ids_of(await claim_jobs(store, worker=OTHER_WORKER)) == [job.id]

    async def test_an_attempt_is_kept_as_it_was_told(self, store: Store) -> None:
        job = await run_job(store, a_job())
        settlement = a_settlement(job, FAILURE, LATER)
        await store.settle([settlement])
        assert list(await store.attempts(job.id)) == [settlement.attempt]

    async def test_an_ended_job_has_no_latest_start(self, store: Store) -> None:
        for outcome in (SUCCESS, FAILURE):
            job = await run_job(store, a_job(start_by=NOW + MINUTE))
            assert (await end(store, job, outcome)).start_by is None

    async def test_attempts_are_told_oldest_first(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await end(store, job, Released())
        (job,) = await claim_jobs(store)
        await end(store, job, Lost("the worker died"))
        (job,) = await claim_jobs(store)
        await end(store, job)
        outcomes = [attempt.outcome for attempt in await store.attempts(job.id)]
        assert outcomes == [OutcomeName.RELEASED, OutcomeName.LOST, OutcomeName.SUCCEEDED]

    async def test_suspicion_is_kept_until_the_job_ends(self, store: Store) -> None:
        job = await run_job(store, a_job())
        once = await end(store, job, Lost("the worker died", company=9))
        assert once.suspicion == Suspicion()
        (second,) = await claim_jobs(store)
        lost = await end(store, second, Lost("the worker died", company=9))
        assert lost.suspicion == Suspicion(alone=0, company_max=4)
        assert await stored_job(store, job) == lost
        (again,) = await claim_jobs(store, worker=OTHER_WORKER)
        assert again.suspicion == lost.suspicion
        back = await end(store, again, Released())
        assert back.suspicion == lost.suspicion
        (last,) = await claim_jobs(store)
        assert (await end(store, last)).suspicion is None

    async def test_a_policy_keeps_how_many_workers_may_die(self, store: Store) -> None:
        job = await run_job(store, a_job(retry=RetryPolicy(lost_max=1)))
        assert job.retry.lost_max == 1
        assert (await end(store, job, Lost("the worker died"))).state is JobState.FAILED

    async def test_a_running_attempt_is_not_told_yet(self, store: Store) -> None:
        job = await run_job(store, a_job())
        assert list(await store.attempts(job.id)) == []

    async def test_a_stale_lease_settles_nothing(self, store: Store) -> None:
        stale = await run_job(store, a_job())
        await end(store, stale, Lost("no heartbeat"))
        (current,) = await claim_jobs(store, worker=OTHER_WORKER)
        assert list(await store.settle([a_settlement(stale)])) == [False]
        assert await stored_job(store, stale) == current

    @pytest.mark.parametrize("outcome", [SUCCESS, FAILURE, Lost("the worker died")])
    async def test_an_older_lease_of_the_same_worker_settles_nothing(
        self, store: Store, outcome: Outcome
    ) -> None:
        """Only the token tells the two leases apart."""
        first = await run_job(store, a_job())
        await end(store, first, Released())
        (again,) = await claim_jobs(store)
        assert list(await store.settle([a_settlement(first, outcome)])) == [False]
        assert await stored_job(store, first) == again

    async def test_a_stale_lease_leaves_no_attempt(self, store: Store) -> None:
        stale = await run_job(store, a_job())
        await end(store, stale, Lost("no heartbeat"))
        await claim_jobs(store, worker=OTHER_WORKER)
        await store.settle([a_settlement(stale)])
        assert len(await store.attempts(stale.id)) == 1

    async def test_a_late_word_on_a_rescued_job_counts_for_nothing(self, store: Store) -> None:
        job = await run_job(store, a_job())
        rescued = await end(store, job, Lost("no heartbeat"))
        assert list(await store.settle([a_settlement(job)])) == [False]
        assert await stored_job(store, job) == rescued

    async def test_the_wrong_worker_settles_nothing(self, store: Store) -> None:
        job = await run_job(store, a_job())
        impostor = replace(job, worker=OTHER_WORKER)
        assert list(await store.settle([a_settlement(impostor)])) == [False]
        assert await stored_job(store, job) == job

    async def test_a_token_from_the_future_settles_nothing(self, store: Store) -> None:
        job = await run_job(store, a_job())
        ahead = replace(job, token=Token(job.token + 1))
        assert list(await store.settle([a_settlement(ahead)])) == [False]

    async def test_a_job_that_never_ran_cannot_be_settled(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        claim = replace(job, worker=WORKER, started_at=NOW, attempt=1)
        assert list(await store.settle([a_settlement(claim)])) == [False]
        assert await stored_job(store, job) == job

    async def test_an_unknown_job_cannot_be_settled(self, store: Store) -> None:
        job = await run_job(store, a_job())
        unknown = replace(job, id=JobId(an_id()))
        assert list(await store.settle([a_settlement(unknown)])) == [False]

    async def test_a_settlement_repeated_is_true_again(self, store: Store) -> None:
        settlement = a_settlement(await run_job(store, a_job()))
        await store.settle([settlement])
        assert list(await store.settle([settlement])) == [True]

    async def test_a_settlement_repeated_changes_nothing(self, store: Store) -> None:
        job = await run_job(store, a_job())
        settlement = a_settlement(job, Released())
        await store.settle([settlement])
        (again,) = await claim_jobs(store)
        assert list(await store.settle([settlement])) == [True]
        assert await stored_job(store, job) == again
        assert len(await store.attempts(job.id)) == 1

    async def test_another_outcome_of_a_settled_attempt_counts_for_nothing(
        self, store: Store
    ) -> None:
        job = await run_job(store, a_job())
        settled = await end(store, job)
        assert list(await store.settle([a_settlement(job, FAILURE)])) == [False]
        assert await stored_job(store, job) == settled

    async def test_of_two_settlements_of_one_attempt_in_one_call_the_first_counts(
        self, store: Store
    ) -> None:
        job = await run_job(store, a_job())
        answers = await store.settle([a_settlement(job), a_settlement(job, FAILURE)])
        assert list(answers) == [True, False]
        assert (await stored_job(store, job)).state is JobState.SUCCEEDED

    async def test_each_settlement_stands_by_itself(self, store: Store) -> None:
        first, second = await run_job(store, a_job()), await run_job(store, a_job())
        stale = Settlement(job=first, attempt=replace(a_settlement(first).attempt, token=Token(99)))
        assert list(await store.settle([stale, a_settlement(second)])) == [False, True]
        assert (await stored_job(store, second)).state is JobState.SUCCEEDED

    async def test_nothing_to_settle_is_settled(self, store: Store) -> None:
        assert list(await store.settle([])) == []

    @pytest.mark.parametrize("outcome", GOES_ON, ids=lambda outcome: type(outcome).__name__)
    async def test_a_job_asked_to_stop_is_not_tried_again(
        self, store: Store, outcome: Outcome
    ) -> None:
        job = await run_job(store, a_job())
        await store.cancel([job.id], "no longer wanted", NOW)
        settled = await end(store, job, outcome, LATER)
        assert (settled.state, settled.reason) == (JobState.CANCELLED, "no longer wanted")
        assert settled.finished_at == LATER

    async def test_success_counts_although_a_stop_was_asked(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.cancel([job.id], "no longer wanted", NOW)
        assert (await end(store, job)).state is JobState.SUCCEEDED

    async def test_a_job_that_stopped_as_asked_is_cancelled(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.cancel([job.id], "no longer wanted", NOW)
        settled = await end(store, job, Cancelled("no longer wanted"))
        assert (settled.state, settled.reason) == (JobState.CANCELLED, "no longer wanted")

    async def test_a_job_that_was_asked_to_stop_goes_on_saying_why(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.cancel([job.id], "no longer wanted", NOW)
        assert (await end(store, job)).cancel_reason == "no longer wanted"

    async def test_a_settled_lease_is_held_no_more(self, store: Store) -> None:
        worker = a_worker()
        await end(store, await run_job(store, a_job(), worker=worker.id))
        assert list(await store.heartbeat(worker)) == []


class ProgressContract:
    async def test_progress_of_a_running_job_is_kept(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.note_progress([(job.id, job.token, Progress(1, 3))])
        assert (await stored_job(store, job)).progress == Progress(1, 3)

    async def test_the_latest_progress_stands(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.note_progress([(job.id, job.token, Progress(1, 3))])
        await store.note_progress([(job.id, job.token, Progress(2.5))])
        assert (await stored_job(store, job)).progress == Progress(2.5)

    async def test_a_stale_lease_notes_no_progress(self, store: Store) -> None:
        stale = await run_job(store, a_job())
        await end(store, stale, Released())
        (current,) = await claim_jobs(store)
        note = (stale.id, stale.token, Progress(1))
        assert list(await store.note_progress([note])) == [False]
        assert await stored_job(store, stale) == current

    async def test_an_ended_job_makes_no_progress(self, store: Store) -> None:
        job = await run_job(store, a_job())
        settled = await end(store, job)
        note = (job.id, job.token, Progress(1))
        assert list(await store.note_progress([note])) == [False]
        assert await stored_job(store, job) == settled

    async def test_each_note_stands_by_itself(self, store: Store) -> None:
        job = await run_job(store, a_job())
        notes = [
            (JobId(an_id()), Token(1), Progress(1)),
            (job.id, job.token, Progress(2)),
        ]
        assert list(await store.note_progress(notes)) == [False, True]
