import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from conditions import eventually, eventually_here
from engine.harness import EngineHarness, OthersGone
from onbeat.app.system import (
    WATCHED_MAX,
    KernelLiveness,
    followers,
    identity,
    process_started,
)
from onbeat.engine.rescuer import LossOutcomes
from onbeat.model.attempt import OutcomeName
from onbeat.model.errors import Unavailable
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import LOST_MAX
from onbeat.model.outcome import Evidence
from onbeat.model.worker import RECEIVER, WorkerRecord, remote_id
from onbeat.ports.store import ClaimRequest
from onbeat.testing.build import NOW, SECOND, a_job, a_worker

LEASE = 15.0


# Rescue.


async def claimed_by(bench: EngineHarness, worker: WorkerRecord, *jobs: Job) -> None:
    await bench.store.heartbeat(worker)
    await bench.store.enqueue(jobs)
    await bench.claim(worker.id)


async def silence(bench: EngineHarness, seconds: int) -> int:
    """Let the watcher read once a second for so long; answers with the jobs it rescued."""
    count = 0
    for _ in range(seconds):
        count += await bench.rescuer.rescue_expired()
        bench.clock.set(bench.clock.now() + SECOND)
    return count


async def test_the_jobs_of_a_silent_worker_wait_again_and_its_row_goes() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        other, job = a_worker(), a_job()
        await claimed_by(bench, other, job)
        assert await silence(bench, 16) == 0
        assert (await bench.job(job)).state is JobState.RUNNING
        assert await silence(bench, 2) == 1
        after = await bench.job(job)
        assert (after.state, after.lost, after.attempt) == (JobState.WAITING, 1, 1)
        assert other.id in after.error
        (attempt,) = await bench.store.attempts(job.id)
        assert (attempt.outcome, attempt.worker) == (OutcomeName.LOST, other.id)
        assert other.id not in [row.id for row in await bench.store.workers()]
        assert [answer.id for answer, *_ in bench.told.of("rescued")] == [job.id]


async def cut_off(bench: EngineHarness, job: Job, name: str, *living: WorkerRecord) -> WorkerRecord:
    """The worker takes the job, and is not heard of for its lease; the living beat all the time."""
    bench.clock.set(bench.clock.now() + 60 * SECOND)
    worker = a_worker(id=WorkerId(name), beat_at=bench.clock.now())
    await claimed_by(bench, worker, job)
    assert (await bench.job(job)).worker == worker.id
    for _ in range(18):
        for one in living:
            await bench.store.heartbeat(
                replace(one, beat=int(bench.clock.monotonic()), beat_at=bench.clock.now())
            )
        await silence(bench, 1)
    assert (await bench.job(job)).worker is None
    return worker


async def test_a_job_whose_workers_were_cut_off_and_returned_is_not_given_up() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        job = a_job()
        living: list[WorkerRecord] = []
        for number in range(LOST_MAX + 2):
            living.append(await cut_off(bench, job, f"cut-off-{number}", *living))
            assert (await bench.job(job)).state is JobState.WAITING
        for number in range(LOST_MAX):
            assert (await bench.job(job)).state is JobState.WAITING
            await cut_off(bench, job, f"dead-{number}", *living)
        result = await bench.job(job)
        assert (result.state, result.lost) == (JobState.FAILED, 2 * LOST_MAX + 2)


async def test_a_worker_that_beats_in_the_round_that_ends_it_keeps_its_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with EngineHarness(work=lambda: None) as bench:
        other = a_worker(beat=5)
        await bench.store.heartbeat(other)
        forget, beaten = bench.store.inner.forget_workers, list[Any]()

        async def beaten_before(*args: Any) -> Any:
            if not beaten:
                beaten.append(await bench.store.heartbeat(replace(other, beat=6)))
            return await forget(*args)

        monkeypatch.setattr(bench.store.inner, "forget_workers", beaten_before)
        await silence(bench, int(other.lease_seconds) + 5)
        assert beaten
        job = a_job()
        await bench.store.enqueue([job])
        await bench.claim(other.id)
        assert await bench.rescuer.rescue_expired() == 0
        assert (await bench.job(job)).worker == other.id


