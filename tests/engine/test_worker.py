import asyncio
import sys
import threading
from datetime import timedelta

import pytest

from engine.bench import Bench, Scripted
from onbeat import Cancel, Context, Fail, Snooze
from onbeat.engine import settler as settler_module
from onbeat.engine import worker as worker_module
from onbeat.model.attempt import OutcomeName
from onbeat.model.job import JobState
from onbeat.model.outcome import Succeeded
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget
from onbeat.testing.build import MINUTE, NOW, SECOND, a_job
from waiting import eventually

ONCE = RetryPolicy(attempts_max=1)
FOREVER = timedelta(hours=1)


async def outcomes(bench, job):
    return [attempt.outcome for attempt in await bench.store.attempts(job.id)]


# What an attempt comes to.


async def test_a_result_is_kept_with_its_attempt():
    async def work():
        return {"n": 7}

    async with Bench(work=work) as bench:
        job = await bench.run()
        assert job.state is JobState.SUCCEEDED
        assert bytes(job.result) == b'{"n":7}'
        assert await outcomes(bench, job) == [OutcomeName.SUCCEEDED]
        ((told, outcome, _),) = bench.told.of("ended")
        assert (told.id, type(outcome)) == (job.id, Succeeded)


def raising(error):
    async def in_loop():
        raise error

    def in_thread():
        raise error

    return in_loop, in_thread


@pytest.mark.parametrize("place", [0, 1], ids=["in the loop", "in a thread"])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("no such thing"), "ValueError: no such thing"),
        (TimeoutError("upstream"), "TimeoutError: upstream"),
        (asyncio.CancelledError(), "CancelledError"),
        (SystemExit(3), "SystemExit: 3"),
        (StopIteration("odd"), "StopIteration"),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "two (2 sub-exceptions)"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_whatever_a_handler_raises_is_a_failed_attempt(place, error, told):
    async with Bench(work=raising(error)[place]) as bench:
        job = await bench.run(a_job(retry=ONCE))
        assert (job.state, job.reason) == (JobState.FAILED, "attempts used up")
        assert told in job.error
        assert not bench.told.of("loop_failed")


async def test_the_error_shows_the_handlers_own_frames_and_none_of_ours():
    def work():
        raise ValueError("x")

    async with Bench(work=work) as bench:
        job = await bench.run(a_job(retry=ONCE))
        assert __file__ in job.error
        assert "onbeat/targets" not in job.error
        assert job.error.endswith("ValueError: x")


async def test_what_a_handler_asks_for_is_done():
    async def snoozes():
        raise Snooze(MINUTE)

    async def cancels():
        raise Cancel("not needed")

    async def fails():
        raise Fail("cannot ever", retryable=False)

    async with Bench(snoozes=snoozes, cancels=cancels, fails=fails) as bench:
        snoozed = await bench.run(a_job("snoozes"))
        assert (snoozed.state, snoozed.due_at) == (JobState.WAITING, NOW + MINUTE)
        assert snoozed.attempt == 0
        cancelled = await bench.run(a_job("cancels"))
        assert (cancelled.state, cancelled.reason) == (JobState.CANCELLED, "not needed")
        failed = await bench.run(a_job("fails"))
        assert (failed.state, failed.reason) == (JobState.FAILED, "not retryable")
        assert failed.error == "cannot ever"


@pytest.mark.parametrize(
    ("result", "told"),
    [(object(), "object"), (float("nan"), "NaN"), ("x" * 300_000, "300002 bytes")],
    ids=["an object", "not a number", "too large"],
)
async def test_a_result_that_cannot_be_kept_fails_the_job_for_good(result, told):
    ran = []

    async def work():
        ran.append(1)
        return result

    async with Bench(work=work) as bench:
        job = await bench.run()
        assert (job.state, job.reason) == (JobState.FAILED, "not retryable")
        assert told in job.error
        assert ran == [1]


async def test_arguments_that_do_not_fit_fail_the_job_for_good():
    async def work(n: int) -> None: ...

    async with Bench(work=work) as bench:
        for args in (b'["x"]', b"[]", b"[1,2]"):
            target = HandlerTarget("work", args)
            job = await bench.run(a_job(target=target))
            assert (job.state, job.reason) == (JobState.FAILED, "not retryable")
            assert "work" in job.error


# Timeouts.


async def test_a_coroutine_that_takes_too_long_is_stopped():
    cleaned = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(1)

    async with Bench(work=work) as bench:
        job = await bench.run(a_job(timeout=timedelta(milliseconds=20), retry=ONCE))
        assert (job.state, job.error) == (JobState.FAILED, "timed out after 0.02 s")
        assert cleaned == [1]


