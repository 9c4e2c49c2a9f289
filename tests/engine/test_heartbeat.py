import asyncio
import threading
from typing import Any

import msgspec
import pytest

from conditions import eventually
from engine.harness import EngineHarness
from onbeat import Context, Fail
from onbeat.engine.heartbeat import HeartbeatThread, LeaseAnswer
from onbeat.engine.side_thread import SideThread
from onbeat.model.errors import Invalid, Unavailable
from onbeat.model.job import JobState, Progress
from onbeat.model.target import HandlerTarget
from onbeat.model.worker import WorkerRecord
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import a_job

PERIOD = 0.02


async def row_of(bench: EngineHarness) -> WorkerRecord:
    rows = {row.id: row for row in await bench.store.workers()}
    return rows[bench.row.id]


async def test_every_beat_is_one_higher() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        first = (await row_of(bench)).beat
        await bench.beat()
        assert (await row_of(bench)).beat == first + 1


async def test_a_beat_whose_answer_was_lost_is_followed_by_a_higher_one() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        bench.store.after["heartbeat"] = 1
        with pytest.raises(Unavailable):
            await bench.beat()
        before = (await row_of(bench)).beat
        await bench.beat()
        assert (await row_of(bench)).beat == before + 1


async def test_progress_is_in_the_store_after_the_next_beat() -> None:
    noted, go = asyncio.Event(), asyncio.Event()

    async def work(context: Context) -> None:
        context.progress(1, 3)
        context.progress(2, 3)
        noted.set()
        await go.wait()

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await noted.wait()
        await bench.beat()
        assert (await bench.job(job)).progress == Progress(2, 3)
        go.set()
        assert (await bench.until(job, JobState.SUCCEEDED)).progress == Progress(2, 3)


async def test_progress_that_the_store_did_not_take_is_told_again() -> None:
    noted = asyncio.Event()

    async def work(context: Context) -> None:
        context.progress(1)
        noted.set()
        await asyncio.Event().wait()

    async with EngineHarness(work=work) as bench:
        job = a_job()
        await bench.begin(job)
        await noted.wait()
        bench.store.trouble["note_progress"] = 1
        with pytest.raises(Unavailable):
            await bench.beat()
        await bench.beat()
        assert (await bench.job(job)).progress == Progress(1)


async def report_and_end(context: Context, *, again: bool | None = None) -> None:
    for done in range(8):
        context.progress(done + 1, 8)
    if again is not None:
        raise Fail("no", retryable=again)


@pytest.mark.parametrize(
    ("kwargs", "state", "progress"),
    [
        (b"{}", JobState.SUCCEEDED, Progress(8, 8)),
        (b'{"again": false}', JobState.FAILED, Progress(8, 8)),
        (b'{"again": true}', JobState.WAITING, None),
    ],
)
async def test_the_last_progress_stands_when_the_job_ends(
    kwargs: bytes, state: JobState, progress: Progress | None
) -> None:
    async with EngineHarness(work=report_and_end) as bench:
        ended = await bench.run(a_job(target=HandlerTarget("work", kwargs=msgspec.Raw(kwargs))))
        assert (ended.state, ended.progress) == (state, progress)
        assert ("note_progress" in bench.store.calls) == (progress is not None)


async def test_a_job_that_reports_no_progress_stores_none() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        assert (await bench.run()).state is JobState.SUCCEEDED
        assert "note_progress" not in bench.store.calls


async def test_the_last_progress_waits_for_a_store_that_is_away() -> None:
    async with EngineHarness(work=report_and_end) as bench:
        bench.store.trouble["note_progress"] = 1
        job = a_job()
        await bench.begin(job)
        assert (await bench.until(job, JobState.SUCCEEDED)).progress == Progress(8, 8)
        assert bench.store.calls.count("note_progress") == 2


async def test_progress_that_the_store_refuses_ends_no_job_otherwise() -> None:
    class Refusing(MemoryStore):
        async def note_progress(self, notes: Any) -> Any:
            raise Invalid("this is no progress")

    async with EngineHarness(store=Refusing(), work=report_and_end) as bench:
        ended = await bench.run()
        assert (ended.state, ended.progress) == (JobState.SUCCEEDED, None)
        assert [name for name, _ in bench.told.words if name == "loop_failed"] == ["loop_failed"]


