"""Workers: heartbeats, leases, and the jobs of dead workers."""

from msgspec.structs import replace

from onbeat.model.ids import WorkerId
from onbeat.model.outcome import Lost
from onbeat.ports.store import HeldLease, Store
from onbeat.testing.build import NOW, SECOND, a_job, a_worker
from onbeat.testing.store_contract.steps import claim_jobs, end, ids_of, run_job


class HeartbeatContract:
    async def test_a_beat_keeps_the_worker(self, store: Store) -> None:
        worker = a_worker(queues=("a", "b"), lanes=("x", "y"), boot="boot", concurrency=4)
        await store.heartbeat(worker)
        assert list(await store.workers()) == [worker]

    async def test_a_later_beat_takes_the_place_of_the_earlier(self, store: Store) -> None:
        worker = a_worker()
        await store.heartbeat(worker)
        later = replace(worker, beat=2, beat_at=NOW + SECOND)
        await store.heartbeat(later)
        assert list(await store.workers()) == [later]

    async def test_a_beat_answers_with_the_leases_held(self, store: Store) -> None:
        worker = a_worker()
        job = await run_job(store, a_job(), worker=worker.id)
        assert list(await store.heartbeat(worker)) == [HeldLease(job.id, job.token, None)]

    async def test_a_beat_tells_which_jobs_shall_stop(self, store: Store) -> None:
        worker = a_worker()
        job = await run_job(store, a_job(), worker=worker.id)
        await store.cancel([job.id], "by hand", NOW)
        assert list(await store.heartbeat(worker)) == [HeldLease(job.id, job.token, "by hand")]

    async def test_leases_of_other_workers_are_not_told(self, store: Store) -> None:
        await run_job(store, a_job(), worker=a_worker().id)
        assert list(await store.heartbeat(a_worker())) == []

    async def test_a_lease_taken_back_is_held_no_more(self, store: Store) -> None:
        worker = a_worker()
        job = await run_job(store, a_job(), worker=worker.id)
        await end(store, job, Lost("no heartbeat"))
        assert list(await store.heartbeat(worker)) == []

    async def test_workers_are_told_with_what_they_run(self, store: Store) -> None:
        busy, idle = a_worker(), a_worker()
        await store.heartbeat(busy)
        await store.heartbeat(idle)
        await run_job(store, a_job(), worker=busy.id)
        await run_job(store, a_job(), worker=busy.id)
        counts = {worker.id: worker.running for worker in await store.workers()}
        assert counts == {busy.id: 2, idle.id: 0}


class RescueContract:
    async def test_jobs_of_the_dead_are_abandoned(self, store: Store) -> None:
        worker = a_worker()
        await store.heartbeat(worker)
        job = await run_job(store, a_job(), worker=worker.id)
        assert list(await store.abandoned_jobs({worker.id}, NOW, 10)) == [job]

    async def test_jobs_of_a_worker_without_a_row_are_abandoned(self, store: Store) -> None:
        job = await run_job(store, a_job(), worker=WorkerId("unknown"))
        assert list(await store.abandoned_jobs([], NOW, 10)) == [job]

    async def test_jobs_of_the_living_are_not_abandoned(self, store: Store) -> None:
        living, dead = a_worker(), a_worker()
        await store.heartbeat(living)
        await store.heartbeat(dead)
        await run_job(store, a_job(), worker=living.id)
        assert list(await store.abandoned_jobs({dead.id}, NOW, 10)) == []

    async def test_a_waiting_job_is_not_abandoned(self, store: Store) -> None:
        worker = a_worker()
        await end(store, await run_job(store, a_job(), worker=worker.id), Lost("gone"))
        assert list(await store.abandoned_jobs({worker.id}, NOW, 10)) == []

    async def test_at_most_the_limit_is_told_as_abandoned(self, store: Store) -> None:
        await store.enqueue([a_job() for _ in range(5)])
        await claim_jobs(store, worker=WorkerId("unknown"))
        assert len(await store.abandoned_jobs([], NOW, 3)) == 3

    async def test_a_rescued_job_goes_to_another_worker(self, store: Store) -> None:
        job = await run_job(store, a_job(), worker=WorkerId("unknown"))
        await end(store, job, Lost("gone"))
        assert ids_of(await claim_jobs(store)) == [job.id]

    async def test_an_idle_worker_is_forgotten(self, store: Store) -> None:
        worker = a_worker()
        await store.heartbeat(worker)
        assert await store.forget_workers([worker.id]) == 1
        assert list(await store.workers()) == []

    async def test_a_worker_that_runs_something_is_not_forgotten(self, store: Store) -> None:
        worker = a_worker()
        await store.heartbeat(worker)
        await run_job(store, a_job(), worker=worker.id)
        assert await store.forget_workers([worker.id]) == 0
        assert len(await store.workers()) == 1

    async def test_a_worker_that_beats_again_is_not_forgotten(self, store: Store) -> None:
        silent, back = a_worker(beat=5), a_worker(beat=5)
        for worker in (silent, back, replace(back, beat=6)):
            await store.heartbeat(worker)
        judged = {silent.id: 5, back.id: 5, WorkerId("unknown"): 5}
        assert await store.forget_workers(judged.keys(), judged) == 1
        assert [worker.id for worker in await store.workers()] == [back.id]
        assert await store.forget_workers([back.id], {}) == 0

    async def test_only_the_workers_named_are_forgotten(self, store: Store) -> None:
        worker = a_worker()
        await store.heartbeat(worker)
        assert await store.forget_workers([WorkerId("unknown")]) == 0
        assert list(await store.workers()) == [worker]

    async def test_rows_that_are_written_again_stay_as_they_were(self, store: Store) -> None:
        one, two = a_worker(beat=7), a_worker()
        await store.heartbeat(one)
        await store.heartbeat(two)
        for _ in range(3):
            assert await store.rewrite_workers([one.id, WorkerId("unknown")]) == 1
            assert {row.id: row for row in await store.workers()} == {one.id: one, two.id: two}
