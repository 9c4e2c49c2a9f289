"""Overlap rules: a job while an earlier one of its schedule is unfinished."""

import pytest
from msgspec.structs import replace

from onbeat.model.job import JobState
from onbeat.model.outcome import Cancelled, Lost, Outcome, Released, Succeeded
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, TICK, a_schedule, an_occurrence
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    PASSING_FAILURE,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    stored_job,
)

ENDS: tuple[Outcome, ...] = (Succeeded(), FAILURE, Cancelled("by hand"))


class OverlapContract:
    async def test_allow_runs_jobs_of_a_schedule_side_by_side(self, store: Store) -> None:
        schedule = a_schedule(overlap=Overlap.ALLOW)
        earlier, later = an_occurrence(schedule, NOW - HOUR), an_occurrence(schedule)
        await add_planned(store, schedule, earlier, later)
        assert ids_of(await claim_jobs(store)) == [earlier.id, later.id]

    @pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.WAIT, Overlap.REPLACE])
    async def test_a_job_alone_in_its_schedule_runs(self, store: Store, overlap: Overlap) -> None:
        schedule = a_schedule(overlap=overlap)
        job = an_occurrence(schedule)
        await add_planned(store, schedule, job, an_occurrence(schedule, NOW + HOUR))
        assert ids_of(await claim_jobs(store)) == [job.id]

    @pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.WAIT, Overlap.REPLACE])
    async def test_other_schedules_do_not_matter(self, store: Store, overlap: Overlap) -> None:
        schedule, other = a_schedule(overlap=overlap), a_schedule()
        await add_planned(store, other, an_occurrence(other, NOW - HOUR))
        await claim_jobs(store)
        job = an_occurrence(schedule)
        await add_planned(store, schedule, job)
        assert ids_of(await claim_jobs(store)) == [job.id]

    @pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.WAIT, Overlap.REPLACE])
    async def test_a_job_runs_once_the_earlier_has_ended(
        self, store: Store, overlap: Overlap
    ) -> None:
        schedule = a_schedule(overlap=overlap)
        earlier, later = an_occurrence(schedule, NOW - HOUR), an_occurrence(schedule)
        await add_planned(store, schedule, earlier, later)
        (first,) = await claim_jobs(store, now=NOW - HOUR)
        await end(store, first)
        assert ids_of(await claim_jobs(store)) == [later.id]

    @pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.WAIT, Overlap.REPLACE])
    async def test_of_two_in_one_claim_only_one_runs(self, store: Store, overlap: Overlap) -> None:
        schedule = a_schedule(overlap=overlap)
        jobs = [an_occurrence(schedule, NOW - HOUR), an_occurrence(schedule)]
        await add_planned(store, schedule, *jobs)
        await claim_jobs(store)
        states = [(await stored_job(store, job)).state for job in jobs]
        assert states.count(JobState.RUNNING) == 1

    @pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.WAIT, Overlap.REPLACE])
    async def test_what_has_lapsed_is_in_nobodys_way(self, store: Store, overlap: Overlap) -> None:
        schedule = a_schedule(overlap=overlap)
        lapsed = an_occurrence(schedule, NOW - HOUR, start_by=NOW - TICK)
        job = an_occurrence(schedule)
        await add_planned(store, schedule, lapsed, job)
        assert ids_of(await claim_jobs(store)) == [job.id]

    async def test_skip_cancels_the_later_job_with_a_reason(self, store: Store) -> None:
        schedule = a_schedule(overlap=Overlap.SKIP)
        later = an_occurrence(schedule)
        await add_planned(store, schedule, an_occurrence(schedule, NOW - HOUR), later)
        await claim_jobs(store, now=NOW - HOUR)
        await claim_jobs(store)
        skipped = await stored_job(store, later)
        assert (skipped.state, skipped.finished_at) == (JobState.CANCELLED, NOW)
        assert skipped.reason

    async def test_skip_counts_a_job_that_waits_for_another_try(self, store: Store) -> None:
        schedule = a_schedule(overlap=Overlap.SKIP)
        earlier = an_occurrence(schedule, NOW - MINUTE, retry=IN_A_MINUTE)
        later = an_occurrence(schedule, NOW - SECOND)
        await add_planned(store, schedule, earlier, later)
        (first,) = await claim_jobs(store, now=NOW - MINUTE)
        await end(store, first, PASSING_FAILURE, NOW - SECOND)
        await claim_jobs(store)
        assert (await stored_job(store, later)).state is JobState.CANCELLED

    async def test_a_skipped_job_takes_no_place_in_the_claim(self, store: Store) -> None:
        schedule, other = a_schedule(overlap=Overlap.SKIP), a_schedule()
        await add_planned(
            store, schedule, an_occurrence(schedule, NOW - HOUR), an_occurrence(schedule)
        )
        await claim_jobs(store, now=NOW - HOUR)
        job = an_occurrence(other)
        await add_planned(store, other, job)
        assert ids_of(await claim_jobs(store, limit=1)) == [job.id]

    async def test_wait_blocks_the_later_job(self, store: Store) -> None:
        schedule = a_schedule(overlap=Overlap.WAIT)
        later = an_occurrence(schedule)
        await add_planned(store, schedule, an_occurrence(schedule, NOW - HOUR), later)
        await claim_jobs(store)
        waiting = await stored_job(store, later)
        assert (waiting.state, waiting.blocked_by) == (JobState.WAITING, 1)

    @pytest.mark.parametrize("outcome", ENDS, ids=lambda outcome: type(outcome).__name__)
    async def test_wait_ends_with_the_earlier_job_however_that_ends(
        self, store: Store, outcome: Outcome
    ) -> None:
        schedule = a_schedule(overlap=Overlap.WAIT)
        later = an_occurrence(schedule)
        await add_planned(store, schedule, an_occurrence(schedule, NOW - HOUR), later)
        (first,) = await claim_jobs(store)
        await end(store, first, outcome)
        assert ids_of(await claim_jobs(store)) == [later.id]

    async def test_wait_goes_on_while_the_earlier_job_has_tries_left(self, store: Store) -> None:
        schedule = a_schedule(overlap=Overlap.WAIT)
        earlier, later = an_occurrence(schedule, NOW - HOUR), an_occurrence(schedule)
        await add_planned(store, schedule, earlier, later)
        (first,) = await claim_jobs(store)
        await end(store, first, Lost("the worker died"))
        assert ids_of(await claim_jobs(store)) == [earlier.id]

    async def test_wait_never_locks_two_jobs_into_each_other(self, store: Store) -> None:
        schedule = a_schedule(overlap=Overlap.WAIT)
        earlier = an_occurrence(schedule, NOW - MINUTE, retry=IN_A_MINUTE)
        later = an_occurrence(schedule, NOW)
        await add_planned(store, schedule, earlier, later)
        (first,) = await claim_jobs(store, now=NOW - MINUTE)
        await end(store, first, PASSING_FAILURE, NOW)
        await claim_jobs(store, now=NOW)
        assert ids_of(await claim_jobs(store, now=NOW + MINUTE)) == [earlier.id]

    async def test_two_jobs_that_were_tried_do_not_wait_for_each_other(self, store: Store) -> None:
        schedule = a_schedule()
        jobs = [an_occurrence(schedule, NOW - number * SECOND) for number in (2, 1)]
        await add_planned(store, schedule, *jobs)
        for job in await claim_jobs(store):
            await end(store, job, Released())
        wait = replace(schedule, overlap=Overlap.WAIT, version=2)
        await store.update_schedule(wait, None, NOW)
        (first,) = await claim_jobs(store)
        await end(store, first)
        assert len(await claim_jobs(store)) == 1

    async def test_a_job_cancelled_in_its_wait_can_be_tried_by_hand(self, store: Store) -> None:
        schedule = a_schedule(overlap=Overlap.WAIT)
        later = an_occurrence(schedule)
        await add_planned(store, schedule, an_occurrence(schedule, NOW - HOUR), later)
        (first,) = await claim_jobs(store)
        await store.cancel([later.id], "by hand", NOW)
        await store.retry([later.id], NOW)
        await end(store, first)
        assert ids_of(await claim_jobs(store)) == [later.id]

    async def test_waiting_jobs_run_one_after_the_other(self, store: Store) -> None:
        schedule = a_schedule(overlap=Overlap.WAIT)
        jobs = [an_occurrence(schedule, NOW - number * SECOND) for number in (3, 2, 1, 0)]
        await add_planned(store, schedule, *jobs)
        ran: list[str] = []
        for _ in jobs:
            (job,) = await claim_jobs(store)
            ran.append(job.id)
            await end(store, job)
        assert ran == ids_of(jobs)

    async def test_a_waiting_job_is_free_when_the_earlier_is_cancelled_by_hand(
        self, store: Store
    ) -> None:
        schedule = a_schedule(overlap=Overlap.WAIT)
        earlier = an_occurrence(schedule, NOW - HOUR, retry=IN_A_MINUTE)
        later = an_occurrence(schedule)
        await add_planned(store, schedule, earlier, later)
        (first,) = await claim_jobs(store)
        await end(store, first, PASSING_FAILURE)
        await claim_jobs(store)
        await store.cancel([earlier.id], "by hand", NOW)
        assert ids_of(await claim_jobs(store)) == [later.id]

    async def test_replace_asks_the_running_job_to_stop(self, store: Store) -> None:
        schedule = a_schedule(overlap=Overlap.REPLACE)
        earlier = an_occurrence(schedule, NOW - HOUR)
        await add_planned(store, schedule, earlier, an_occurrence(schedule))
        await claim_jobs(store, now=NOW - HOUR)
        await claim_jobs(store)
        replaced = await stored_job(store, earlier)
        assert replaced.state is JobState.RUNNING
        assert replaced.cancel_reason

    async def test_replace_waits_for_the_end_of_the_running_job(self, store: Store) -> None:
        schedule = a_schedule(overlap=Overlap.REPLACE)
        earlier, later = an_occurrence(schedule, NOW - HOUR), an_occurrence(schedule)
        await add_planned(store, schedule, earlier, later)
        (first,) = await claim_jobs(store, now=NOW - HOUR)
        assert await claim_jobs(store) == ()
        await end(store, first, Cancelled("replaced"))
        assert ids_of(await claim_jobs(store)) == [later.id]

    async def test_replace_cancels_a_job_that_waits_for_another_try(self, store: Store) -> None:
        schedule = a_schedule(overlap=Overlap.REPLACE)
        earlier = an_occurrence(schedule, NOW - HOUR, retry=IN_A_MINUTE)
        later = an_occurrence(schedule)
        await add_planned(store, schedule, earlier, later)
        (first,) = await claim_jobs(store, now=NOW - HOUR)
        await end(store, first, PASSING_FAILURE, NOW)
        assert ids_of(await claim_jobs(store)) == [later.id]
        assert (await stored_job(store, earlier)).state is JobState.CANCELLED