async def test_a_store_at_rest_is_not_written_by_its_watcher() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        for _ in range(60):
            await bench.beat()
            await silence(bench, 4)
        assert not {"ping", "rewrite_workers"} & set(bench.store.calls)


@pytest.mark.parametrize(
    "verb",
    ["workers", "abandoned_jobs", "rewrite_workers", "settle", "forget_workers"],
)
async def test_whatever_the_store_refuses_the_watch_begins_anew(verb: str) -> None:
    async with EngineHarness(work=lambda: None) as bench:
        other, job = a_worker(), a_job()
        await claimed_by(bench, other, job)
        await silence(bench, 14)
        bench.store.trouble[verb] = 1
        with pytest.raises(Unavailable):
            await silence(bench, 5)
        before = await bench.job(job)
        assert await silence(bench, 15) == 0
        assert await bench.job(job) == before


async def test_a_store_that_refuses_writes_makes_nobody_dead() -> None:
    """A backup, a standby that is away, a switch to read-only: for twice the lease."""
    async with EngineHarness(work=lambda: None) as bench:
        other, job = a_worker(), a_job()
        await claimed_by(bench, other, job)
        await silence(bench, 3)
        bench.store.refuses_writes = True
        for _ in range(30):
            with contextlib.suppress(Unavailable):
                await silence(bench, 1)
            bench.clock.set(bench.clock.now() + SECOND)
        bench.store.refuses_writes = False
        assert await silence(bench, 7) == 0
        await bench.store.heartbeat(replace(other, beat=other.beat + 1))
        assert await silence(bench, 15) == 0
        assert (await bench.job(job)).state is JobState.RUNNING


async def test_writes_that_hang_until_they_are_let_through_make_nobody_dead() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        other, job = a_worker(), a_job()
        await claimed_by(bench, other, job)
        inner = bench.store.inner.rewrite_workers

        async def held_up(ids: Any) -> None:
            bench.clock.set(bench.clock.now() + 30 * SECOND)
            return await inner(ids)

        bench.store.inner.rewrite_workers = held_up
        await silence(bench, 9)
        bench.store.inner.rewrite_workers = inner
        assert await silence(bench, 7) == 0
        assert (await bench.job(job)).state is JobState.RUNNING


async def test_a_timed_lease_outlives_an_outage_in_which_it_could_not_be_renewed() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        job = await timed(bench, 10)
        bench.store.refuses_writes = True
        for _ in range(20):
            with contextlib.suppress(Unavailable):
                await silence(bench, 1)
            bench.clock.set(bench.clock.now() + SECOND)
        bench.store.refuses_writes = False
        assert await silence(bench, 3) == 0
        until = bench.clock.now() + 10 * SECOND
        assert await bench.store.renew([(job.id, job.token)], until) != [None]
        assert await silence(bench, 10) == 0


async def test_a_timed_lease_that_nobody_renews_is_taken_back_soon_after_its_end() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        job = await timed(bench, 10)
        assert await silence(bench, 11) == 0
        assert await silence(bench, 5) == 1
        (attempt,) = await bench.store.attempts(job.id)
        assert "did not renew its lease in time" in attempt.error


async def test_a_receiver_that_does_not_report_has_failed_an_attempt() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        job = await timed(bench, 10)
        until = bench.clock.now() + 20 * SECOND
        assert await bench.store.hand_over(job.id, job.token, until)
        assert await silence(bench, 20) == 0
        assert await silence(bench, 6) == 1
        (attempt,) = await bench.store.attempts(job.id)
        assert (attempt.outcome, attempt.worker) == (OutcomeName.FAILED, RECEIVER)
        assert "did not report within 20 s" in attempt.error
        after = await bench.job(job)
        assert (after.state, after.lost) == (JobState.WAITING, 0)


async def test_a_cancelled_job_of_a_silent_receiver_ends_at_the_deadline() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        job = await timed(bench, 10)
        until = bench.clock.now() + 10 * SECOND
        assert await bench.store.hand_over(job.id, job.token, until)
        await bench.store.cancel([job.id], "by hand", bench.clock.now())
        assert await silence(bench, 16) == 1
        after = await bench.job(job)
        assert (after.state, after.reason) == (JobState.CANCELLED, "by hand")