async def test_the_beat_itself_goes_before_the_progress() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        bench.store.calls.clear()
        await bench.beat()
        assert bench.store.calls[0] == "heartbeat"


async def test_what_settles_just_now_is_not_compared() -> None:
    go = asyncio.Event()

    async def work() -> None:
        await go.wait()

    async with EngineHarness(work=work) as bench:
        await bench.begin(a_job())
        (running,) = bench.worker.running.values()
        running.is_settling = True
        answer = await bench.renewer.renew_leases()
        assert answer.known == ()
        go.set()


# The thread.


async def test_beats_go_on_while_a_handler_blocks_the_event_loop() -> None:
    beats, enough = [], threading.Event()

    async def work() -> None:
        assert enough.wait(10), "the beats rise while the loop is blocked"

    async with EngineHarness(work=work) as bench:
        original = bench.store.inner.heartbeat

        async def counted(row: WorkerRecord) -> tuple[Any, ...]:
            beats.append(row.beat)
            if blocked.is_set() and len(beats) >= first + 5:
                enough.set()
            return await original(row)

        first, blocked = 0, threading.Event()
        bench.store.inner.heartbeat = counted
        thread = HeartbeatThread(bench.renewer, PERIOD, bench.told)
        thread.start()
        job = a_job()
        await bench.begin(job)
        first = len(beats)
        blocked.set()
        await bench.until(job, JobState.SUCCEEDED)
        await thread.stop()
        assert beats == sorted(set(beats))


async def test_no_error_ends_the_beats() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        thread = HeartbeatThread(bench.renewer, PERIOD, bench.told)
        rows = iter([ZeroDivisionError(), Unavailable()])

        def row() -> WorkerRecord:
            for error in rows:
                raise error
            return bench.row

        bench.renewer.row = row
        thread.start()
        before = (await row_of(bench)).beat

        async def rises() -> bool:
            return (await row_of(bench)).beat > before + 3

        await eventually(rises, "the beats go on")
        await thread.stop()
        answer = [type(error) for name, error in bench.told.of("loop_failed") if name == "renewer"]
        assert answer == [ZeroDivisionError, Unavailable]


async def test_a_ring_brings_the_next_beat_at_once() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        side_thread = SideThread()
        thread = HeartbeatThread(bench.renewer, 3600.0, bench.told, side_loop=lambda: side_thread)
        thread.start()
        await eventually(lambda: bench.renewer.beats >= 2, "the thread beats")
        thread.beat_now()
        await eventually(lambda: bench.renewer.beats >= 3, "the ring is heard")
        await thread.stop()
        assert side_thread.thread is not None
        assert not side_thread.thread.is_alive()


async def test_a_cancel_reaches_the_handler_through_the_thread() -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    async with EngineHarness(work=work) as bench:
        thread = HeartbeatThread(bench.renewer, PERIOD, bench.told)
        thread.start()
        job = a_job()
        await bench.begin(job)
        await started.wait()
        await bench.store.cancel([job.id], "stop", bench.clock.now())
        await bench.until(job, JobState.CANCELLED)
        await thread.stop()


async def test_of_several_words_told_to_a_blocked_loop_only_the_latest_counts() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        thread = HeartbeatThread(bench.renewer, PERIOD, bench.told)
        taken: list[Any] = []
        words: list[Any] = [("first",), ("second",)]
        bench.leases.reconcile_leases = lambda answer: taken.append(answer.held)
        for number, held in enumerate(words):
            thread.answers.append(LeaseAnswer((), (), held, float(number)))
            thread.call_in_worker_loop(thread.apply_answer)
        await eventually(lambda: taken, "the word arrives")
        await asyncio.sleep(0)
        assert taken == [("second",)]


async def test_a_thread_whose_workers_loop_has_ended_tells_nobody() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        thread = HeartbeatThread(bench.renewer, PERIOD, bench.told)
        thread.loop = asyncio.new_event_loop()
        thread.loop.close()
        await thread.renew()
        assert not bench.told.of("loop_failed")
