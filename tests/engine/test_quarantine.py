"""A worker keeps jobs whose worker died while they ran apart from others."""

import asyncio
from typing import Any

import pytest

from conditions import eventually
from engine.harness import EngineHarness, OthersGone
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job, JobState, Suspicion
from onbeat.model.limits import RESCUE_MAX
from onbeat.model.outcome import Released
from onbeat.model.target import HandlerTarget
from onbeat.ports.store import ClaimRequest
from onbeat.rules.suspicion import FREE_LOSSES
from onbeat.testing.build import SECOND, a_job, a_worker
from onbeat.testing.store_contract.steps import a_settlement


class Gate:
    """Handlers that run until they are let go, and the most that ever ran beside each."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.inside = 0
        self.most = 0

    async def work(self) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.open.wait()
        self.inside -= 1


async def lost_together(bench: EngineHarness, count: int, *, worker: str = "dies") -> list[Job]:
    """So many jobs, lost with one worker that ran them, after the losses that leave no bound."""
    jobs = [a_job(target=HandlerTarget("work"), lost=FREE_LOSSES) for _ in range(count)]
    await bench.store.enqueue(jobs)
    await claim_as(bench, worker, count)
    await rescue(bench)
    return jobs


async def claim_as(bench: EngineHarness, worker: str, limit: int) -> tuple[Any, ...]:
    await bench.store.heartbeat(a_worker(id=WorkerId(worker)))
    claimed = await bench.store.claim(
        ClaimRequest(
            worker=WorkerId(worker),
            now=bench.clock.now(),
            limit=limit,
            lanes=frozenset({"work"}),
            queues=None,
        )
    )
    return claimed.jobs


async def rescue(bench: EngineHarness) -> None:
    bench.rescuer.liveness = OthersGone(bench.row.id)
    await bench.rescuer.rescue_expired()
    bench.clock.set(bench.clock.now() + 60 * SECOND)


async def turn(bench: EngineHarness) -> None:
    """Claim until nothing more is taken."""
    await eventually(lambda: nothing_taken(bench), "nothing more is taken")
    await eventually(lambda: not bench.worker.handing_back, "all is handed back")


async def nothing_taken(bench: EngineHarness) -> bool:
    return await bench.begin_due() == 0


async def test_jobs_that_were_lost_together_run_again_in_half_that_company() -> None:
    gate = Gate()
    async with EngineHarness(work=gate.work, concurrency=10) as bench:
        await lost_together(bench, 8)
        await turn(bench)
        assert len(bench.worker.running) == 4
        assert bench.worker.capacity() == 0
        gate.open.set()
        await eventually(lambda: not bench.worker.running, "they have ended")
        await turn(bench)
        await eventually(lambda: not bench.worker.running, "the others have ended too")
        assert gate.most == 4


async def test_after_their_first_loss_jobs_go_on_at_once_beside_others() -> None:
    gate = Gate()
    async with EngineHarness(work=gate.work, concurrency=10) as bench:
        neighbour = a_job(target=HandlerTarget("work"))
        await bench.begin(neighbour)
        jobs = [a_job(target=HandlerTarget("work")) for _ in range(8)]
        await bench.store.enqueue(jobs)
        await claim_as(bench, "dies", 8)
        await rescue(bench)
        await turn(bench)
        assert set(bench.worker.running) == {neighbour.id, *(job.id for job in jobs)}


async def test_innocents_that_were_lost_with_others_all_succeed() -> None:
    gate = Gate()
    gate.open.set()
    async with EngineHarness(work=gate.work, concurrency=10) as bench:
        jobs = await lost_together(bench, 47)

        async def all_done() -> bool:
            await turn(bench)
            result = [await bench.job(job) for job in jobs]
            return {(job.state, job.lost) for job in result} == {
                (JobState.SUCCEEDED, FREE_LOSSES + 1)
            }

        await eventually(all_done, "all have succeeded after no further loss")
        assert gate.most <= 10


async def test_a_suspect_that_has_to_be_alone_waits_for_its_neighbours_and_keeps_new_ones_out() -> (
    None
):
    gate = Gate()
    async with EngineHarness(work=gate.work, concurrency=10) as bench:
        (suspect,) = await lost_together(bench, 1)
        fresh = a_job(target=HandlerTarget("work"))
        await bench.begin(fresh)
        assert list(bench.worker.running) == [fresh.id]
        assert bench.worker.known_jobs() == {fresh.id, suspect.id}
        assert bench.worker.capacity() == 0
        gate.open.set()
        await bench.until(suspect, JobState.SUCCEEDED)
        assert gate.most == 1


async def test_the_death_of_a_worker_with_a_suspect_alone_is_a_death_alone() -> None:
    gate = Gate()
    async with EngineHarness(work=gate.work, concurrency=10) as bench:
        await lost_together(bench, 2)
        await turn(bench)
        held = await bench.store.held_leases(bench.row.id)
        assert len(held) == len(bench.worker.running) == 1


async def test_a_suspect_without_room_here_is_left_to_others_and_costs_no_try() -> None:
    gate = Gate()
    async with EngineHarness(work=gate.work, concurrency=10) as bench:
        jobs = await lost_together(bench, 3)
        await turn(bench)
        result = [await bench.job(job) for job in jobs]
        waiting = [job for job in result if job.state is JobState.WAITING]
        assert len(waiting) == 2
        assert {(job.attempt, job.released) for job in waiting} == {(1, 0)}
        assert len(await claim_as(bench, "other", 10)) == 2


async def test_after_suspects_a_worker_takes_its_full_measure_again() -> None:
    async def work() -> None: ...

    async with EngineHarness(work=work, concurrency=10) as bench:
        await lost_together(bench, 1)
        for _ in range(20):
            await bench.begin(a_job(target=HandlerTarget("work")))
            await eventually(lambda: not bench.worker.running, "it has ended")
        assert bench.worker.capacity() == 10


async def test_a_suspect_that_waits_can_be_cancelled() -> None:
    gate = Gate()
    async with EngineHarness(work=gate.work, concurrency=10) as bench:
        (suspect,) = await lost_together(bench, 1)
        await bench.begin(a_job(target=HandlerTarget("work")))
        await bench.store.cancel([suspect.id], "not needed", bench.clock.now())
        await bench.beat()
        result = await bench.until(suspect, JobState.CANCELLED)
        assert result.reason == "not needed"
        assert not bench.worker.quarantine.waiting


async def test_a_suspect_that_waits_is_handed_back_by_a_drain() -> None:
    gate = Gate()
    async with EngineHarness(work=gate.work, concurrency=10) as bench:
        (suspect,) = await lost_together(bench, 1)
        await bench.begin(a_job(target=HandlerTarget("work")))
        gate.open.set()
        await bench.worker.drain(10 * SECOND)
        result = await bench.job(suspect)
        assert result.state in {JobState.WAITING, JobState.SUCCEEDED}
        assert not await bench.store.held_leases(bench.row.id)


async def test_a_suspect_whose_lease_was_lost_while_it_waited_does_not_begin() -> None:
    gate = Gate()
    async with EngineHarness(work=gate.work, concurrency=10) as bench:
        (suspect,) = await lost_together(bench, 1)
        await bench.begin(a_job(target=HandlerTarget("work")))
        (waits,) = bench.worker.quarantine.waiting
        await bench.store.settle([a_settlement(waits, Released())])
        await bench.beat()
        assert not bench.worker.quarantine.waiting
        assert (await bench.job(suspect)).state is JobState.WAITING


# What the rescuer knows.


async def company(bench: EngineHarness, job: Job) -> Suspicion:
    return (await bench.job(job)).suspicion


async def test_the_company_is_what_the_same_worker_held() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        jobs = [a_job(target=HandlerTarget("work"), lost=FREE_LOSSES) for _ in range(5)]
        await bench.store.enqueue(jobs)
        four = await claim_as(bench, "a", 4)
        (one,) = await claim_as(bench, "b", 1)
        await rescue(bench)
        assert {(await company(bench, job)).company_max for job in four} == {2}
        result = await company(bench, one)
        assert (result.alone, result.company_max) == (0, 1), "two died at once: no evidence"


async def test_a_worker_that_held_more_than_one_round_takes_leaves_nobody_alone() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        jobs = await lost_together(bench, RESCUE_MAX + 1)
        await rescue(bench)
        result = [await company(bench, job) for job in jobs]
        assert {one.alone for one in result} == {0}
        assert {one.company_max for one in result} == {RESCUE_MAX // 2}


@pytest.mark.parametrize("count", [1, 2])
async def test_only_a_death_alone_counts(count: int) -> None:
    async with EngineHarness(work=lambda: None) as bench:
        jobs = await lost_together(bench, count)
        assert {(await company(bench, job)).alone for job in jobs} == {1 if count == 1 else 0}


async def test_a_job_that_was_handed_back_stays_a_suspect() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        (job,) = await lost_together(bench, 1)
        (again,) = await claim_as(bench, "b", 1)
        await bench.worker.record(again, Released())
        assert (await company(bench, job)).company_max == 1