async def timed(bench: EngineHarness, seconds: int) -> Job:
    """A job under a lease that lasts so long."""
    await bench.store.enqueue([a_job()])
    claimed = await bench.store.claim(
        ClaimRequest(
            worker=remote_id("far away"),
            now=bench.clock.now(),
            limit=1,
            lanes=frozenset({"work"}),
            lease=seconds * SECOND,
        )
    )
    return claimed.jobs[0]


@pytest.mark.parametrize(
    ("outcome", "evidence"),
    [("silent", Evidence.SILENT), ("gone", Evidence.ENDED), ("rowless", Evidence.ROWLESS)],
)
async def test_a_lost_attempt_says_what_shows_it(outcome: str, evidence: Evidence) -> None:
    job = replace(a_job(), worker=WorkerId("w"))
    dead = {} if outcome == "rowless" else {WorkerId("w"): evidence}
    (lost,) = LossOutcomes().of([job], dead)
    assert lost.evidence is evidence


async def test_the_jobs_of_a_worker_without_a_row_are_taken_back_at_once() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        await bench.claim(WorkerId("never registered"))
        assert await bench.rescuer.rescue_expired() == 1
        assert (await bench.job(job)).state is JobState.WAITING


async def test_a_job_that_takes_three_workers_with_it_is_put_aside_as_poison() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        bench.rescuer.liveness = OthersGone(bench.row.id)
        for _ in range(LOST_MAX):
            bench.clock.set(bench.clock.now() + 60 * SECOND)
            await bench.store.heartbeat(a_worker(id=WorkerId("dies")))
            assert len(await bench.claim(WorkerId("dies"))) == 1
            await bench.rescuer.rescue_expired()
        ended = await bench.job(job)
        assert ended.state is JobState.FAILED
        assert ended.reason.startswith("poison: its worker died 3 times while it ran, each time")
        outcomes = [attempt.outcome for attempt in await bench.store.attempts(job.id)]
        assert outcomes == [OutcomeName.LOST] * LOST_MAX


async def test_a_lost_job_that_was_to_be_cancelled_ends_cancelled() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        await bench.claim(WorkerId("dies"))
        await bench.store.cancel([job.id], "stop", NOW)
        await bench.rescuer.rescue_expired()
        ended = await bench.job(job)
        assert (ended.state, ended.reason) == (JobState.CANCELLED, "stop")


async def test_two_rescuers_settle_a_job_once() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        await bench.claim(WorkerId("dies"))
        running = await bench.job(job)
        await bench.rescuer.settle_abandoned([running], {})
        bench.clock.set(NOW + SECOND)
        await bench.rescuer.settle_abandoned([running], {})
        assert (await bench.job(job)).lost == 1
        assert len(bench.told.of("rescued")) == 1


# What the kernel knows.


@dataclass
class Process:
    row: WorkerRecord
    child: "subprocess.Popen[bytes]"


