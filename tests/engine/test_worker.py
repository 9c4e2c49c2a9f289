import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from conditions import eventually
from cost import assert_linear
from engine.harness import EngineHarness, Scripted
from onbeat import Cancel, Context, Fail, Snooze
from onbeat.engine import attempt_tasks
from onbeat.engine import settler as settler_module
from onbeat.engine import worker as worker_module
from onbeat.engine.worker import NO_SLOT, SHUT_DOWN, HandledAttempt
from onbeat.model.attempt import OutcomeName
from onbeat.model.errors import Invalid
from onbeat.model.ids import Token
from onbeat.model.job import Job, JobState, Progress
from onbeat.model.outcome import Outcome, Snoozed, Succeeded
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget, HttpTarget
from onbeat.model.worker import RECEIVER
from onbeat.ports.store import ClaimRequest, Settlement, SucceededAttempt
from onbeat.ports.target import HandedOver
from onbeat.rules.settlement import attempt_of, settle
from onbeat.testing.build import MINUTE, NOW, SECOND, a_job

TENANT = ContextVar("tenant", default="nobody")
ONCE = RetryPolicy(attempts_max=1)
FOREVER = timedelta(hours=1)


async def outcomes(bench: EngineHarness, job: Job) -> list[OutcomeName]:
    return [attempt.outcome for attempt in await bench.store.attempts(job.id)]


# What an attempt comes to.


async def test_a_result_is_kept_with_its_attempt() -> None:
    async def work() -> dict[str, Any]:
        return {"n": 7}

    async with EngineHarness(work=work) as bench:
        job = await bench.run()
        assert job.state is JobState.SUCCEEDED
        assert bytes(job.result) == b'{"n":7}'
        assert await outcomes(bench, job) == [OutcomeName.SUCCEEDED]
        ((answer, outcome, _),) = bench.told.of("ended")
        assert (answer.id, type(outcome)) == (job.id, Succeeded)


class Panic(BaseException):
    """As extension modules written in Rust raise one."""


def raising(error: ValueError) -> tuple[Callable[..., Any], Callable[..., Any]]:
    async def in_loop() -> None:
        raise error

    def in_thread() -> None:
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
        (KeyboardInterrupt("odd"), "KeyboardInterrupt: odd"),
        (GeneratorExit("odd"), "GeneratorExit: odd"),
        (Panic("of a library"), "Panic: of a library"),
        (StopIteration("odd"), "StopIteration"),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "two (2 sub-exceptions)"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_whatever_a_handler_raises_is_a_failed_attempt(
    place: int, error: Any, told: str
) -> None:
    async with EngineHarness(work=raising(error)[place]) as bench:
        job = await bench.run(a_job(retry=ONCE))
        assert (job.state, job.reason) == (JobState.FAILED, "attempts used up")
        assert told in job.error
        assert not bench.told.of("loop_failed")


async def test_the_error_shows_the_handlers_own_frames_and_none_of_ours() -> None:
    def work() -> None:
        raise ValueError("x")

    async with EngineHarness(work=work) as bench:
        job = await bench.run(a_job(retry=ONCE))
        assert __file__ in job.error
        assert "onbeat/targets" not in job.error
        assert job.error.endswith("ValueError: x")


async def test_what_a_handler_asks_for_is_done() -> None:
    async def snoozes() -> None:
        raise Snooze(MINUTE)

    async def cancels() -> None:
        raise Cancel("not needed")

    async def fails() -> None:
        raise Fail("cannot ever", retryable=False)

    async with EngineHarness(snoozes=snoozes, cancels=cancels, fails=fails) as bench:
        snoozed = await bench.run(a_job("snoozes"))
        assert (snoozed.state, snoozed.due_at) == (JobState.WAITING, NOW + MINUTE)
        assert snoozed.attempt == 0
        cancelled = await bench.run(a_job("cancels"))
        assert (cancelled.state, cancelled.reason) == (JobState.CANCELLED, "not needed")
        failed = await bench.run(a_job("fails"))
        assert (failed.state, failed.reason) == (JobState.FAILED, "not retryable")
        assert failed.error == "cannot ever"


