import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from engine.bench import Bench
from onbeat.app.system import KernelLiveness, identity, process_started
from onbeat.engine.rescuer import GAP_MAX, Watch
from onbeat.model.attempt import OutcomeName
from onbeat.model.errors import Unavailable
from onbeat.model.ids import WorkerId
from onbeat.model.job import JobState
from onbeat.model.limits import LOST_MAX
from onbeat.testing.build import NOW, SECOND, a_job, a_worker
from waiting import eventually_here

LEASE = 15.0


def readings(watch, worker, first, last):
    """Read once a second; who was ever found silent."""
    dead = set()
    for second in range(first, last + 1):
        dead |= watch.silent([worker], float(second))
    return dead


# The watch.


def test_a_worker_is_dead_when_its_beat_has_not_risen_for_its_lease():
    watch, worker = Watch(), a_worker(lease_seconds=LEASE)
    assert readings(watch, worker, 0, 15) == set()
    assert readings(watch, worker, 16, 16) == {worker.id}


def test_every_beat_begins_the_lease_anew():
    watch, worker = Watch(), a_worker(lease_seconds=LEASE)
    readings(watch, worker, 0, 14)
    risen = replace(worker, beat=worker.beat + 1)
    assert readings(watch, risen, 15, 30) == set()
    assert readings(watch, risen, 31, 31) == {worker.id}


def test_a_fresh_watcher_waits_a_whole_lease():
    assert Watch().silent([a_worker(lease_seconds=0.0)], 1e6) == set()


def test_a_failed_reading_restarts_the_window():
    watch, worker = Watch(), a_worker(lease_seconds=LEASE)
    readings(watch, worker, 0, 14)
    watch.restart()
    assert readings(watch, worker, 15, 30) == set()
    assert readings(watch, worker, 31, 31) == {worker.id}


def test_a_machine_that_slept_gives_nobody_up_on_waking():
    watch, worker = Watch(), a_worker(lease_seconds=LEASE)
    readings(watch, worker, 0, 5)
    assert watch.silent([worker], 3600.0) == set()
    assert watch.silent([replace(worker, beat=worker.beat + 1)], 3601.0) == set()


def test_slow_readings_still_find_the_dead():
    watch, worker = Watch(), a_worker(lease_seconds=LEASE)
    found = [watch.silent([worker], n * 60.0) for n in range(6)]
    assert found.index({worker.id}) == LEASE // GAP_MAX + 1


def test_a_worker_that_went_away_is_forgotten():
    watch, worker = Watch(), a_worker(lease_seconds=LEASE)
    readings(watch, worker, 0, 14)
    watch.silent([], 15.0)
    assert readings(watch, worker, 16, 31) == set()


# Rescue.


async def claimed_by(bench, worker, *jobs):
    await bench.store.beat(worker)
    await bench.store.enqueue(jobs)
    bench.dispatcher.worker = worker.id
    await bench.dispatcher.dispatch_due()


async def silence(bench, seconds):
    """Let the watcher read once a second for so long; answers with the jobs it rescued."""
    count = 0
    for _ in range(seconds):
        count += await bench.rescuer.rescue_expired()
        bench.clock.set(bench.clock.now() + SECOND)
    return count


async def test_the_jobs_of_a_silent_worker_wait_again_and_its_row_goes():
    async with Bench(work=lambda: None) as bench:
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
        assert [told.id for told, *_ in bench.told.of("rescued")] == [job.id]


async def test_an_outage_of_the_store_makes_nobody_dead():
    async with Bench(work=lambda: None) as bench:
        other, job = a_worker(), a_job()
        await claimed_by(bench, other, job)
        await silence(bench, 14)
        bench.store.trouble["workers"] = 1
        with pytest.raises(Unavailable):
            await bench.rescuer.rescue_expired()
        assert await silence(bench, 15) == 0
        assert await silence(bench, 3) == 1


async def test_a_reading_of_the_jobs_that_fails_restarts_the_window_too():
    async with Bench(work=lambda: None) as bench:
        await claimed_by(bench, a_worker(), a_job())
        await silence(bench, 14)
        bench.store.trouble["abandoned"] = 1
        with pytest.raises(Unavailable):
            await bench.rescuer.rescue_expired()
        assert await silence(bench, 15) == 0