async def test_a_thread_that_takes_too_long_is_told_and_left_behind():
    told, go = threading.Event(), threading.Event()

    def work(context: Context):
        while not context.cancelled:
            go.wait(0.001)
        told.set()

    async with Bench(work=work, concurrency=1) as bench:
        job = await bench.run(a_job(timeout=timedelta(milliseconds=20), retry=ONCE))
        assert (job.state, job.error) == (JobState.FAILED, "timed out after 0.02 s")
        await eventually(told.is_set, "the thread learns that its time is over")


async def test_threads_left_behind_take_no_slot_from_others():
    stuck = threading.Event()

    def hangs():
        stuck.wait()

    def work():
        return 1

    async with Bench(hangs=hangs, work=work, concurrency=1) as bench:
        try:
            for _ in range(3):
                await bench.run(a_job("hangs", timeout=timedelta(milliseconds=10), retry=ONCE))
            assert (await bench.run()).state is JobState.SUCCEEDED
        finally:
            stuck.set()


async def test_a_timeout_of_the_handlers_own_is_told_apart():
    async def work():
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    async with Bench(work=work) as bench:
        job = await bench.run(a_job(timeout=MINUTE, retry=ONCE))
        assert "timed out after" not in job.error
        assert "TimeoutError" in job.error


async def test_an_attempt_whose_time_is_over_has_timed_out_whatever_stops_it_then():
    over, go = asyncio.Event(), asyncio.Event()

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            over.set()
            await go.wait()

    async with Bench(work=work) as bench:
        job = a_job(timeout=timedelta(milliseconds=20), retry=ONCE)
        await bench.begin(job)
        await over.wait()
        bench.worker.cancel(job.id, "no longer wanted")
        go.set()
        ended = await bench.until(job, JobState.FAILED)
        assert ended.error == "timed out after 0.02 s"


async def test_the_deadline_is_told_to_the_handler():
    seen = []

    async def work(context: Context):
        seen.append((context.deadline, context.cancelled, context.attempt))

    async with Bench(work=work) as bench:
        await bench.run(a_job(timeout=MINUTE))
        await bench.run(a_job())
        assert seen == [(NOW + MINUTE, False, 1), (None, False, 1)]


# Cancel.


async def test_a_running_coroutine_is_cancelled_where_it_waits():
    started = asyncio.Event()

    async def work():
        started.set()
        await asyncio.Event().wait()

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await started.wait()
        await bench.store.cancel([job.id], "no longer wanted", NOW)
        await bench.beat()
        ended = await bench.until(job, JobState.CANCELLED)
        assert ended.reason == "no longer wanted"
        assert await outcomes(bench, job) == [OutcomeName.CANCELLED]


async def test_a_running_thread_learns_of_its_cancel():
    started, told = threading.Event(), threading.Event()

    def work(context: Context):
        started.set()
        while not context.cancelled:
            told.wait(0.001)
        told.set()

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await eventually(started.is_set, "the handler runs")
        await bench.store.cancel([job.id], "enough", NOW)
        await bench.beat()
        assert (await bench.until(job, JobState.CANCELLED)).reason == "enough"
        await eventually(told.is_set, "the thread learns of its cancel")


async def test_work_that_ends_although_cancelled_keeps_its_result():
    started = asyncio.Event()

    async def work():
        try:
            started.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done after all"

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await started.wait()
        await bench.store.cancel([job.id], "stop", NOW)
        await bench.beat()
        assert bytes((await bench.until(job, JobState.SUCCEEDED)).result) == b'"done after all"'


async def test_a_cancel_asked_for_while_an_attempt_fails_ends_the_job():
    go = asyncio.Event()

    async def work():
        await go.wait()
        raise ValueError("x")

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await bench.store.cancel([job.id], "stop", NOW)
        go.set()
        assert (await bench.until(job, JobState.CANCELLED)).reason == "stop"


# Leases.


async def test_an_attempt_that_lost_its_lease_is_stopped_and_writes_nothing():
    started = asyncio.Event()

    async def work():
        started.set()
        await asyncio.Event().wait()

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await started.wait()
        (mine,) = bench.worker.running.values()
        await bench.rescuer.settle_abandoned([mine.job])
        before = await bench.job(job)
        await bench.beat()
        await bench.worker.idle.wait()
        assert await bench.job(job) == before
        assert await outcomes(bench, job) == [OutcomeName.LOST]
        assert [told.id for told, *_ in bench.told.of("lease_lost")] == [job.id]