class Wordless:
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (ValueError("bad card"), "ValueError: bad card"),
        (None, " by its handler"),
        (5, "5"),
        (Wordless(), " by its handler, with a Wordless that has no text"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_reason_may_be_anything(given: Any, told: str) -> None:
    async def cancels() -> None:
        raise Cancel(given)

    async def fails() -> None:
        raise Fail(given, retryable=False)

    async with EngineHarness(cancels=cancels, fails=fails) as bench:
        cancelled = await bench.run(a_job("cancels"))
        assert cancelled.state is JobState.CANCELLED
        assert cancelled.reason in {told, f"cancelled{told}"}
        failed = await bench.run(a_job("fails"))
        assert failed.state is JobState.FAILED
        assert failed.error in {told, f"failed{told}"}
        assert not bench.told.of("loop_failed")


async def test_an_outcome_that_cannot_be_judged_fails_the_job() -> None:
    async def odd(_: Any) -> Outcome:
        return Snoozed("soon")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    async with EngineHarness(work=lambda: None, runners={HandlerTarget: Scripted(odd)}) as bench:
        job = await bench.run(a_job())
        assert job.state is JobState.FAILED
        assert job.error.startswith(settler_module.NOT_STORABLE)


@pytest.mark.parametrize(
    ("done", "total"),
    [
        (float("nan"), None),
        (float("inf"), 1),
        (-1, 1),
        (1, -1),
        ("5", 10),
        (None, 1),
        ([], 1),
    ],
    ids=repr,
)
async def test_progress_is_a_number(done: Any, total: Any) -> None:
    async def work(context: Context) -> None:
        context.progress(done, total)

    async with EngineHarness(work=work) as bench:
        job = await bench.run(a_job(retry=ONCE))
        assert "of the progress must be a finite number of at least 0, not " in job.error
        await bench.beat()


@pytest.mark.parametrize("done", [3, 2.5, Fraction(1, 2), Decimal("0.25")])
async def test_progress_may_be_a_number_of_any_type(done: Any) -> None:
    go, begun = asyncio.Event(), asyncio.Event()

    async def work(context: Context) -> None:
        context.progress(done, 4)
        begun.set()
        await go.wait()

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await begun.wait()
        await bench.beat()
        assert (await bench.job(job)).progress == Progress(float(done), 4)
        go.set()
        await bench.until(job, JobState.SUCCEEDED)


@pytest.mark.parametrize(
    ("result", "told"),
    [(object(), "object"), (float("nan"), "NaN"), ("x" * 300_000, "300002 bytes")],
    ids=["an object", "not a number", "too large"],
)
async def test_a_result_that_cannot_be_kept_fails_the_job_for_good(
    result: float | object | str, told: str
) -> None:
    ran = []

    async def work() -> float | object:
        ran.append(1)
        return result

    async with EngineHarness(work=work) as bench:
        job = await bench.run()
        assert (job.state, job.reason) == (JobState.FAILED, "not retryable")
        assert told in job.error
        assert ran == [1]


async def test_arguments_that_do_not_fit_fail_the_job_for_good() -> None:
    async def work(n: int) -> None: ...

    async with EngineHarness(work=work) as bench:
        for args in (b'["x"]', b"[]", b"[1,2]"):
            target = HandlerTarget("work", msgspec.Raw(args))
            job = await bench.run(a_job(target=target))
            assert (job.state, job.reason) == (JobState.FAILED, "not retryable")
            assert "work" in job.error


# Timeouts.


async def test_a_coroutine_that_takes_too_long_is_stopped() -> None:
    cleaned = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(1)

    async with EngineHarness(work=work) as bench:
        job = await bench.run(a_job(timeout=timedelta(milliseconds=20), retry=ONCE))
        assert (job.state, job.error) == (JobState.FAILED, "timed out after 0.02 s")
        assert cleaned == [1]


async def test_a_thread_that_takes_too_long_is_told_and_left_behind() -> None:
    answer, go = threading.Event(), threading.Event()

    def work(context: Context) -> None:
        while not context.cancelled:
            go.wait(0.001)
        answer.set()

    async with EngineHarness(work=work, concurrency=1) as bench:
        job = await bench.run(a_job(timeout=timedelta(milliseconds=20), retry=ONCE))
        assert (job.state, job.error) == (JobState.FAILED, "timed out after 0.02 s")
        await eventually(answer.is_set, "the thread learns that its time is over")


async def test_threads_left_behind_take_no_slot_from_others() -> None:
    stuck = threading.Event()

    def hangs() -> None:
        stuck.wait()

    def work() -> int:
        return 1

    async with EngineHarness(hangs=hangs, work=work, concurrency=1) as bench:
        try:
            for _ in range(3):
                await bench.run(a_job("hangs", timeout=timedelta(milliseconds=10), retry=ONCE))
            assert (await bench.run()).state is JobState.SUCCEEDED
        finally:
            stuck.set()


async def test_a_timeout_of_the_handlers_own_is_told_apart() -> None:
    async def work() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    async with EngineHarness(work=work) as bench:
        job = await bench.run(a_job(timeout=MINUTE, retry=ONCE))
        assert "timed out after" not in job.error
        assert "TimeoutError" in job.error


async def test_an_attempt_whose_time_is_over_has_timed_out_whatever_stops_it_then() -> None:
    over, go = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            over.set()
            await go.wait()

    async with EngineHarness(work=work) as bench:
        job = a_job(timeout=timedelta(milliseconds=20), retry=ONCE)
        await bench.begin(job)
        await over.wait()
        bench.leases.cancel({(job.id, Token(1)): "no longer wanted"})
        go.set()
        ended = await bench.until(job, JobState.FAILED)
        assert ended.error == "timed out after 0.02 s"


async def test_a_claimed_job_that_waits_for_a_slot_is_cancelled_without_a_run() -> None:
    begun: list[int] = []
    go = asyncio.Event()

    async def work() -> None:
        begun.append(len(begun))
        await go.wait()

    async with EngineHarness(work=work, concurrency=1) as bench:
        first, second = a_job(), a_job()
        await bench.begin(first)
        await bench.store.enqueue([second])
        bench.worker.accept(await bench.claim())
        assert [job.id for job in bench.worker.unbegun] == [second.id]
        await bench.store.cancel([second.id], "no longer wanted", NOW)
        await bench.beat()
        assert (await bench.until(second, JobState.CANCELLED)).reason == "no longer wanted"
        go.set()
        await bench.until(first, JobState.SUCCEEDED)
        assert begun == [0]


async def test_the_deadline_is_told_to_the_handler() -> None:
    seen = []

    async def work(context: Context) -> None:
        seen.append((context.deadline, context.cancelled, context.attempt))

    async with EngineHarness(work=work) as bench:
        await bench.run(a_job(timeout=MINUTE))
        await bench.run(a_job())
        assert seen == [(NOW + MINUTE, False, 1), (None, False, 1)]


# Cancel.


async def test_a_running_coroutine_is_cancelled_where_it_waits() -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await started.wait()
        await bench.store.cancel([job.id], "no longer wanted", NOW)
        await bench.beat()
        ended = await bench.until(job, JobState.CANCELLED)
        assert ended.reason == "no longer wanted"
        assert await outcomes(bench, job) == [OutcomeName.CANCELLED]


async def test_a_cancel_before_the_first_step_ends_the_job_and_frees_its_slot() -> None:
    begun = []

    async def work() -> None:
        begun.append(1)

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        bench.leases.cancel({(job.id, Token(1)): "no longer wanted"})
        await bench.worker.idle.wait()
        assert not begun
        assert not bench.worker.running
        assert (await bench.job(job)).state is JobState.CANCELLED


@pytest.mark.parametrize("what", ["cancelled", "lost"])
async def test_what_a_beat_says_of_many_waiting_jobs_costs_in_proportion(what: str) -> None:
    """A worker holds thousands of jobs, and a bulk cancels them all in between the others."""
    async with EngineHarness(concurrency=1) as bench:

        def told(count: int) -> Callable[[], None]:
            jobs = [msgspec.structs.replace(a_job(), token=Token(1)) for _ in range(count)]
            reasons = {(job.id, job.token): "no longer wanted" for job in jobs[::2]}

            def tell() -> None:
                bench.worker.backlog = deque(jobs)
                if what == "cancelled":
                    assert len(bench.worker.take_unbegun(reasons.keys())) == count // 2
                else:
                    bench.leases.abandon_lost(jobs[::2])
                assert list(bench.worker.backlog) == jobs[1::2]

            return tell

        assert_linear(told(4_000), told(8_000), f"what is {what}")
        bench.worker.backlog.clear()


async def test_a_running_thread_learns_of_its_cancel() -> None:
    started, answer = threading.Event(), threading.Event()

    def work(context: Context) -> None:
        started.set()
        while not context.cancelled:
            answer.wait(0.001)
        answer.set()

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await eventually(started.is_set, "the handler runs")
        await bench.store.cancel([job.id], "enough", NOW)
        await bench.beat()
        assert (await bench.until(job, JobState.CANCELLED)).reason == "enough"
        await eventually(answer.is_set, "the thread learns of its cancel")


async def test_work_that_ends_although_cancelled_keeps_its_result() -> None:
    started = asyncio.Event()

    async def work() -> str:
        try:
            started.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done after all"
        return "not cancelled"

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await started.wait()
        await bench.store.cancel([job.id], "stop", NOW)
        await bench.beat()
        assert bytes((await bench.until(job, JobState.SUCCEEDED)).result) == b'"done after all"'


async def test_a_cancel_asked_for_while_an_attempt_fails_ends_the_job() -> None:
    go = asyncio.Event()

    async def work() -> None:
        await go.wait()
        raise ValueError("x")

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await bench.store.cancel([job.id], "stop", NOW)
        go.set()
        assert (await bench.until(job, JobState.CANCELLED)).reason == "stop"


# Leases.


async def test_an_attempt_that_lost_its_lease_is_stopped_and_writes_nothing() -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await started.wait()
        (mine,) = bench.worker.running.values()
        await bench.rescuer.settle_abandoned([mine.job], {})
        before = await bench.job(job)
        await bench.beat()
        await bench.worker.idle.wait()
        assert await bench.job(job) == before
        assert await outcomes(bench, job) == [OutcomeName.LOST]
        assert [answer.id for answer, *_ in bench.told.of("lease_lost")] == [job.id]


async def test_no_attempt_begins_under_a_lease_that_was_lost_while_the_worker_stood_still() -> None:
    """What waited for a slot is asked for anew: another worker may have begun it since."""
    begun, go = [], asyncio.Event()

    async def work(context: Context) -> None:
        begun.append(context.job_id)
        await go.wait()

    async with EngineHarness(work=work, concurrency=1, prefetch=1) as bench:
        bench.worker.claims_ahead.mean_duration = 0.0  # so that it takes one ahead
        first, lost, kept = (a_job() for _ in range(3))
        await bench.begin(first, lost)
        await eventually(lambda: begun, "the first attempt has begun")
        bench.guard.begin(lambda: None)
        bench.clock.set(bench.clock.now() + bench.row.lease_seconds * SECOND)
        await bench.rescuer.settle_abandoned([await bench.job(lost)], {})
        go.set()
        await eventually(lambda: bench.guard.waiting, "the second attempt waits for a beat")
        await bench.beat()
        await bench.worker.idle.wait()
        assert begun == [first.id]
        assert [answer.id for answer, *_ in bench.told.of("lease_lost")] == [lost.id]
        await bench.begin(kept)
        await bench.worker.idle.wait()
        assert kept.id in begun


async def two_behind_a_beat(bench: EngineHarness) -> tuple[Job, Job]:
    """Two waiting jobs, of a worker whose heartbeats count from now on."""
    bench.guard.begin(lambda: None)
    await bench.beat()
    jobs = a_job(), a_job()
    await bench.store.enqueue(jobs)
    return jobs


async def test_an_attempt_begins_only_after_the_answer_to_a_beat_was_applied() -> None:
    """The answer may say that the lease is lost, and the loop may be late to read it."""
    begun = []

    async def work(context: Context) -> None:
        begun.append(context.job_id)

    async with EngineHarness(work=work) as bench:
        lost, kept = await two_behind_a_beat(bench)
        bench.worker.accept(await bench.claim())
        bench.clock.set(bench.clock.now() + bench.row.lease_seconds * SECOND)
        await bench.rescuer.settle_abandoned([await bench.job(lost)], {})
        answer = await bench.renewer.renew_leases()
        await eventually(lambda: len(bench.guard.waiting) == 2, "both wait for the answer")
        assert begun == []
        bench.leases.reconcile_leases(answer)
        bench.guard.on_applied(answer.sent_at)
        await bench.beat()
        await bench.worker.idle.wait()
        assert begun == [kept.id]


@pytest.mark.parametrize("late", [0, 1], ids=["in time", "after a lease"])
async def test_no_attempt_begins_of_a_claim_whose_answer_came_after_its_leases_ended(
    late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    async def work(context: Context) -> None:
        begun.append(context.job_id)

    async with EngineHarness(work=work) as bench:
        lost, kept = await two_behind_a_beat(bench)
        claim = bench.store.inner.claim

        async def answered_late(request: ClaimRequest) -> Any:
            answer = await claim(request)
            bench.clock.set(bench.clock.now() + late * bench.row.lease_seconds * SECOND)
            if late:
                await bench.rescuer.settle_abandoned([await bench.job(lost)], {})
            await bench.beat()
            return answer

        with monkeypatch.context() as patch:
            patch.setattr(bench.store.inner, "claim", answered_late)
            await bench.begin_due()
        if late:
            await eventually(lambda: len(bench.guard.waiting) == 2, "both wait for a beat")
            assert begun == []
            await bench.beat()
        await bench.worker.idle.wait()
        assert begun == [kept.id] if late else [lost.id, kept.id]
        assert bench.guard.holds()


async def test_no_attempt_begins_whose_lease_the_store_does_not_know_any_more() -> None:
    begun, go = [], asyncio.Event()

    async def work(context: Context) -> None:
        begun.append(context.job_id)
        await go.wait()

    async with EngineHarness(work=work, concurrency=1, prefetch=2) as bench:
        bench.worker.claims_ahead.mean_duration = 0.0  # so that it takes two ahead
        first, lost, kept = (a_job() for _ in range(3))
        await bench.begin(first, lost, kept)
        await bench.rescuer.settle_abandoned([await bench.job(lost)], {})
        await bench.beat()
        go.set()
        await bench.worker.idle.wait()
        assert begun == [first.id, kept.id]


async def test_a_function_whose_thread_begins_too_late_is_asked_for_anew() -> None:
    begun = []
    async with EngineHarness(work=lambda: begun.append(bench.guard.holds())) as bench:
        bench.guard.begin(lambda: None)
        await bench.beat()
        hand_over = bench.handlers.in_process.threads.hand_over

        def too_late(work: Callable[..., Any]) -> None:
            bench.clock.set(bench.clock.now() + bench.row.lease_seconds * SECOND)
            bench.handlers.in_process.threads.hand_over = hand_over
            hand_over(work)

        bench.handlers.in_process.threads.hand_over = too_late
        await bench.begin(a_job())
        await eventually(lambda: bench.guard.waiting, "the attempt waits for a beat")
        assert begun == []
        await bench.beat()
        await bench.worker.idle.wait()
        assert begun == [True]


async def test_a_result_that_comes_after_the_lease_was_lost_is_refused() -> None:
    go = asyncio.Event()

    async def work() -> str:
        await go.wait()
        return "late"

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        (mine,) = bench.worker.running.values()
        await bench.rescuer.settle_abandoned([mine.job], {})
        go.set()
        await bench.worker.idle.wait()
        assert (await bench.job(job)).result is None
        assert bench.told.of("lease_lost")
        assert not bench.told.of("ended")


async def test_a_lease_that_nobody_here_knows_is_handed_back_after_two_beats() -> None:
    async def work() -> None: ...

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        bench.store.after["claim"] = 1
        with pytest.raises(Exception, match="nobody heard"):
            await bench.dispatcher.dispatch_due()
        assert (await bench.job(job)).state is JobState.RUNNING
        await bench.beat()
        assert not bench.worker.handing_back
        await bench.beat()
        back = await bench.until(job, JobState.WAITING)
        assert (back.attempt, back.released, back.due_at) == (0, 1, NOW)


async def test_a_job_that_arrives_late_is_not_handed_back_while_it_runs() -> None:
    go = asyncio.Event()

    async def work() -> None:
        await go.wait()

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        claimed = await bench.claim()
        await bench.beat()
        await bench.beat()
        bench.worker.accept(claimed)
        await asyncio.gather(*bench.worker.handing_back)
        assert (await bench.job(job)).state is JobState.RUNNING
        go.set()
        assert (await bench.until(job, JobState.SUCCEEDED)).attempt == 1


async def test_a_job_that_arrives_after_it_was_handed_back_does_not_begin() -> None:
    began: list[int] = []

    async def work() -> None:
        began.append(1)

    async with EngineHarness(work=work) as bench:
        job, other = a_job(), a_job()
        await bench.store.enqueue([job])
        slow = await bench.claim()
        await bench.beat()
        await bench.beat()
        await bench.until(job, JobState.WAITING)
        await bench.store.enqueue([other])
        bench.worker.accept([*slow, *await bench.claim()])
        await bench.until(job, JobState.SUCCEEDED)
        assert bench.told.of("lease_lost") == [(slow[0],)]
        await bench.until(other, JobState.SUCCEEDED)
        assert len(began) == 2


async def test_a_stray_that_the_store_cannot_name_just_now_is_tried_again() -> None:
    async def work() -> None: ...

    async with EngineHarness(work=work) as bench:
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


async def test_a_result_waits_for_a_store_that_is_away_and_keeps_its_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settler_module, "pause_after", lambda *_: 0.001)
    ran = []

    async def work() -> None:
        ran.append(1)

    async with EngineHarness(work=work, concurrency=1) as bench:
        bench.store.trouble["succeed"] = 5
        job = a_job()
        await bench.begin(job)
        await eventually(lambda: len(bench.told.of("loop_failed")) >= 2, "settling is repeated")
        assert bench.worker.capacity() == 0
        await bench.until(job, JobState.SUCCEEDED)
        await bench.worker.idle.wait()
        assert bench.worker.capacity() == 1
        assert ran == [1]


async def test_a_settlement_whose_answer_was_lost_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settler_module, "pause_after", lambda *_: 0.001)

    async def work() -> None: ...

    async with EngineHarness(work=work) as bench:
        bench.store.after["succeed"] = 2
        job = await bench.run()
        assert job.state is JobState.SUCCEEDED
        assert await outcomes(bench, job) == [OutcomeName.SUCCEEDED]
        assert len(bench.told.of("ended")) == 1
        assert not bench.told.of("lease_lost")


