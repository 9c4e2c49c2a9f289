"""Concurrent claimants, in one loop and in many threads, never exceed a limit."""

from collections import Counter
from collections.abc import Iterable

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job, Progress
from onbeat.model.queue import Rate
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, a_job
from onbeat.testing.store_contract.races import in_tasks, in_threads
from onbeat.testing.store_contract.steps import (
    a_settlement,
    claim_jobs,
    ids_of,
    limit,
    slow_jobs,
)

PLACES = 5
JOBS = 120


async def claim_as(store: Store, number: int) -> tuple[Job, ...]:
    return await claim_jobs(store, worker=WorkerId(f"worker-{number}"), limit=7)


def together(parts: Iterable[Iterable[Job]]) -> list[Job]:
    return [job for part in parts for job in part]


class RunningJobs:
    """The jobs that certainly run: claimed, and not yet being settled."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.jobs: set[str] = set()
        self.ended: list[str] = []

    async def work(self, store: Store, number: int) -> None:
        jobs = await claim_as(store, number)
        self.jobs.update(ids_of(jobs))
        await store.note_progress([(job.id, job.token, Progress(1)) for job in jobs])
        assert len(self.jobs) <= self.places
        self.jobs.difference_update(ids_of(jobs))
        answers = await store.settle([a_settlement(job) for job in jobs])
        assert all(answers), "nobody else can hold these leases"
        self.ended += ids_of(jobs)


class AdmissionRaceContract:
    async def test_many_tasks_never_pass_the_concurrency_of_a_queue(self, store: Store) -> None:
        await limit(store, concurrency=PLACES)
        await store.enqueue(slow_jobs(JOBS))
        taken = together(await in_tasks(lambda number: claim_as(store, number)))
        rest = await claim_jobs(store)
        assert len(taken) + len(rest) == PLACES

    async def test_many_threads_never_pass_the_concurrency_of_a_queue(self, store: Store) -> None:
        await limit(store, concurrency=PLACES)
        await store.enqueue(slow_jobs(JOBS))
        taken = together(await in_threads(lambda number: claim_as(store, number)))
        rest = await claim_jobs(store)
        assert len(taken) + len(rest) == PLACES

    async def test_many_tasks_never_pass_the_rate_of_a_queue(self, store: Store) -> None:
        await limit(store, rate=Rate(10, HOUR))
        await store.enqueue(slow_jobs(JOBS))
        taken = together(await in_tasks(lambda number: claim_as(store, number)))
        rest = await claim_jobs(store)
        assert len(taken) + len(rest) == 10

    async def test_many_threads_never_pass_the_limits_of_groups(self, store: Store) -> None:
        await limit(store, group_concurrency=3, group_rate=Rate(2, HOUR))
        await store.enqueue([job for name in "abcd" for job in slow_jobs(20, group=name)])
        taken = together(await in_threads(lambda number: claim_as(store, number)))
        rest = await claim_jobs(store)
        assert Counter(job.group for job in (*taken, *rest)) == dict.fromkeys("abcd", 2)

    async def test_many_tasks_work_off_a_limited_queue_and_no_more_run_than_may(
        self, store: Store
    ) -> None:
        await limit(store, concurrency=PLACES)
        jobs = slow_jobs(JOBS)
        await store.enqueue(jobs)
        floor = RunningJobs(PLACES)
        while len(floor.ended) < JOBS:
            before = len(floor.ended)
            await in_tasks(lambda number: floor.work(store, number))
            assert len(floor.ended) > before, "somebody gets something while there is something"
        assert Counter(floor.ended) == Counter(ids_of(jobs))

    async def test_many_threads_claim_each_job_of_limited_and_other_queues_once(
        self, store: Store
    ) -> None:
        await limit(store, "a", concurrency=JOBS, rate=Rate(JOBS, HOUR))
        await limit(store, "b", group_concurrency=JOBS)
        jobs = [
            a_job(queue=queue, group=f"group-{number % 3}")
            for number in range(JOBS)
            for queue in "abc"
        ]
        await store.enqueue(jobs)
        taken: list[Job] = []
        while len(taken) < len(jobs):
            bites = together(await in_threads(lambda number: claim_as(store, number)))
            assert bites, "somebody gets something while there is something"
            taken += bites
        assert Counter(ids_of(taken)) == Counter(ids_of(jobs))