async def test_a_result_that_comes_after_the_lease_was_lost_is_refused():
    go = asyncio.Event()

    async def work():
        await go.wait()
        return "late"

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        (mine,) = bench.worker.running.values()
        await bench.rescuer.settle_abandoned([mine.job])
        go.set()
        await bench.worker.idle.wait()
        assert (await bench.job(job)).result is None
        assert bench.told.of("lease_lost")
        assert not bench.told.of("ended")


async def test_a_lease_that_nobody_here_knows_is_handed_back_after_two_beats():
    async def work(): ...

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        bench.store.after["claim"] = 1
        with pytest.raises(Exception, match="nobody heard"):
            await bench.dispatcher.dispatch_due()
        assert (await bench.job(job)).state is JobState.RUNNING
        await bench.beat()
        assert not bench.worker.returning
        await bench.beat()
        back = await bench.until(job, JobState.WAITING)
        assert (back.attempt, back.released, back.due_at) == (0, 1, NOW)


async def test_a_job_that_arrives_late_is_not_handed_back_while_it_runs():
    go = asyncio.Event()

    async def work():
        await go.wait()

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        await bench.dispatcher.dispatch_due()
        await bench.beat()
        await bench.beat()
        bench.worker.accept(await bench.transport.receive())
        await asyncio.gather(*bench.worker.returning)
        assert (await bench.job(job)).state is JobState.RUNNING
        go.set()
        assert (await bench.until(job, JobState.SUCCEEDED)).attempt == 1


async def test_a_stray_that_the_store_cannot_name_just_now_is_tried_again():
    async def work(): ...

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        bench.store.after["claim"] = 1
        with pytest.raises(Exception, match="nobody heard"):
            await bench.dispatcher.dispatch_due()
        await bench.beat()
        bench.store.trouble["job"] = 1
        await bench.beat()
        await eventually(lambda: bench.told.of("loop_failed"), "the store's word is told")
        await bench.beat()
        await bench.until(job, JobState.WAITING)


# Settling while the store is away.


async def test_a_result_waits_for_a_store_that_is_away_and_keeps_its_slot(monkeypatch):
    monkeypatch.setattr(settler_module, "pause_after", lambda *_: 0.001)
    ran = []

    async def work():
        ran.append(1)

    async with Bench(work=work, concurrency=1) as bench:
        bench.store.trouble["settle"] = 5
        job = a_job()
        await bench.begin(job)
        await eventually(lambda: len(bench.told.of("loop_failed")) >= 2, "settling is repeated")
        assert bench.worker.capacity() == 0
        await bench.until(job, JobState.SUCCEEDED)
        await bench.worker.idle.wait()
        assert bench.worker.capacity() == 1
        assert ran == [1]


async def test_a_settlement_whose_answer_was_lost_counts_once(monkeypatch):
    monkeypatch.setattr(settler_module, "pause_after", lambda *_: 0.001)

    async def work(): ...

    async with Bench(work=work) as bench:
        bench.store.after["settle"] = 2
        job = await bench.run()
        assert job.state is JobState.SUCCEEDED
        assert await outcomes(bench, job) == [OutcomeName.SUCCEEDED]
        assert len(bench.told.of("ended")) == 1
        assert not bench.told.of("lease_lost")


async def test_a_telemetry_that_raises_costs_no_slot():
    async def work(): ...

    async with Bench(work=work, concurrency=1) as bench:

        def broken(*_):
            raise RuntimeError("no meter")

        bench.told.started = broken
        await bench.begin(a_job())
        await bench.worker.idle.wait()
        assert bench.worker.capacity() == 1


# Slots.


async def test_no_more_attempts_run_than_there_are_slots():
    running, peak = 0, 0
    go = asyncio.Event()

    async def work():
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await go.wait()
        running -= 1

    async with Bench(work=work, concurrency=3, prefetch=5) as bench:
        bench.worker.mean_duration = 0.0
        await bench.begin(*(a_job() for _ in range(20)))
        assert (len(bench.worker.running), len(bench.worker.backlog)) == (3, 5)
        assert bench.worker.capacity() == 0
        await eventually(lambda: running == 3, "all slots are in use")
        go.set()
        await bench.worker.idle.wait()
        assert peak == 3


async def test_long_work_takes_nothing_ahead_of_free_slots():
    async def work(): ...

    async with Bench(work=work, concurrency=3, prefetch=5) as bench:
        bench.worker.mean_duration = 1.0
        assert bench.worker.capacity() == 3


