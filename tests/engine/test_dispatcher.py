import asyncio
from collections.abc import Sequence

import pytest

from engine.harness import EngineHarness
from onbeat.engine import dispatcher
from onbeat.engine.dispatcher import LOOK_AGAIN_MAX
from onbeat.model.errors import Unavailable
from onbeat.model.job import Job, JobState
from onbeat.model.limits import CLAIM_MAX
from onbeat.ports.store import Claimed, ClaimRequest
from onbeat.testing.build import HOUR, NOW, SECOND, TICK, a_job


async def work() -> None: ...


async def test_due_jobs_are_claimed_and_begun() -> None:
    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        assert await bench.dispatcher.dispatch_due() == (1, None)
        (begun,) = [running.job for running in bench.worker.running.values()]
        assert (begun.id, begun.state, begun.attempt, begun.token) == (
            job.id,
            JobState.RUNNING,
            1,
            job.token + 1,
        )


async def test_no_more_is_claimed_than_there_is_room_for() -> None:
    async with EngineHarness(work=work, concurrency=2) as bench:
        await bench.store.enqueue([a_job() for _ in range(5)])
        assert (await bench.dispatcher.dispatch_due())[0] == 2
        assert await bench.dispatcher.dispatch_due() == (0, None)
        await bench.worker.idle.wait()
        assert (await bench.dispatcher.dispatch_due())[0] == 2


async def test_without_room_the_store_is_not_even_asked() -> None:
    async with EngineHarness(work=work, concurrency=0) as bench:
        bench.store.calls.clear()
        assert await bench.dispatcher.step() == LOOK_AGAIN_MAX
        assert bench.store.calls == []


async def test_nothing_is_claimed_before_it_is_due() -> None:
    async with EngineHarness(work=work) as bench:
        job = a_job(due_at=NOW + SECOND)
        await bench.store.enqueue([job])
        assert await bench.dispatcher.dispatch_due() == (0, NOW + SECOND)
        bench.clock.set(NOW + SECOND - TICK)
        assert (await bench.dispatcher.dispatch_due())[0] == 0
        bench.clock.set(NOW + SECOND)
        assert (await bench.dispatcher.dispatch_due())[0] == 1


async def test_the_next_round_comes_when_the_next_job_is_due() -> None:
    async with EngineHarness(work=work) as bench:
        await bench.store.enqueue([a_job(due_at=NOW + 0.3 * SECOND)])
        assert await bench.dispatcher.step() == 0.3


async def test_a_wait_is_cut_so_that_a_clock_that_was_set_is_noticed() -> None:
    async with EngineHarness(work=work) as bench:
        await bench.store.enqueue([a_job(due_at=NOW + HOUR)])
        assert await bench.dispatcher.step() == LOOK_AGAIN_MAX
        bench.clock.set(NOW + HOUR)
        assert (await bench.dispatcher.dispatch_due())[0] == 1


async def test_after_a_claim_that_was_filled_the_next_round_comes_when_a_slot_is_free() -> None:
    async with EngineHarness(work=work, concurrency=5) as bench:
        await bench.store.enqueue([a_job() for _ in range(7)])
        assert await bench.dispatcher.step() == LOOK_AGAIN_MAX
        assert bench.dispatcher.may_find_more
        await bench.worker.idle.wait()
        assert await bench.dispatcher.step() == LOOK_AGAIN_MAX
        assert not bench.dispatcher.may_find_more, "it got two of five"


async def test_without_room_there_may_be_more_as_soon_as_a_slot_is_free() -> None:
    async with EngineHarness(work=work, concurrency=0) as bench:
        await bench.dispatcher.step()
        assert bench.dispatcher.may_find_more


async def test_a_claim_after_full_rounds_comes_at_once_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatcher, "ROUNDS_MAX", 1)
    async with EngineHarness(work=work, concurrency=2 * CLAIM_MAX) as bench:
        await bench.store.enqueue([a_job() for _ in range(CLAIM_MAX + 1)])
        assert await bench.dispatcher.step() == 0.0
        assert await bench.dispatcher.step() == LOOK_AGAIN_MAX
        await bench.worker.idle.wait()


async def test_where_hints_are_slow_a_busy_worker_looks_without_one() -> None:
    async with EngineHarness(work=work, concurrency=5) as bench:
        bench.store.inner.hints_at_once = False
        await bench.store.enqueue([a_job()])
        assert await bench.dispatcher.step() == 0.0
        assert await bench.dispatcher.step() == LOOK_AGAIN_MAX
        assert bench.dispatcher.may_find_more, "when a slot is free"


async def test_only_its_own_queues_and_tasks_are_claimed() -> None:
    async with EngineHarness(work=work, queues=("mail",)) as bench:
        mine, other, unknown = (
            a_job(queue="mail"),
            a_job(queue="slow"),
            a_job("elsewhere", queue="mail"),
        )
        await bench.store.enqueue([mine, other, unknown])
        await bench.begin_due()
        await bench.worker.idle.wait()
        assert (await bench.job(mine)).state is JobState.SUCCEEDED
        assert (await bench.job(other)).state is JobState.WAITING
        assert (await bench.job(unknown)).state is JobState.WAITING
        assert bench.store.inner._tables.jobs[unknown.id].attempt == 0


