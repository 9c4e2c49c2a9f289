"""Timed leases, and leases that pass from a carrier to a worker."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job, JobState, Progress
from onbeat.model.outcome import Lost, Released, Succeeded
from onbeat.model.worker import RECEIVER, carrier_id, heard_id, is_remote, remote_id
from onbeat.ports.store import HeldLease, Settlement, Store
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, TICK, a_job, a_worker, an_id
from onbeat.testing.store_contract.steps import (
    OTHER_WORKER,
    WORKER,
    a_request,
    a_settlement,
    claim_jobs,
    end,
    ids_of,
    run_job,
    stored_job,
)

CARRIER = carrier_id("carrier-1")
REMOTE = remote_id("far away")
LEASE = timedelta(seconds=30)
LATER = NOW + SECOND


async def claim_as_carrier(store: Store) -> Job:
    """A job on its way to a worker, with a lease that lasts while its carrier sends heartbeats."""
    return await run_job(store, a_job(), worker=CARRIER)


async def claim_timed(store: Store, worker: WorkerId = REMOTE) -> Job:
    return await run_job(store, a_job(), worker=worker, lease=LEASE)


def lease_of(job: Job) -> tuple[JobId, Token]:
    return (job.id, job.token)


class TimedLeaseContract:
    async def test_a_lease_that_was_asked_for_runs_out_so_long_after(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        answer = await store.claim(a_request(worker=REMOTE, lease=LEASE))
        assert tuple(answer.jobs) == (
            replace(
                job,
                state=JobState.RUNNING,
                worker=REMOTE,
                token=1,
                attempt=1,
                started_at=NOW,
                lease_until=NOW + LEASE,
            ),
        )

    async def test_a_timed_lease_is_stored(self, store: Store) -> None:
        job = await claim_timed(store)
        assert job.lease_until == NOW + LEASE

    async def test_without_being_asked_for_no_lease_is_timed(self, store: Store) -> None:
        job = await run_job(store, a_job())
        assert job.lease_until is None

    async def test_a_settled_job_has_no_end_of_its_lease(self, store: Store) -> None:
        assert (await end(store, await claim_timed(store))).lease_until is None

    async def test_a_job_that_goes_on_has_no_end_of_its_lease(self, store: Store) -> None:
        assert (await end(store, await claim_timed(store), Released())).lease_until is None

    async def test_a_lease_ends_although_the_settlement_still_tells_of_it(
        self, store: Store
    ) -> None:
        job = await claim_timed(store)
        settlement = a_settlement(job, Released())
        telling = replace(settlement.job, lease_until=job.lease_until)
        await store.settle([Settlement(job=telling, attempt=settlement.attempt)])
        assert (await stored_job(store, job)).lease_until is None

    async def test_a_claim_without_a_lease_forgets_the_last_one(self, store: Store) -> None:
        await end(store, await claim_timed(store), Released())
        (again,) = await claim_jobs(store)
        assert again.lease_until is None

    async def test_a_renewed_lease_runs_until_then(self, store: Store) -> None:
        job = await claim_timed(store)
        answers = await store.renew([lease_of(job)], NOW + HOUR)
        assert list(answers) == [HeldLease(job.id, job.token, None)]
        assert await stored_job(store, job) == replace(job, lease_until=NOW + HOUR)

    async def test_a_renewal_tells_which_jobs_shall_stop(self, store: Store) -> None:
        job = await claim_timed(store)
        await store.cancel([job.id], "by hand", NOW)
        answers = await store.renew([lease_of(job)], NOW + HOUR)
        assert list(answers) == [HeldLease(job.id, job.token, "by hand")]

    async def test_a_lease_that_is_not_timed_is_not_renewed(self, store: Store) -> None:
        job = await run_job(store, a_job())
        assert list(await store.renew([lease_of(job)], NOW + HOUR)) == [None]
        assert await stored_job(store, job) == job

    async def test_a_stale_lease_is_not_renewed(self, store: Store) -> None:
        stale = await claim_timed(store)
        await end(store, stale, Lost("no heartbeat"))
        (current,) = await claim_jobs(store, worker=REMOTE, lease=LEASE)
        assert list(await store.renew([lease_of(stale)], NOW + HOUR)) == [None]
        assert await stored_job(store, stale) == current

    async def test_the_lease_of_an_ended_job_is_not_renewed(self, store: Store) -> None:
        job = await claim_timed(store)
        await end(store, job)
        assert list(await store.renew([lease_of(job)], NOW + HOUR)) == [None]

    async def test_renewals_are_answered_in_the_order_they_were_asked(self, store: Store) -> None:
        first, second = await claim_timed(store), await claim_timed(store)
        unknown = (JobId(an_id()), Token(1))
        request = [lease_of(second), unknown, lease_of(first)]
        answers = await store.renew(request, NOW + HOUR)
        assert list(answers) == [
            HeldLease(second.id, second.token, None),
            None,
            HeldLease(first.id, first.token, None),
        ]

    async def test_a_renewal_may_be_repeated(self, store: Store) -> None:
        job = await claim_timed(store)
        first = await store.renew([lease_of(job)], NOW + HOUR)
        assert list(await store.renew([lease_of(job)], NOW + HOUR)) == list(first)

    @pytest.mark.parametrize("holder", [REMOTE, WORKER])
    async def test_a_renewal_leaves_the_holder(self, store: Store, holder: WorkerId) -> None:
        job = await claim_timed(store, holder)
        await store.renew([lease_of(job)], NOW + HOUR)
        assert (await stored_job(store, job)).worker == holder

    async def test_a_carried_job_whose_lease_is_renewed_has_a_remote_worker(
        self, store: Store
    ) -> None:
        job, other = await claim_timed(store, CARRIER), await claim_timed(store, CARRIER)
        answers = await store.renew([lease_of(job)], NOW + HOUR)
        assert list(answers) == [HeldLease(job.id, job.token, None)]
        heard = replace(job, worker=heard_id(CARRIER), lease_until=NOW + HOUR)
        assert await stored_job(store, job) == heard
        assert is_remote(heard.worker)
        assert list(await store.held_leases(CARRIER)) == [HeldLease(other.id, other.token, None)]
        assert list(await store.held_leases(heard_id(CARRIER))) == list(answers)

    async def test_a_renewal_of_a_job_that_was_carried_may_be_repeated(self, store: Store) -> None:
        job = await claim_timed(store, CARRIER)
        first = await store.renew([lease_of(job)], NOW + HOUR)
        assert list(await store.renew([lease_of(job)], NOW + HOUR)) == list(first)
        assert (await stored_job(store, job)).worker == heard_id(CARRIER)

    async def test_a_carrier_does_not_settle_a_job_whose_lease_was_renewed(
        self, store: Store
    ) -> None:
        """Its rescuer may have seen that lease run out just before."""
        job = await claim_timed(store, CARRIER)
        await store.renew([lease_of(job)], NOW + HOUR)
        assert list(await store.settle([a_settlement(job, Released())])) == [False]
        heard = await stored_job(store, job)
        assert heard.state is JobState.RUNNING
        assert list(await store.settle([a_settlement(heard, Succeeded())])) == [True]

    async def test_nothing_to_renew_is_renewed(self, store: Store) -> None:
        assert list(await store.renew([], NOW + HOUR)) == []

    async def test_a_holder_without_a_row_learns_what_it_holds(self, store: Store) -> None:
        first, second = await claim_timed(store), await claim_timed(store)
        await run_job(store, a_job())
        await store.cancel([second.id], "by hand", NOW)
        assert list(await store.held_leases(REMOTE)) == [
            HeldLease(first.id, first.token, None),
            HeldLease(second.id, second.token, "by hand"),
        ]

    async def test_who_holds_nothing_learns_of_nothing(self, store: Store) -> None:
        await end(store, await claim_timed(store))
        assert list(await store.held_leases(REMOTE)) == []

    async def test_a_timed_lease_that_has_run_out_is_abandoned(self, store: Store) -> None:
        job = await claim_timed(store)
        assert list(await store.abandoned_jobs([], NOW + LEASE, 10)) == []
        assert list(await store.abandoned_jobs([], NOW + LEASE + TICK, 10)) == [job]

    async def test_a_renewed_lease_is_not_abandoned(self, store: Store) -> None:
        job = await claim_timed(store)
        await store.renew([lease_of(job)], NOW + HOUR)
        assert list(await store.abandoned_jobs([], NOW + MINUTE, 10)) == []

    async def test_a_timed_lease_stands_although_its_worker_is_dead(self, store: Store) -> None:
        worker = a_worker()
        await store.heartbeat(worker)
        await claim_timed(store, worker.id)
        assert list(await store.abandoned_jobs({worker.id}, NOW, 10)) == []

    async def test_a_timed_lease_runs_out_although_its_worker_beats(self, store: Store) -> None:
        worker = a_worker()
        job = await claim_timed(store, worker.id)
        await store.heartbeat(worker)
        assert list(await store.abandoned_jobs([], NOW + HOUR, 10)) == [job]

    async def test_timed_and_other_leases_are_told_as_abandoned_together(
        self, store: Store
    ) -> None:
        first = await claim_timed(store)
        second = await run_job(store, a_job(), worker=WorkerId("unknown"))
        lost = await store.abandoned_jobs([], NOW + HOUR, 10)
        assert sorted(ids_of(lost)) == [first.id, second.id]
        assert len(await store.abandoned_jobs([], NOW + HOUR, 1)) == 1

    async def test_a_timed_lease_is_settled_as_any_other(self, store: Store) -> None:
        settled = await end(store, await claim_timed(store), Succeeded(), LATER)
        assert (settled.state, settled.finished_at) == (JobState.SUCCEEDED, LATER)

    async def test_progress_is_noted_under_a_timed_lease(self, store: Store) -> None:
        job = await claim_timed(store)
        answers = await store.note_progress([(job.id, job.token, Progress(1))])
        assert list(answers) == [True]
        assert await stored_job(store, job) == replace(job, progress=Progress(1))


class StartContract:
    async def test_a_worker_takes_over_a_carried_job(self, store: Store) -> None:
        job = await claim_as_carrier(store)
        answers = await store.start(WORKER, [lease_of(job)], LATER)
        started = replace(job, worker=WORKER, started_at=LATER)
        assert list(answers) == [started]
        assert await stored_job(store, job) == started

    async def test_a_worker_takes_over_a_timed_lease_which_then_is_none(self, store: Store) -> None:
        job = await claim_timed(store, CARRIER)
        answers = await store.start(WORKER, [lease_of(job)], LATER)
        started = replace(job, worker=WORKER, started_at=LATER, lease_until=None)
        assert list(answers) == [started]
        assert await stored_job(store, job) == started

    async def test_a_worker_takes_over_the_timed_lease_of_another(self, store: Store) -> None:
        job = await claim_timed(store, REMOTE)
        (started,) = await store.start(WORKER, [lease_of(job)], LATER)
        assert started is not None
        assert (started.worker, started.lease_until) == (WORKER, None)

    async def test_only_one_worker_takes_over(self, store: Store) -> None:
        job = await claim_as_carrier(store)
        (started,) = await store.start(WORKER, [lease_of(job)], LATER)
        assert list(await store.start(OTHER_WORKER, [lease_of(job)], LATER)) == [None]
        assert await stored_job(store, job) == started

    async def test_the_lease_of_a_worker_is_not_taken_over(self, store: Store) -> None:
        job = await run_job(store, a_job(), worker=WORKER)
        assert list(await store.start(OTHER_WORKER, [lease_of(job)], LATER)) == [None]
        assert await stored_job(store, job) == job

    async def test_a_start_repeated_answers_as_the_first_time(self, store: Store) -> None:
        job = await claim_as_carrier(store)
        first = await store.start(WORKER, [lease_of(job)], LATER)
        again = await store.start(WORKER, [lease_of(job)], NOW + HOUR)
        assert list(again) == list(first)
        assert await stored_job(store, job) == first[0]

    async def test_a_stale_lease_starts_nothing(self, store: Store) -> None:
        stale = await claim_as_carrier(store)
        await end(store, stale, Released())
        (current,) = await claim_jobs(store, worker=CARRIER)
        assert list(await store.start(WORKER, [lease_of(stale)], LATER)) == [None]
        assert await stored_job(store, stale) == current

    async def test_an_ended_or_waiting_job_is_not_started(self, store: Store) -> None:
        ended, waits = await claim_as_carrier(store), await claim_as_carrier(store)
        await end(store, ended)
        await end(store, waits, Released())
        leases = [lease_of(ended), lease_of(waits)]
        assert list(await store.start(WORKER, leases, LATER)) == [None, None]

    async def test_starts_are_answered_in_the_order_they_were_asked(self, store: Store) -> None:
        first, second = await claim_as_carrier(store), await claim_as_carrier(store)
        unknown = (JobId(an_id()), Token(1))
        answers = await store.start(WORKER, [lease_of(second), unknown, lease_of(first)], LATER)
        assert [job and job.id for job in answers] == [second.id, None, first.id]

    async def test_nothing_to_start_is_started(self, store: Store) -> None:
        assert list(await store.start(WORKER, [], LATER)) == []

    async def test_a_started_job_is_held_by_its_worker_alone(self, store: Store) -> None:
        worker = a_worker()
        job = await claim_as_carrier(store)
        await store.start(worker.id, [lease_of(job)], LATER)
        assert list(await store.held_leases(CARRIER)) == []
        assert list(await store.heartbeat(worker)) == [HeldLease(job.id, job.token, None)]
        assert [worker.running for worker in await store.workers()] == [1]

    async def test_a_started_job_tells_that_it_shall_stop(self, store: Store) -> None:
        job = await claim_as_carrier(store)
        await store.cancel([job.id], "by hand", NOW)
        (started,) = await store.start(WORKER, [lease_of(job)], LATER)
        assert started is not None
        assert started.cancel_reason == "by hand"

    async def test_the_worker_that_started_a_job_settles_it(self, store: Store) -> None:
        job = await claim_as_carrier(store)
        (started,) = await store.start(WORKER, [lease_of(job)], LATER)
        assert started is not None
        settled = await end(store, started, Succeeded(), NOW + MINUTE)
        assert settled.state is JobState.SUCCEEDED
        (attempt,) = await store.attempts(job.id)
        assert (attempt.worker, attempt.started_at) == (WORKER, LATER)

    async def test_the_carrier_settles_what_it_could_not_hand_over(self, store: Store) -> None:
        settled = await end(store, await claim_as_carrier(store), Released())
        assert (settled.state, settled.attempt) == (JobState.WAITING, 0)

    async def test_the_carrier_does_not_settle_what_was_started(self, store: Store) -> None:
        job = await claim_as_carrier(store)
        (started,) = await store.start(WORKER, [lease_of(job)], LATER)
        assert list(await store.settle([a_settlement(job, Lost("gone"))])) == [False]
        assert await stored_job(store, job) == started

    async def test_a_carried_job_is_abandoned_with_its_carrier(self, store: Store) -> None:
        carrier = a_worker(id=CARRIER)
        await store.heartbeat(carrier)
        job = await claim_as_carrier(store)
        assert list(await store.abandoned_jobs([], NOW, 10)) == []
        assert list(await store.abandoned_jobs({CARRIER}, NOW, 10)) == [job]

    async def test_a_started_job_outlives_its_carrier(self, store: Store) -> None:
        worker = a_worker()
        await store.heartbeat(worker)
        job = await claim_timed(store, CARRIER)
        await store.start(worker.id, [lease_of(job)], LATER)
        assert list(await store.abandoned_jobs({CARRIER}, NOW + HOUR, 10)) == []
        assert ids_of(await store.abandoned_jobs({worker.id}, NOW, 10)) == [job.id]

    async def test_a_rescued_job_that_was_carried_is_given_out_again(self, store: Store) -> None:
        job = await claim_as_carrier(store)
        await end(store, job, Lost("no heartbeat"))
        (again,) = await claim_jobs(store)
        assert (again.id, again.token > job.token) == (job.id, True)


class HandOverContract:
    """Leases that a worker hands over to the receiver of its callback."""

    async def test_a_lease_handed_over_is_timed_and_held_by_the_receiver(
        self, store: Store
    ) -> None:
        job = await run_job(store, a_job())
        assert await store.hand_over(*lease_of(job), NOW + HOUR) is True
        assert await stored_job(store, job) == replace(job, worker=RECEIVER, lease_until=NOW + HOUR)
        assert list(await store.held_leases(WORKER)) == []

    async def test_a_repeated_hand_over_changes_nothing(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.hand_over(*lease_of(job), NOW + HOUR)
        handed = await stored_job(store, job)
        assert await store.hand_over(*lease_of(job), NOW + MINUTE) is True
        assert await stored_job(store, job) == handed

    async def test_a_stale_lease_is_not_handed_over(self, store: Store) -> None:
        stale = await run_job(store, a_job())
        await end(store, stale, Lost("no heartbeat"))
        (current,) = await claim_jobs(store)
        assert await store.hand_over(*lease_of(stale), NOW + HOUR) is False
        assert await stored_job(store, stale) == current

    async def test_the_lease_of_an_ended_job_is_not_handed_over(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await end(store, job)
        assert await store.hand_over(*lease_of(job), NOW + HOUR) is False
        assert await store.hand_over(JobId(an_id()), Token(1), NOW + HOUR) is False

    async def test_no_worker_takes_it_over(self, store: Store) -> None:
        job = await claim_as_carrier(store)
        await store.hand_over(*lease_of(job), NOW + HOUR)
        assert list(await store.start(WORKER, [lease_of(job)], LATER)) == [None]
        assert (await stored_job(store, job)).worker == RECEIVER

    async def test_it_is_abandoned_after_its_end(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.hand_over(*lease_of(job), NOW + MINUTE)
        assert list(await store.abandoned_jobs([WORKER, RECEIVER], NOW + MINUTE, 10)) == []
        (found,) = await store.abandoned_jobs([], NOW + MINUTE + TICK, 10)
        assert (found.id, found.worker) == (job.id, RECEIVER)

    async def test_its_settlement_counts_once(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.hand_over(*lease_of(job), NOW + HOUR)
        handed = await stored_job(store, job)
        settlement = a_settlement(handed, Succeeded())
        assert list(await store.settle([settlement])) == [True]
        assert list(await store.settle([a_settlement(handed, Lost("late"))])) == [False]
        assert (await stored_job(store, job)).state is JobState.SUCCEEDED
