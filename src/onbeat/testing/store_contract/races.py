"""Concurrent callers, in one loop and in many threads: each operation takes effect once."""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from onbeat.model.errors import NotFound
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Lost
from onbeat.model.page import JobFilter
from onbeat.model.schedule import Schedule
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, NOW, a_job, a_plan, a_schedule, an_occurrence
from onbeat.testing.store_contract.steps import (
    FAILURE,
    a_settlement,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    run_job,
    stored_job,
)

CALLERS = 8
JOBS = 1_000
ROUNDS = 10
SENT = 40
LIVE_STATES = frozenset({JobState.WAITING, JobState.RUNNING})

Answer = TypeVar("Answer")


async def claim_all(store: Store, worker: str) -> list[str]:
    """Claim in small batches until no due job is left."""
    ids: list[str] = []
    while jobs := await claim_jobs(store, worker=WorkerId(worker), limit=7):
        ids += ids_of(jobs)
    return ids


async def work_all(store: Store, worker: str) -> list[str]:
    """Claim and settle until no due job is left."""
    ids: list[str] = []
    while jobs := await claim_jobs(store, worker=WorkerId(worker), limit=7):
        answers = await store.settle([a_settlement(job) for job in jobs])
        assert all(answers), "nobody else can hold these leases"
        ids += ids_of(jobs)
    return ids


async def in_threads(act: Callable[[int], Coroutine[Any, Any, Answer]]) -> Sequence[Answer]:
    """Run `act` once in each of many concurrent threads, each with its own loop."""
    start = threading.Barrier(CALLERS)
    interval = sys.getswitchinterval()

    async def together(number: int) -> Answer:
        # All loops run before any of them acts; otherwise the first would finish before the last
        # begins.
        start.wait()
        return await act(number)

    loop = asyncio.get_running_loop()
    # A short switch interval, so that threads interleave within operations.
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(CALLERS) as pool:
            return await asyncio.gather(
                *(
                    loop.run_in_executor(pool, asyncio.run, together(number))
                    for number in range(CALLERS)
                )
            )
    finally:
        sys.setswitchinterval(interval)


async def in_tasks(act: Callable[[int], Awaitable[Answer]]) -> Sequence[Answer]:
    return await asyncio.gather(*(act(number) for number in range(CALLERS)))