async def test_jobs_begin_in_the_order_in_which_they_were_claimed():
    ran = []

    async def work(n: int):
        ran.append(n)

    async with Bench(work=work, concurrency=1, prefetch=9) as bench:
        bench.worker.mean_duration = 0.0
        jobs = [
            a_job(target=HandlerTarget("work", f"[{n}]".encode()), priority=-n) for n in range(5)
        ]
        await bench.begin(*jobs)
        await bench.worker.idle.wait()
        assert ran == [4, 3, 2, 1, 0]


# Drain.


async def test_what_runs_may_finish_and_what_waits_here_goes_back():
    go = asyncio.Event()

    async def work():
        await go.wait()

    async with Bench(work=work, concurrency=1, prefetch=5) as bench:
        bench.worker.mean_duration = 0.0
        jobs = [a_job() for _ in range(3)]
        await bench.begin(*jobs)
        draining = asyncio.create_task(bench.worker.drain(FOREVER))
        for job in jobs[1:]:
            back = await bench.until(job, JobState.WAITING)
            assert (back.attempt, back.released) == (0, 1)
        go.set()
        assert await draining == 0
        assert (await bench.job(jobs[0])).state is JobState.SUCCEEDED
        assert bench.worker.capacity() == 0


async def test_what_does_not_finish_in_time_is_handed_back_and_costs_no_attempt():
    async def work():
        await asyncio.Event().wait()

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        assert await bench.worker.drain(timedelta()) == 1
        back = await bench.job(job)
        assert (back.state, back.attempt, back.released) == (JobState.WAITING, 0, 1)
        assert back.due_at == NOW
        assert await outcomes(bench, job) == [OutcomeName.RELEASED]


async def test_a_thread_that_is_still_running_at_the_end_is_told_and_handed_back():
    told, go = threading.Event(), threading.Event()

    def work(context: Context):
        while not context.cancelled:
            go.wait(0.001)
        told.set()

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        assert await bench.worker.drain(timedelta()) == 1
        assert (await bench.job(job)).state is JobState.WAITING
        await eventually(told.is_set, "the thread learns of the shutdown")


async def test_jobs_that_arrive_during_a_drain_go_back_at_once():
    async def work(): ...

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        await bench.dispatcher.dispatch_due()
        bench.worker.is_draining = True
        bench.worker.accept(await bench.transport.receive())
        await bench.worker.drain(FOREVER)
        assert (await bench.job(job)).released == 1


async def test_a_drain_ends_although_a_handler_does_not_heed_its_stop(monkeypatch):
    monkeypatch.setattr(worker_module, "STOP_PATIENCE", 0.02)
    go = asyncio.Event()

    async def work():
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await eventually(lambda: bench.worker.running, "it runs")
        await asyncio.sleep(0)
        assert await bench.worker.drain(timedelta()) == 1
        assert (await bench.job(job)).state is JobState.RUNNING
        go.set()
        await bench.worker.idle.wait()


async def test_a_drain_ends_although_the_store_is_away(monkeypatch):
    monkeypatch.setattr(settler_module, "pause_after", lambda *_: 0.001)

    async def work(): ...

    async with Bench(work=work) as bench:
        bench.store.trouble["settle"] = sys.maxsize
        await bench.begin(a_job())
        await bench.worker.drain(0.02 * SECOND)
        assert not bench.worker.running


# Runners of any kind.


async def test_a_runner_that_raises_is_a_failed_attempt():
    async def act(run):
        raise RuntimeError("broken runner")

    async with Bench(work=lambda: None, runners={HandlerTarget: Scripted(act)}) as bench:
        job = await bench.run(a_job(retry=ONCE))
        assert (job.state, job.error) == (JobState.FAILED, "RuntimeError: broken runner")


async def test_a_task_cancelled_from_outside_writes_nothing():
    started = asyncio.Event()

    async def work():
        started.set()
        await asyncio.Event().wait()

    async with Bench(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await started.wait()
        (running,) = bench.worker.running.values()
        running.task.cancel()
        await bench.worker.idle.wait()
        assert (await bench.job(job)).state is JobState.RUNNING
        assert await outcomes(bench, job) == []


async def test_a_job_of_a_task_that_is_gone_fails_and_is_tried_again():
    async def work(): ...

    async with Bench(work=work) as bench:
        bench.handlers.registry.handlers.clear()
        job = a_job()
        await bench.store.enqueue([job])
        bench.dispatcher.lanes = lambda: frozenset({"work"})
        await bench.begin_due()
        await bench.worker.idle.wait()
        after = await bench.job(job)
        assert (after.state, after.attempt) == (JobState.WAITING, 1)
        assert "no task 'work'" in after.error