async def test_a_claim_that_is_under_way_is_waited_for_by_the_next() -> None:
    go = asyncio.Event()

    async def waits() -> None:
        await go.wait()

    async with EngineHarness(work=waits) as bench:
        await bench.store.enqueue([a_job() for _ in range(20)])
        counts = await asyncio.gather(*(bench.dispatcher.dispatch_due() for _ in range(3)))
        assert sum(count for count, _ in counts) == bench.worker.concurrency
        go.set()
        await bench.worker.idle.wait()


async def test_the_next_claim_is_sent_before_the_jobs_of_a_filled_one_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with EngineHarness(work=work, concurrency=2 * CLAIM_MAX + 3) as bench:
        accept = bench.worker.accept

        def note(jobs: Sequence[Job]) -> None:
            bench.store.calls.append(f"accept {len(jobs)}")
            accept(jobs)

        monkeypatch.setattr(bench.worker, "accept", note)
        await bench.store.enqueue([a_job() for _ in range(2 * CLAIM_MAX + 5)])
        bench.store.calls.clear()
        assert (await bench.dispatcher.dispatch_due())[0] == 2 * CLAIM_MAX + 3
        assert bench.store.calls[:5] == [
            "claim",
            "claim",
            f"accept {CLAIM_MAX}",
            "claim",
            f"accept {CLAIM_MAX}",
        ]
        assert bench.store.calls[5] == "accept 3"
        await bench.worker.idle.wait()


async def test_a_claim_that_was_not_filled_is_followed_by_no_other() -> None:
    async with EngineHarness(work=work, concurrency=2 * CLAIM_MAX) as bench:
        await bench.store.enqueue([a_job() for _ in range(CLAIM_MAX - 1)])
        bench.store.calls.clear()
        assert (await bench.dispatcher.dispatch_due())[0] == CLAIM_MAX - 1
        assert bench.store.calls.count("claim") == 1
        await bench.worker.idle.wait()


async def test_jobs_that_were_claimed_before_a_claim_failed_begin() -> None:
    async with EngineHarness(work=work, concurrency=2 * CLAIM_MAX) as bench:
        jobs = [a_job(due_at=NOW + n * TICK) for n in range(2 * CLAIM_MAX)]
        await bench.store.enqueue(jobs)
        bench.clock.set(jobs[-1].due_at)
        claim, answers = bench.store.inner.claim, iter([None, Unavailable("it went away")])

        async def fail_second(request: ClaimRequest) -> Claimed:
            if (error := next(answers)) is not None:
                raise error
            claimed: Claimed = await claim(request)
            return claimed

        bench.store.inner.claim = fail_second
        with pytest.raises(Unavailable):
            await bench.dispatcher.dispatch_due()
        await bench.until(jobs[CLAIM_MAX - 1], JobState.SUCCEEDED)
        assert (await bench.job(jobs[CLAIM_MAX])).state is JobState.WAITING


async def test_a_claim_whose_answer_was_lost_runs_each_job_once() -> None:
    ran = []

    async def counts() -> None:
        ran.append(1)

    async with EngineHarness(work=counts) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        bench.store.after["claim"] = 1
        await asyncio.gather(bench.dispatcher.dispatch_due(), return_exceptions=True)
        await bench.beat()
        await bench.beat()
        await bench.until(job, JobState.WAITING)
        await bench.begin_due()
        await bench.until(job, JobState.SUCCEEDED)
        assert ran == [1]


# Beats that the store refuses.


async def test_nothing_is_claimed_until_a_beat_has_succeeded_since_the_last_failure() -> None:
    async with EngineHarness(work=work) as bench:
        bench.guard.begin(lambda: None)
        await bench.store.enqueue([a_job()])
        bench.store.trouble["heartbeat"] = 1
        with pytest.raises(Unavailable):
            await bench.beat()
        bench.store.calls.clear()
        assert await bench.dispatcher.step() == LOOK_AGAIN_MAX
        assert bench.store.calls == []
        await bench.beat()
        assert (await bench.dispatcher.dispatch_due())[0] == 1


async def test_a_worker_that_was_frozen_claims_nothing_before_it_has_beaten() -> None:
    async with EngineHarness(work=work) as bench:
        bench.guard.begin(lambda: None)
        await bench.store.enqueue([a_job()])
        bench.clock.set(NOW + bench.row.lease_seconds * SECOND)
        assert (await bench.dispatcher.dispatch_due())[0] == 0
        await bench.beat()
        assert (await bench.dispatcher.dispatch_due())[0] == 1


async def test_the_loops_that_claim_are_woken_when_they_may_again() -> None:
    async with EngineHarness(work=work) as bench:
        bench.guard.begin(lambda: None)
        await bench.beat()
        assert bench.regained == []
        bench.clock.set(NOW + bench.row.lease_seconds * SECOND)
        assert bench.worker.capacity() == 0
        await bench.beat()
        assert bench.regained == [bench.worker.concurrency]