async def settle_or_send_again(
    store: Store, claimed: Sequence[Job], sent: Sequence[Job], number: int
) -> None:
    for place in range(number // 2, len(sent), CALLERS // 2):
        if number % 2:
            await store.enqueue([sent[place]])
        else:
            assert all(await store.settle([a_settlement(claimed[place])]))


async def delete_or_add_to(store: Store, schedule: Schedule, number: int) -> None:
    """One caller deletes the schedule; the others trigger or backfill it until it is gone."""
    if number == 0:
        await store.delete_schedule(schedule.id, NOW)
        return
    with suppress(NotFound):
        for hours in range(SENT):
            if number % 2:
                await store.trigger(schedule.id, a_job(schedule_id=schedule.id))
            else:
                past = an_occurrence(schedule, NOW - (hours * CALLERS + number) * HOUR)
                await store.backfill(schedule.id, [past], ())


async def settle_or_retry(store: Store, claimed: Sequence[Job], number: int) -> list[JobState]:
    """The states that the retries answer; half of the callers fail the jobs meanwhile."""
    states: list[JobState] = []
    for place in range(number // 2, len(claimed), CALLERS // 2):
        job = claimed[place]
        if number % 2:
            assert all(await store.settle([a_settlement(job, FAILURE)]))
        else:
            states += [one.state for one in await store.retry([job.id], NOW) if one is not None]
    return states


async def cancel_or_retry(store: Store, failed: Sequence[Job], number: int) -> list[JobState]:
    """The states that the cancels answer; half of the callers retry the jobs meanwhile."""
    states: list[JobState] = []
    for place in range(number // 2, len(failed), CALLERS // 2):
        id = failed[place].id
        if number % 2:
            await store.retry([id], NOW)
        else:
            states += [
                one.state for one in await store.cancel([id], "done", NOW) if one is not None
            ]
    return states


class RaceContract:
    async def test_many_tasks_claim_each_job_once(self, store: Store) -> None:
        jobs = [a_job() for _ in range(JOBS)]
        await store.enqueue(jobs)
        taken = await in_tasks(lambda number: claim_all(store, f"worker-{number}"))
        assert Counter(id for ids in taken for id in ids) == Counter(ids_of(jobs))

    async def test_many_threads_claim_each_job_once(self, store: Store) -> None:
        jobs = [a_job() for _ in range(JOBS)]
        await store.enqueue(jobs)
        taken = await in_threads(lambda number: claim_all(store, f"worker-{number}"))
        assert Counter(id for ids in taken for id in ids) == Counter(ids_of(jobs))

    async def test_many_threads_settle_what_they_claimed(self, store: Store) -> None:
        await store.enqueue([a_job() for _ in range(JOBS)])
        await in_threads(lambda number: work_all(store, f"worker-{number}"))
        assert (await store.stats(NOW)).jobs["succeeded"] == JOBS

    async def test_many_threads_enqueue_and_lose_nothing(self, store: Store) -> None:
        jobs = [[a_job() for _ in range(20)] for _ in range(CALLERS)]
        await in_threads(lambda number: store.enqueue(jobs[number]))
        page = await store.jobs(JobFilter(limit=1_000))
        assert sorted(ids_of(page.items)) == sorted(job.id for part in jobs for job in part)

    async def test_of_many_with_one_unique_key_one_is_created(self, store: Store) -> None:
        jobs = [a_job(unique="key") for _ in range(CALLERS)]
        answers = await in_threads(lambda number: store.enqueue([jobs[number]]))
        assert sum(answer.created for (answer,) in answers) == 1
        assert len({answer.id for (answer,) in answers}) == 1

    async def test_of_many_words_on_one_attempt_one_counts(self, store: Store) -> None:
        job = await run_job(store, a_job())
        settlements = [
            a_settlement(job, Lost(f"rescuer {number}"), NOW) for number in range(CALLERS)
        ]
        answers = await in_threads(lambda number: store.settle([settlements[number]]))
        assert sum(was_ours for (was_ours,) in answers) == 1
        assert len(await store.attempts(job.id)) == 1

    async def test_many_planners_plan_an_occurrence_once(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        plans = [
            a_plan(schedule, *(an_occurrence(schedule, NOW + n * HOUR) for n in range(1, 9)))
            for _ in range(CALLERS)
        ]
        await in_threads(lambda number: store.apply_plans([plans[number]]))
        page = await store.jobs(JobFilter(schedule_id=schedule.id, limit=1_000))
        assert len({job.occurrence for job in page.items}) == len(page.items) == 8

    async def test_of_many_edits_of_one_reading_one_is_stored(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        edits = [
            a_schedule(id=schedule.id, name=f"edit {number}", version=2)
            for number in range(CALLERS)
        ]
        answers = await in_threads(lambda number: store.update_schedule(edits[number], None, NOW))
        assert sum(answers) == 1

    async def test_a_schedule_that_is_deleted_meanwhile_gets_no_further_job(
        self, store: Store
    ) -> None:
        for _ in range(ROUNDS):
            schedule = a_schedule()
            await add_planned(store, schedule)
            await in_threads(partial(delete_or_add_to, store, schedule))
            page = await store.jobs(JobFilter(schedule_id=schedule.id, limit=1_000))
            assert {job.state for job in page.items} <= {JobState.CANCELLED}

    async def test_a_cancel_beside_a_claim_leaves_no_doubt(self, store: Store) -> None:
        jobs = [a_job() for _ in range(JOBS)]
        await store.enqueue(jobs)

        async def act(number: int) -> object:
            if number % 2:
                return await claim_all(store, f"worker-{number}")
            return await store.cancel([job.id for job in jobs], "by hand", NOW)

        await in_threads(act)
        after = [await stored_job(store, job) for job in jobs]
        assert all(
            job.state is JobState.CANCELLED or (job.state is JobState.RUNNING and job.token == 1)
            for job in after
        )

    async def test_a_retry_beside_an_end_comes_before_or_after_it(self, store: Store) -> None:
        """It finds the job running, or lets it wait again: never does it show one that ended."""
        for _ in range(ROUNDS):
            await store.enqueue([a_job() for _ in range(SENT)])
            claimed = await claim_jobs(store, limit=SENT)
            answers = await in_threads(partial(settle_or_retry, store, claimed))
            assert {state for states in answers for state in states} <= LIVE_STATES
            await store.cancel([job.id for job in claimed], "done", NOW)

    async def test_a_cancel_beside_a_retry_comes_before_or_after_it(self, store: Store) -> None:
        """It finds the job failed, or cancels it: never does it show one that goes on."""
        for _ in range(ROUNDS):
            await store.enqueue([a_job() for _ in range(SENT)])
            failed = await claim_jobs(store, limit=SENT)
            await store.settle([a_settlement(job, FAILURE) for job in failed])
            answers = await in_threads(partial(cancel_or_retry, store, failed))
            assert LIVE_STATES.isdisjoint(state for states in answers for state in states)
            await store.cancel([job.id for job in failed], "done", NOW)

    async def test_jobs_that_are_sent_again_while_they_end_run_once(self, store: Store) -> None:
        for number in range(ROUNDS):
            jobs = [a_job(unique=f"{number}-{n}" if n % 2 else None) for n in range(SENT)]
            await store.enqueue(jobs)
            claimed = await claim_jobs(store, limit=SENT)
            await in_threads(partial(settle_or_send_again, store, claimed, jobs))
        counts = (await store.stats(NOW)).jobs
        assert (counts["succeeded"], counts["waiting"], counts["running"]) == (ROUNDS * SENT, 0, 0)
        assert not await claim_jobs(store)

    async def test_predecessors_that_end_at_once_free_a_job_once(self, store: Store) -> None:
        firsts = [a_job() for _ in range(CALLERS)]
        last = a_job(after=tuple(job.id for job in firsts))
        await store.enqueue([*firsts, last])
        jobs = await claim_jobs(store)
        await in_threads(lambda number: end(store, jobs[number]))
        assert ids_of(await claim_jobs(store)) == [last.id]