async def test_the_jobs_of_a_worker_without_a_row_are_taken_back_at_once():
    async with Bench(work=lambda: None) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        bench.dispatcher.worker = WorkerId("never registered")
        await bench.dispatcher.dispatch_due()
        assert await bench.rescuer.rescue_expired() == 1
        assert (await bench.job(job)).state is JobState.WAITING


async def test_a_job_that_takes_three_workers_with_it_is_put_aside_as_poison():
    async with Bench(work=lambda: None) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        for _ in range(LOST_MAX):
            bench.clock.set(bench.clock.now() + 60 * SECOND)
            bench.dispatcher.worker = WorkerId("dies")
            assert (await bench.dispatcher.dispatch_due())[0] == 1
            await bench.rescuer.rescue_expired()
        ended = await bench.job(job)
        assert (ended.state, ended.reason) == (JobState.FAILED, "poison")
        outcomes = [attempt.outcome for attempt in await bench.store.attempts(job.id)]
        assert outcomes == [OutcomeName.LOST] * LOST_MAX


async def test_a_lost_job_that_was_to_be_cancelled_ends_cancelled():
    async with Bench(work=lambda: None) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        bench.dispatcher.worker = WorkerId("dies")
        await bench.dispatcher.dispatch_due()
        await bench.store.cancel([job.id], "stop", NOW)
        await bench.rescuer.rescue_expired()
        ended = await bench.job(job)
        assert (ended.state, ended.reason) == (JobState.CANCELLED, "stop")


async def test_two_rescuers_settle_a_job_once():
    async with Bench(work=lambda: None) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        bench.dispatcher.worker = WorkerId("dies")
        await bench.dispatcher.dispatch_due()
        running = await bench.job(job)
        await bench.rescuer.settle_abandoned([running])
        bench.clock.set(NOW + SECOND)
        await bench.rescuer.settle_abandoned([running])
        assert (await bench.job(job)).lost == 1
        assert len(bench.told.of("rescued")) == 1


# What the kernel knows.


@dataclass
class Process:
    row: object
    child: subprocess.Popen


@pytest.fixture
def sleeper():
    """Another process of this machine, with the row that it would have."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    me = identity("w", NOW)
    started = eventually_here(lambda: process_started(child.pid), "the kernel knows the child")
    yield Process(replace(me, pid=child.pid, process_started=started), child)
    child.kill()
    child.communicate()


def test_a_killed_process_is_gone_even_before_it_is_reaped(sleeper):
    assert not KernelLiveness().is_gone(sleeper.row)
    sleeper.child.kill()
    eventually_here(lambda: KernelLiveness().is_gone(sleeper.row), "the kernel knows of its end")
    sleeper.child.wait()
    assert KernelLiveness().is_gone(sleeper.row)


def test_this_process_is_not_gone():
    assert not KernelLiveness().is_gone(identity("w", NOW))


def test_another_process_with_the_same_number_does_not_keep_the_first_alive(sleeper):
    assert KernelLiveness().is_gone(replace(sleeper.row, process_started="1"))


@pytest.mark.parametrize("field", ["host", "boot"])
def test_nothing_is_known_of_processes_elsewhere(sleeper, field):
    elsewhere = replace(sleeper.row, process_started="1", **{field: "elsewhere"})
    assert not KernelLiveness().is_gone(elsewhere)


def test_nothing_is_known_where_the_boot_has_no_name(sleeper):
    assert not KernelLiveness().is_gone(replace(sleeper.row, process_started="1", boot=""))


async def test_the_jobs_of_a_killed_process_are_taken_back_without_waiting(sleeper):
    async with Bench(work=lambda: None) as bench:
        bench.rescuer.liveness = KernelLiveness()
        job = a_job()
        await claimed_by(bench, sleeper.row, job)
        assert await bench.rescuer.rescue_expired() == 0
        os.kill(sleeper.child.pid, 9)
        sleeper.child.wait()
        assert await bench.rescuer.rescue_expired() == 1
        assert (await bench.job(job)).state is JobState.WAITING