async def test_an_outcome_that_the_store_refuses_ends_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its lease would end unsettled otherwise, and the handler would run again and again."""
    ran = []

    async def work(word: str) -> str:
        ran.append(word)
        return word

    async with EngineHarness(work=work) as bench:
        refuse_results(bench.store.inner, monkeypatch)
        good, bad = (
            a_job(target=HandlerTarget("work", args=msgspec.Raw(msgspec.json.encode([word]))))
            for word in ("kept", "refused")
        )
        await bench.begin(good, bad)
        await bench.until(good, JobState.SUCCEEDED)
        await bench.until(bad, JobState.FAILED)
        stored = await bench.store.job(bad.id)
        assert stored.error == f"{settler_module.NOT_STORABLE}: not this"
        assert await outcomes(bench, bad) == [OutcomeName.FAILED]
        await bench.worker.idle.wait()
        assert ran == ["kept", "refused"]


async def test_an_outcome_that_the_store_refuses_in_any_form_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None: ...

    async def refuse(_: Any) -> Any:
        raise Invalid("not this")

    async with EngineHarness(work=work, concurrency=1) as bench:
        monkeypatch.setattr(bench.store.inner, "succeed", refuse)
        monkeypatch.setattr(bench.store.inner, "settle", refuse)
        job = a_job()
        await bench.begin(job)
        await eventually(lambda: bench.told.of("loop_failed"), "the refusal is told")
        await bench.worker.idle.wait()
        assert (await bench.store.job(job.id)).state is JobState.RUNNING


def refuse_results(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    succeed = store.succeed

    async def refuse_some(successes: Sequence[SucceededAttempt]) -> Sequence[bool]:
        if any(b"refused" in bytes(success.result or b"") for success in successes):
            raise Invalid("not this")
        answers: Sequence[bool] = await succeed(successes)
        return answers

    monkeypatch.setattr(store, "succeed", refuse_some)


async def test_a_telemetry_that_raises_costs_no_slot() -> None:
    async def work() -> None: ...

    async with EngineHarness(work=work, concurrency=1) as bench:

        def broken(*_: Any) -> None:
            raise RuntimeError("no meter")

        answer: Any = bench.told
        answer.started = broken
        await bench.begin(a_job())
        await bench.worker.idle.wait()
        assert bench.worker.capacity() == 1


# Slots.


async def test_no_more_attempts_run_than_there_are_slots() -> None:
    running, peak = 0, 0
    go = asyncio.Event()

    async def work() -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await go.wait()
        running -= 1

    async with EngineHarness(work=work, concurrency=3, prefetch=5) as bench:
        bench.worker.claims_ahead.mean_duration = 0.0
        await bench.begin(*(a_job() for _ in range(20)))
        assert (len(bench.worker.running), len(bench.worker.backlog)) == (3, 5)
        assert bench.worker.capacity() == 0
        await eventually(lambda: running == 3, "all slots are in use")
        go.set()
        await bench.worker.idle.wait()
        assert peak == 3


async def test_long_work_takes_nothing_ahead_of_free_slots() -> None:
    async def work() -> None: ...

    async with EngineHarness(work=work, concurrency=3, prefetch=5) as bench:
        bench.worker.claims_ahead.mean_duration = 1.0
        assert bench.worker.capacity() == 3


async def test_what_waits_behind_long_work_goes_back_and_is_not_claimed_again() -> None:
    """Other workers may have slots, and this one has none until its long work ends."""
    go = asyncio.Event()

    async def work() -> None:
        await go.wait()

    async with EngineHarness(work=work, concurrency=2, prefetch=5) as bench:
        bench.worker.claims_ahead.mean_duration = 0.0
        jobs = [a_job(start_by=NOW + MINUTE) for _ in range(6)]
        await bench.begin(*jobs)
        await bench.dispatcher.step()
        bench.clock.set(bench.clock.now() + SECOND)
        assert len(bench.worker.backlog) == 4
        await bench.dispatcher.step()
        for job in jobs[2:]:
            back = await bench.until(job, JobState.WAITING)
            assert (back.attempt, back.released, back.due_at) == (0, 0, job.due_at)
            assert (back.start_by, back.reason) == (job.start_by, NO_SLOT)
        await bench.dispatcher.step()
        assert [len(bench.worker.running), len(bench.worker.backlog)] == [2, 0]
        go.set()
        await bench.worker.idle.wait()


async def test_a_worker_with_enough_jobs_ahead_claims_no_single_ones() -> None:
    go = asyncio.Event()

    async def work(first: bool) -> None:
        if not first:
            await go.wait()

    async with EngineHarness(work=work, concurrency=2, prefetch=4) as bench:
        bench.worker.claims_ahead.mean_duration = 0.0
        target = HandlerTarget("work", msgspec.Raw(b"[true]"))
        other = HandlerTarget("work", msgspec.Raw(b"[false]"))
        jobs = [a_job(target=target), *(a_job(target=other) for _ in range(5))]
        await bench.begin(*jobs)
        await bench.until(jobs[0], JobState.SUCCEEDED)
        assert (len(bench.worker.running), len(bench.worker.backlog)) == (2, 3)
        assert (bench.worker.capacity(), bench.worker.room_for_claim()) == (1, 0)
        go.set()
        await bench.worker.idle.wait()
        assert bench.worker.room_for_claim() == 6


async def test_one_slot_runs_all_that_waits_here_before_the_store_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a busy machine these few take longer than a share lasts.
    monkeypatch.setattr(attempt_tasks, "SHARE_SECONDS", 60.0)

    async def work() -> None: ...

    async with EngineHarness(work=work, concurrency=1, prefetch=50) as bench:
        bench.worker.claims_ahead.mean_duration = 0.0
        await bench.begin(*(a_job() for _ in range(40)))
        await bench.worker.idle.wait()
        assert bench.store.calls.count("succeed") == 1


async def test_jobs_begin_in_the_order_in_which_they_were_claimed() -> None:
    ran = []

    async def work(n: int) -> None:
        ran.append(n)

    async with EngineHarness(work=work, concurrency=1, prefetch=9) as bench:
        bench.worker.claims_ahead.mean_duration = 0.0
        jobs = [
            a_job(target=HandlerTarget("work", msgspec.Raw(b"[%d]" % n)), priority=-n)
            for n in range(5)
        ]
        await bench.begin(*jobs)
        await bench.worker.idle.wait()
        assert ran == [4, 3, 2, 1, 0]


async def test_an_attempt_sees_no_context_variables_of_the_one_that_it_follows() -> None:
    seen = []

    async def work() -> None:
        seen.append(TENANT.get())
        TENANT.set("north")

    async with EngineHarness(work=work, concurrency=1, prefetch=10) as bench:
        bench.worker.claims_ahead.mean_duration = 0.0
        await bench.begin(*[a_job() for _ in range(3)])
        await bench.worker.idle.wait()
    assert seen == ["nobody"] * 3


# Drain.


async def test_what_runs_may_finish_and_what_waits_here_goes_back() -> None:
    go = asyncio.Event()

    async def work() -> None:
        await go.wait()

    async with EngineHarness(work=work, concurrency=1, prefetch=5) as bench:
        bench.worker.claims_ahead.mean_duration = 0.0
        jobs = [a_job(start_by=NOW + MINUTE) for _ in range(3)]
        await bench.begin(*jobs)
        draining = asyncio.create_task(bench.worker.drain(FOREVER))
        for job in jobs[1:]:
            back = await bench.until(job, JobState.WAITING)
            assert (back.attempt, back.released) == (0, 0)
            assert back.reason == SHUT_DOWN
            assert back.start_by == job.start_by, "it never began, so it must still start in time"
        go.set()
        assert await draining == 0
        assert (await bench.job(jobs[0])).state is JobState.SUCCEEDED
        assert bench.worker.capacity() == 0


async def test_what_does_not_finish_in_time_is_handed_back_and_costs_no_attempt() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        assert await bench.worker.drain(timedelta()) == 1
        back = await bench.job(job)
        assert (back.state, back.attempt, back.released) == (JobState.WAITING, 0, 1)
        assert back.due_at == NOW
        assert await outcomes(bench, job) == [OutcomeName.RELEASED]


async def test_a_thread_that_is_still_running_at_the_end_is_told_and_handed_back() -> None:
    answer, go = threading.Event(), threading.Event()

    def work(context: Context) -> None:
        while not context.cancelled:
            go.wait(0.001)
        answer.set()

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        assert await bench.worker.drain(timedelta()) == 1
        assert (await bench.job(job)).state is JobState.WAITING
        await eventually(answer.is_set, "the thread learns of the shutdown")


async def test_jobs_that_arrive_during_a_drain_go_back_at_once() -> None:
    async def work() -> None: ...

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.store.enqueue([job])
        claimed = await bench.claim()
        bench.worker.is_draining = True
        bench.worker.accept(claimed)
        await bench.worker.drain(FOREVER)
        back = await bench.job(job)
        assert (back.released, back.reason) == (0, SHUT_DOWN)


async def test_a_drain_ends_although_a_handler_does_not_heed_its_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_module, "STOP_PATIENCE", 0.02)
    go = asyncio.Event()

    async def work() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await eventually(lambda: bench.worker.running, "it runs")
        await asyncio.sleep(0)
        assert await bench.worker.drain(timedelta()) == 1
        assert (await bench.job(job)).state is JobState.RUNNING
        go.set()
        await bench.worker.idle.wait()


async def test_a_drain_ends_although_the_store_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settler_module, "pause_after", lambda *_: 0.001)

    async def work() -> None: ...

    async with EngineHarness(work=work) as bench:
        bench.store.trouble["succeed"] = sys.maxsize
        await bench.begin(a_job())
        await bench.worker.drain(0.02 * SECOND)
        assert not bench.worker.running


# Runners of any kind.


async def test_a_runner_that_raises_is_a_failed_attempt() -> None:
    async def act(run: HandledAttempt) -> None:
        raise RuntimeError("broken runner")

    async with EngineHarness(work=lambda: None, runners={HandlerTarget: Scripted(act)}) as bench:
        job = await bench.run(a_job(retry=ONCE))
        assert (job.state, job.error) == (JobState.FAILED, "RuntimeError: broken runner")


async def test_a_task_cancelled_from_outside_writes_nothing() -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await started.wait()
        (running,) = bench.worker.running.values()
        running.task.cancel()
        await bench.worker.idle.wait()
        assert (await bench.job(job)).state is JobState.RUNNING
        assert await outcomes(bench, job) == []


async def test_a_job_of_a_task_that_is_gone_fails_and_is_tried_again() -> None:
    async def work() -> None: ...

    async with EngineHarness(work=work) as bench:
        bench.handlers.registry.handlers.clear()
        job = a_job()
        await bench.store.enqueue([job])
        bench.dispatcher.lanes = lambda: frozenset({"work"})
        await bench.begin_due()
        await bench.worker.idle.wait()
        after = await bench.job(job)
        assert (after.state, after.attempt) == (JobState.WAITING, 1)
        assert "no task 'work'" in after.error


# Targets that report later.


def a_callback() -> Job:
    return a_job(target=HttpTarget("https://api.example.com"))


async def taken_on(_run: Any) -> Outcome:
    raise HandedOver(NOW + MINUTE)


async def test_a_job_that_its_receiver_took_on_is_held_by_it_and_frees_its_slot() -> None:
    async with EngineHarness(runners={HttpTarget: Scripted(taken_on)}) as bench:
        job = a_callback()
        await bench.store.enqueue([job])
        bench.worker.accept(await claim_http(bench))
        await bench.worker.wait_idle(30)
        held = await bench.job(job)
        assert (held.state, held.worker) == (JobState.RUNNING, RECEIVER)
        assert (held.lease_until, held.attempt) == (NOW + MINUTE, 1)
        assert bench.worker.running == {}
        await bench.beat()
        assert await bench.job(job) == held
        assert await outcomes(bench, job) == []
        assert bench.told.of("ended") == bench.told.of("lease_lost") == []


async def test_a_hand_over_waits_for_the_store() -> None:
    async with EngineHarness(runners={HttpTarget: Scripted(taken_on)}) as bench:
        job = a_callback()
        await bench.store.enqueue([job])
        bench.store.trouble["hand_over"] = 1
        bench.worker.accept(await claim_http(bench))
        await bench.worker.wait_idle(30)
        assert (await bench.job(job)).worker == RECEIVER


async def test_a_report_that_came_first_counts() -> None:
    async def report_at_once(run: Any) -> Outcome:
        done, at = Succeeded(), NOW + SECOND
        ended = Settlement(
            job=settle(run.job, done, at, 0.5), attempt=attempt_of(run.job, done, at)
        )
        assert list(await bench.store.settle([ended])) == [True]
        raise HandedOver(NOW + MINUTE)

    async with EngineHarness(runners={HttpTarget: Scripted(report_at_once)}) as bench:
        job = a_callback()
        await bench.store.enqueue([job])
        bench.worker.accept(await claim_http(bench))
        await bench.worker.wait_idle(30)
        assert (await bench.job(job)).state is JobState.SUCCEEDED
        assert await outcomes(bench, job) == [OutcomeName.SUCCEEDED]
        assert bench.worker.running == {}


async def claim_http(bench: EngineHarness) -> Sequence[Job]:
    request = ClaimRequest(
        worker=bench.row.id, now=bench.clock.now(), limit=1, lanes=frozenset({"@http"})
    )
    return (await bench.store.claim(request)).jobs
