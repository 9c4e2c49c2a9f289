"""Sweeps: ended jobs of a queue or a state that are kept for less than others."""

from msgspec.structs import replace

from onbeat.model.job import Job, JobState
from onbeat.model.keep_rule import Sweep, Swept
from onbeat.model.outcome import Outcome
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, MINUTE, NOW, a_job
from onbeat.testing.store_contract.job_logs import a_line
from onbeat.testing.store_contract.steps import FAILURE, SUCCESS, end, run_job

BULK = Sweep(state=JobState.SUCCEEDED, before=NOW + HOUR, queue="bulk")


async def ended_in(store: Store, queue: str, outcome: Outcome = SUCCESS) -> Job:
    return await end(store, await run_job(store, a_job(queue=queue)), outcome)


async def left(store: Store, *jobs: Job) -> list[bool]:
    return [await store.job(job.id) is not None for job in jobs]


class SweepContract:
    async def test_jobs_of_a_queue_and_a_state_go(self, store: Store) -> None:
        gone, failed = await ended_in(store, "bulk"), await ended_in(store, "bulk", FAILURE)
        other = await ended_in(store, "other")
        assert await store.sweep(BULK, 10) == Swept(deleted=1)
        assert await left(store, gone, failed, other) == [False, True, True]

    async def test_jobs_of_all_queues_but_some_go(self, store: Store) -> None:
        kept, gone = await ended_in(store, "bulk"), await ended_in(store, "other")
        sweep = replace(BULK, queue=None, others=("bulk", "mail"))
        assert await store.sweep(sweep, 10) == Swept(deleted=1)
        assert await left(store, kept, gone) == [True, False]

    async def test_what_ended_at_the_bound_or_later_stays(self, store: Store) -> None:
        old = await end(store, await run_job(store, a_job(queue="bulk")), now=NOW)
        edge = await end(store, await run_job(store, a_job(queue="bulk")), now=NOW + MINUTE)
        assert (await store.sweep(replace(BULK, before=NOW + MINUTE), 10)).deleted == 1
        assert await left(store, old, edge) == [False, True]

    async def test_live_jobs_stay(self, store: Store) -> None:
        runs = await run_job(store, a_job(queue="bulk"))
        await store.enqueue([waits := a_job(queue="bulk", due_at=NOW + HOUR)])
        assert await store.sweep(BULK, 10) == Swept(deleted=0)
        assert await left(store, runs, waits) == [True, True]

    async def test_a_sweep_goes_on_where_it_stopped(self, store: Store) -> None:
        """Also among jobs that ended at one instant."""
        queues = ("other", "bulk", "bulk", "other", "bulk")
        jobs = [await ended_in(store, queue) for queue in queues]
        first = await store.sweep(BULK, 2)
        assert first.place is not None
        second = await store.sweep(replace(BULK, place=first.place), 2)
        third = await store.sweep(replace(BULK, place=second.place), 2)
        assert first.deleted + second.deleted + third.deleted == 3
        assert third.place is None
        assert await left(store, *jobs) == [queue == "other" for queue in queues]

    async def test_what_was_examined_is_not_read_again(self, store: Store) -> None:
        await ended_in(store, "other")
        swept = await store.sweep(BULK, 1)
        assert swept.deleted == 0
        sweep = replace(BULK, queue="other", place=swept.place)
        assert await store.sweep(sweep, 1) == Swept(deleted=0)

    async def test_the_history_goes_with_a_swept_job(self, store: Store) -> None:
        job = await run_job(store, a_job(queue="bulk"))
        await store.cancel([job.id], "by hand", NOW)
        await store.add_log_lines([a_line(job)])
        await end(store, job)
        assert (await store.sweep(BULK, 10)).deleted == 1
        assert list(await store.attempts(job.id)) == []
        assert list(await store.transitions(job.id)) == []
        assert await store.export_log_lines(None, 10) == []
