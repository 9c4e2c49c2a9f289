"""Limited queues among others: one overall order, and held jobs do not block others."""

import pytest
from msgspec.structs import replace

from onbeat.model.job import JobState
from onbeat.model.outcome import Cancelled
from onbeat.model.queue import Rate
from onbeat.model.schedule import Overlap, ScheduleStatus
from onbeat.ports.store import Store
from onbeat.testing.build import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    TICK,
    a_job,
    a_schedule,
    an_occurrence,
)
from onbeat.testing.store_contract.steps import (
    add_planned,
    claim_jobs,
    end,
    ids_of,
    limit,
    slow_jobs,
    stored_job,
)

PUTTING_OFF = (Overlap.SKIP, Overlap.WAIT, Overlap.REPLACE)


class AdmissionOrderContract:
    async def test_one_order_holds_over_limited_queues_and_others(self, store: Store) -> None:
        await limit(store, "a", concurrency=9)
        await limit(store, "b", rate=Rate(9, HOUR))
        fifth = a_job(queue="b", priority=2, due_at=NOW - HOUR)
        second = a_job(queue="a", due_at=NOW - SECOND)
        first = a_job(due_at=NOW - MINUTE)
        third = a_job(queue="b")
        fourth = a_job()
        await store.enqueue([fifth, second, first, third, fourth])
        assert ids_of(await claim_jobs(store)) == ids_of([first, second, third, fourth, fifth])

    async def test_the_first_in_order_are_given_out_when_the_limit_cuts(self, store: Store) -> None:
        await limit(store, "q0", concurrency=9)
        await limit(store, "q1", group_concurrency=9)
        jobs = [
            a_job(due_at=NOW - (9 - number) * SECOND, queue=f"q{number % 3}", group="g")
            for number in range(9)
        ]
        await store.enqueue(jobs[::-1])
        assert ids_of(await claim_jobs(store, limit=4)) == ids_of(jobs[:4])

    async def test_others_move_up_where_a_queue_is_full(self, store: Store) -> None:
        await limit(store, concurrency=2)
        slow = slow_jobs(5, due_at=NOW - HOUR)
        others = [a_job() for _ in range(5)]
        await store.enqueue([*slow, *others])
        assert ids_of(await claim_jobs(store, limit=4)) == ids_of([*slow[:2], *others[:2]])

    async def test_a_full_queue_is_not_in_the_way_of_others(self, store: Store) -> None:
        await limit(store, concurrency=1)
        await store.enqueue(slow_jobs(3_000, priority=-5))
        await claim_jobs(store)
        last = a_job(priority=5)
        await store.enqueue([last])
        assert ids_of(await claim_jobs(store, limit=1)) == [last.id]

    async def test_a_limited_queue_is_served_behind_a_crowd_of_others(self, store: Store) -> None:
        await limit(store, concurrency=1)
        await store.enqueue([a_job() for _ in range(50)])
        (slow,) = slow_jobs(1, priority=-1)
        await store.enqueue([slow])
        assert ids_of(await claim_jobs(store, limit=3))[0] == slow.id

    async def test_what_is_not_given_out_takes_no_place(self, store: Store) -> None:
        await limit(store, concurrency=2, rate=Rate(2, HOUR), group_concurrency=1)
        first = a_job(due_at=NOW + HOUR)
        schedule = a_schedule(status=ScheduleStatus.PAUSED)
        await add_planned(store, schedule)
        await store.enqueue([first])
        for group in ("a", "b"):
            fields = {"due_at": NOW - HOUR, "group": group}
            await store.enqueue(
                [
                    *slow_jobs(50, start_by=NOW - TICK, **fields),
                    *slow_jobs(50, after=(first.id,), **fields),
                    *slow_jobs(50, task="unknown", **fields),
                    *slow_jobs(50, schedule_id=schedule.id, **fields),
                ]
            )
        last = [*slow_jobs(1, group="a"), *slow_jobs(1, group="b")]
        await store.enqueue(last)
        assert ids_of(await claim_jobs(store)) == ids_of(last)

    async def test_a_job_that_becomes_free_stands_in_line(self, store: Store) -> None:
        await limit(store, concurrency=1)
        (first,) = slow_jobs(1)
        (second,) = slow_jobs(1, after=(first.id,))
        await store.enqueue([first, second])
        (runs,) = await claim_jobs(store)
        await end(store, runs)
        assert ids_of(await claim_jobs(store)) == [second.id]

    async def test_a_job_that_is_retried_by_hand_stands_in_line(self, store: Store) -> None:
        await limit(store, group_concurrency=1)
        first, second = slow_jobs(2, group="a")
        await store.enqueue([first, second])
        await store.cancel([first.id], "by hand", NOW)
        await store.retry([first.id], NOW)
        assert ids_of(await claim_jobs(store)) == [first.id]
        assert await claim_jobs(store) == ()

    async def test_an_edit_of_the_schedule_takes_its_jobs_to_the_limits_of_their_queue(
        self, store: Store
    ) -> None:
        await limit(store, concurrency=1)
        schedule = a_schedule()
        jobs = [an_occurrence(schedule, NOW - number * SECOND) for number in (2, 1)]
        await add_planned(store, schedule, *jobs)
        await store.update_schedule(replace(schedule, queue="slow", version=2), None, NOW)
        assert ids_of(await claim_jobs(store)) == [jobs[0].id]

    @pytest.mark.parametrize("overlap", PUTTING_OFF)
    async def test_a_job_alone_in_its_schedule_runs_within_limits(
        self, store: Store, overlap: Overlap
    ) -> None:
        await limit(store, concurrency=2)
        schedule = a_schedule(overlap=overlap, queue="slow")
        job = an_occurrence(schedule)
        await add_planned(store, schedule, job, an_occurrence(schedule, NOW + HOUR))
        assert ids_of(await claim_jobs(store)) == [job.id]

    @pytest.mark.parametrize("overlap", PUTTING_OFF)
    async def test_of_two_of_a_schedule_in_one_claim_only_one_runs(
        self, store: Store, overlap: Overlap
    ) -> None:
        await limit(store, concurrency=5, group_concurrency=5)
        schedule = a_schedule(overlap=overlap, queue="slow")
        jobs = [an_occurrence(schedule, at, group="a") for at in (NOW - HOUR, NOW)]
        await add_planned(store, schedule, *jobs)
        await claim_jobs(store)
        states = [(await stored_job(store, job)).state for job in jobs]
        assert states.count(JobState.RUNNING) == 1

    @pytest.mark.parametrize("overlap", PUTTING_OFF)
    async def test_what_overlap_puts_off_takes_no_place(
        self, store: Store, overlap: Overlap
    ) -> None:
        await limit(store, concurrency=2, rate=Rate(2, HOUR), group_concurrency=2)
        schedule = a_schedule(overlap=overlap, queue="slow")
        earlier, later = (an_occurrence(schedule, at, group="a") for at in (NOW - HOUR, NOW))
        await add_planned(store, schedule, earlier, later)
        await claim_jobs(store, now=NOW - HOUR)
        (other,) = slow_jobs(1, group="a")
        await store.enqueue([other])
        assert ids_of(await claim_jobs(store)) == [other.id]

    async def test_skip_cancels_the_later_job_within_limits(self, store: Store) -> None:
        await limit(store, concurrency=5)
        schedule = a_schedule(overlap=Overlap.SKIP, queue="slow")
        earlier, later = an_occurrence(schedule, NOW - HOUR), an_occurrence(schedule)
        await add_planned(store, schedule, earlier, later)
        await claim_jobs(store, now=NOW - HOUR)
        assert await claim_jobs(store) == ()
        skipped = await stored_job(store, later)
        assert (skipped.state, skipped.finished_at) == (JobState.CANCELLED, NOW)
        assert skipped.reason

    async def test_wait_runs_one_after_the_other_within_limits(self, store: Store) -> None:
        await limit(store, concurrency=5)
        schedule = a_schedule(overlap=Overlap.WAIT, queue="slow")
        jobs = [an_occurrence(schedule, NOW - number * SECOND) for number in (3, 2, 1, 0)]
        await add_planned(store, schedule, *jobs)
        ran: list[str] = []
        for _ in jobs:
            (job,) = await claim_jobs(store)
            ran.append(job.id)
            await end(store, job)
        assert ran == ids_of(jobs)

    async def test_replace_asks_the_running_job_to_stop_within_limits(self, store: Store) -> None:
        await limit(store, concurrency=5)
        schedule = a_schedule(overlap=Overlap.REPLACE, queue="slow")
        earlier, later = an_occurrence(schedule, NOW - HOUR), an_occurrence(schedule)
        await add_planned(store, schedule, earlier, later)
        (first,) = await claim_jobs(store, now=NOW - HOUR)
        assert await claim_jobs(store) == ()
        assert (await stored_job(store, earlier)).cancel_reason
        await end(store, first, Cancelled("replaced"))
        assert ids_of(await claim_jobs(store)) == [later.id]