@pytest.fixture
def sleeper() -> Iterator[Process]:
    """Another process of this machine, with the row that it would have."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    me = identity("w", NOW)
    started = eventually_here(lambda: process_started(child.pid), "the kernel knows the child")
    yield Process(replace(me, pid=child.pid, process_started=started), child)
    child.kill()
    child.communicate()


def test_a_killed_process_is_gone_even_before_it_is_reaped(sleeper: Process) -> None:
    assert not KernelLiveness().is_gone(sleeper.row)
    sleeper.child.kill()
    eventually_here(lambda: KernelLiveness().is_gone(sleeper.row), "the kernel knows of its end")
    sleeper.child.wait()
    assert KernelLiveness().is_gone(sleeper.row)


def test_this_process_is_not_gone() -> None:
    assert not KernelLiveness().is_gone(identity("w", NOW))


def test_another_process_with_the_same_number_does_not_keep_the_first_alive(
    sleeper: Process,
) -> None:
    assert KernelLiveness().is_gone(replace(sleeper.row, process_started="1"))


@pytest.mark.parametrize("field", ["host", "boot"])
def test_nothing_is_known_of_processes_elsewhere(sleeper: Process, field: str) -> None:
    elsewhere = replace(sleeper.row, process_started="1", **{field: "elsewhere"})
    assert not KernelLiveness().is_gone(elsewhere)


def test_nothing_is_known_where_the_boot_has_no_name(sleeper: Process) -> None:
    assert not KernelLiveness().is_gone(replace(sleeper.row, process_started="1", boot=""))


async def test_the_jobs_of_a_killed_process_are_taken_back_without_waiting(
    sleeper: Process,
) -> None:
    async with EngineHarness(work=lambda: None) as bench:
        bench.rescuer.liveness = KernelLiveness()
        job = a_job()
        await claimed_by(bench, sleeper.row, job)
        assert await bench.rescuer.rescue_expired() == 0
        os.kill(sleeper.child.pid, 9)
        sleeper.child.wait()
        assert await bench.rescuer.rescue_expired() == 1
        assert (await bench.job(job)).state is JobState.WAITING


# What the kernel tells of by itself.


@pytest.fixture
def liveness() -> Iterator[KernelLiveness]:
    """It has closed every descriptor by the end."""
    result = KernelLiveness()
    yield result
    result.watch((), lambda: None)
    assert not result.watched


async def test_the_end_of_a_watched_process_is_heard_of_once(
    sleeper: Process, liveness: KernelLiveness
) -> None:
    ends: list[str] = []
    liveness.watch([sleeper.row], lambda: ends.append("end"))
    liveness.watch([sleeper.row], lambda: ends.append("end"))
    assert len(liveness.watched) == 1
    sleeper.child.kill()
    await eventually(lambda: ends, "its end is heard of")
    sleeper.child.wait()
    liveness.watch([sleeper.row], lambda: ends.append("end"))
    assert (ends, liveness.watched) == (["end"], {})


async def test_one_that_has_just_begun_is_watched_between_two_rounds(
    sleeper: Process, liveness: KernelLiveness
) -> None:
    ends: list[str] = []
    async with EngineHarness(work=lambda: None) as bench:
        bench.rescuer.liveness, bench.rescuer.on_end = liveness, lambda: ends.append("end")
        await bench.store.heartbeat(sleeper.row)
        await bench.rescuer.watch_processes()
        assert liveness.watched.keys() == {sleeper.row.pid}
        sleeper.child.kill()
        await eventually(lambda: ends, "its end is heard of")
        sleeper.child.wait()
        await bench.rescuer.watch_processes()
        assert ends == ["end", "end"], "it had ended before it could be watched"


async def test_who_is_watched_no_more_is_not_heard_of(
    sleeper: Process, liveness: KernelLiveness
) -> None:
    ends: list[str] = []
    liveness.watch([sleeper.row], lambda: ends.append("end"))
    (fd,) = liveness.watched.values()
    liveness.watch((), lambda: ends.append("end"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    sleeper.child.kill()
    sleeper.child.wait()
    assert not ends


async def test_neither_this_process_nor_one_elsewhere_is_watched(
    sleeper: Process, liveness: KernelLiveness
) -> None:
    elsewhere = replace(sleeper.row, host="elsewhere")
    liveness.watch([identity("w", NOW), elsewhere], lambda: None)
    assert not liveness.watched


@pytest.mark.parametrize(
    ("pids", "me", "expected"),
    [
        ([], 5, []),
        ([5], 5, []),
        ([1, 5, 7, 9], 5, [7, 9, 1]),
        ([1, 2], 5, [1, 2]),
        (range(100), 50, list(range(51, 51 + WATCHED_MAX))),
        (range(100), 98, [99, *range(WATCHED_MAX - 1)]),
    ],
)
def test_each_process_watches_those_after_it_in_a_ring(
    pids: list[int], me: int, expected: list[int]
) -> None:
    assert followers(pids, me) == expected


async def test_a_round_watches_the_living_and_not_the_dead(sleeper: Process) -> None:
    async with EngineHarness(work=lambda: None) as bench:
        liveness, ends = KernelLiveness(), []
        bench.rescuer.liveness, bench.rescuer.on_end = liveness, lambda: ends.append("end")
        await claimed_by(bench, sleeper.row, a_job())
        await bench.rescuer.rescue_expired()
        assert liveness.watched.keys() == {sleeper.row.pid}
        sleeper.child.kill()
        await eventually(lambda: ends, "a round is due")
        assert await bench.rescuer.rescue_expired() == 1
        assert (ends, liveness.watched) == (["end"], {})
        bench.rescuer.close()
