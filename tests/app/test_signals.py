import asyncio
import signal
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from signal import Signals
from typing import Any

import pytest

from app.programs import program
from conditions import eventually
from onbeat import Context, JobFailed, Onbeat, every
from onbeat.app.portal import Portal
from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.model.job import JobState

PATIENCE = 60

PROGRAM = """
import asyncio, sys, threading, time
from datetime import timedelta
from onbeat import Onbeat, Options

beat = Onbeat("sqlite:///onbeat.db", options=Options(drain_timeout=timedelta(seconds=float(sys.argv[1]))))

@beat.task("slow")
async def slow() -> str:
    print("begun", flush=True)
    await asyncio.sleep(float(sys.argv[2]))
    print("finished", flush=True)
    return "done"

@beat.task("stuck")
def stuck() -> None:
    print("begun", flush=True)
    threading.Event().wait()

beat.send({"slow": slow, "stuck": stuck}[sys.argv[3]].call())
beat.run()
print("left", flush=True)
"""


def job_of(tmp_path: Any) -> Any:
    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")
    try:
        (job,) = beat.jobs.list()
        return beat.jobs.get(job.id)
    finally:
        beat.backend.portal.call(beat.aclose())
        beat.backend.portal.close()


# A process of its own.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_runs_finish_and_then_leaves(tmp_path: Path, number: Signals) -> None:
    with program(PROGRAM, tmp_path, "30", "0.3", "slow") as running:
        running.wait_to_say("begun")
        running.signal(number)
        assert running.ended() == 0
        assert running.said("finished")
        assert running.said("left")
    assert job_of(tmp_path).state is JobState.SUCCEEDED


def test_what_does_not_finish_in_time_is_handed_back(tmp_path: Path) -> None:
    with program(PROGRAM, tmp_path, "0.1", "3600", "slow") as running:
        running.wait_to_say("begun")
        running.signal(signal.SIGTERM)
        assert running.ended() == 0
    job = job_of(tmp_path)
    assert (job.state, job.attempt) == (JobState.WAITING, 0)
    assert [attempt.outcome for attempt in job.attempts] == ["released"]


def test_a_thread_that_never_ends_does_not_hold_up_the_end_of_the_process(tmp_path: Path) -> None:
    with program(PROGRAM, tmp_path, "0.1", "0", "stuck") as running:
        running.wait_to_say("begun")
        running.signal(signal.SIGTERM)
        assert running.ended() == 0
    assert job_of(tmp_path).state is JobState.WAITING


@pytest.mark.parametrize("task", ["slow", "stuck"])
def test_a_second_signal_does_not_wait_and_costs_no_more_than_a_crash(
    tmp_path: Path, task: str
) -> None:
    with program(PROGRAM, tmp_path, "3600", "3600", task) as running:
        running.wait_to_say("begun")
        running.signal(signal.SIGTERM)
        waiting = threading.Event()
        while running.process.poll() is None and not waiting.wait(0.05):
            running.signal(signal.SIGTERM)
        assert running.ended() != 0
        assert not running.said("Traceback")
    assert job_of(tmp_path).state is JobState.RUNNING


def test_a_program_whose_store_cannot_be_opened_says_so_and_ends(tmp_path: Path) -> None:
    source = PROGRAM.replace("sqlite:///onbeat.db", "sqlite:////nowhere/at/all/onbeat.db")
    with program(source, tmp_path, "1", "1", "slow") as running:
        assert running.ended() != 0
        assert running.said("/nowhere/at/all/onbeat.db")


# In a loop or a thread.


async def test_leaving_drains(beat: Onbeat) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @beat.task
    async def work() -> str:
        begun.set()
        await go.wait()
        return "done"

    async with beat:
        job = await work.asend()
        await begun.wait()
        asyncio.get_running_loop().call_later(0.05, go.set)
    assert await job.aresult(PATIENCE) == "done"
    assert await beat.backend.store.workers() in ((), [])


async def test_it_can_run_again_after_it_was_closed(beat: Onbeat) -> None:
    @beat.task
    async def work() -> int:
        return 1

    for _ in range(3):
        async with beat:
            assert await (await work.asend()).aresult(PATIENCE) == 1


async def test_starting_twice_is_refused_and_harms_nothing(beat: Onbeat) -> None:
    @beat.task
    async def work() -> int:
        return 1

    async with beat:
        with pytest.raises(RuntimeError, match="running already"):
            await beat.start()
        assert len(await beat.backend.store.workers()) == 1
        assert await (await work.asend()).aresult(PATIENCE) == 1


async def test_a_start_that_fails_leaves_nothing_running() -> None:
    beat = Onbeat("memory://")
    original = beat.backend.store.heartbeat

    async def broken(worker: Any) -> None:
        raise Unavailable

    beat.backend.store.heartbeat = broken
    with pytest.raises(Unavailable):
        await beat.start()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert not beat.backend.is_open
    beat.backend.store.heartbeat = original
    async with beat:
        pass


def test_a_background_thread_runs_and_stops(tmp_path: Path) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")
    runs = threading.Event()

    @beat.schedule(every("10ms"), key="tick")
    def tick() -> None:
        runs.set()

    with beat.started() as same:
        assert same is beat
        assert runs.wait(PATIENCE)
    runs.clear()
    beat.backend.portal.close()
    assert not [thread for thread in threading.enumerate() if "sqlite" in thread.name]


async def test_one_onbeat_may_be_used_from_many_threads_at_once(beat: Onbeat) -> None:
    @beat.task
    async def work(n: int) -> int:
        return n

    results = []

    def in_thread(n: Any) -> None:
        results.append(work.send(n).result(PATIENCE))

    async with beat:
        threads = [threading.Thread(target=in_thread, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        await eventually(lambda: len(results) == 8, "all threads have their results")
        for thread in threads:
            thread.join()
    assert sorted(results) == list(range(8))


@pytest.mark.parametrize(
    "url", ["", "sqlite:///", "redis://x", "postgresql://x", "mysql://x", "memory:"]
)
def test_a_url_that_names_no_store_is_refused_naming_the_key(url: str) -> None:
    with pytest.raises(Misconfigured) as raised:
        Onbeat(url)
    assert raised.value.key == "store"


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [("postgresql://h/x", "asyncpg", "postgres"), ("mysql://h/x", "asyncmy", "mysql")],
)
def test_a_store_whose_driver_is_missing_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, url: str, driver: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("onbeat.stores.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(Misconfigured, match=f"onbeat\\[{extra}\\]") as raised:
        Onbeat(url)
    assert raised.value.key == "store"


# What a handler is told.


async def test_a_handler_is_told_about_its_job(
    beat: Onbeat, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []
    caplog.set_level("INFO", "onbeat.handler")

    @beat.task("work", timeout="30s", labels={"a": "b"})
    async def work(context: Context) -> None:
        seen.append(context)
        context.log.info("hello", extra={"shop": "north", "job": "another"})

    before = datetime.now(UTC)
    async with beat:
        job = await work.asend()
        await job.aresult(PATIENCE)
    (context,) = seen
    assert context.job_id == job.id
    assert (context.attempt, context.attempts_max, context.token) == (1, 3, 1)
    assert (context.schedule_id, context.occurrence) == (None, None)
    assert context.labels == {"a": "b"}
    assert before <= context.due_at < context.deadline
    assert not context.cancelled
    (line,) = [record for record in caplog.records if record.name == "onbeat.handler"]
    fields = vars(line)
    assert (fields["job"], fields["attempt"], fields["shop"]) == (job.id, 1, "north")


async def test_progress_is_visible_while_the_job_runs(beat: Onbeat) -> None:
    go = asyncio.Event()

    @beat.task
    async def work(context: Context) -> None:
        context.progress(3, 10)
        await go.wait()

    async with beat:
        job = await work.asend()

        async def visible() -> Any:
            progress = (await job.ainfo()).progress
            # A cancel of anything has the beat come sooner; so has this note its first chance.
            beat._running.runtime.heartbeat_thread.beat_now()
            return progress and (progress.done, progress.total)

        assert await eventually(visible, "the progress is in the store") == (3, 10)
        go.set()
        await job.aresult(PATIENCE)


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_a_running_job_can_be_cancelled(beat: Onbeat, kind: str) -> None:
    begun, answer, pause = threading.Event(), threading.Event(), threading.Event()

    @beat.task("coroutine")
    async def coroutine(context: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            answer.set()

    @beat.task("thread")
    def thread(context: Context) -> None:
        begun.set()
        while not context.cancelled:
            pause.wait(0.001)
        answer.set()

    async with beat:
        job = await {"coroutine": coroutine, "thread": thread}[kind].asend()
        await eventually(begun.is_set, "it runs")
        await beat.jobs.acancel(job.id, "enough")
        with pytest.raises(JobFailed, match="cancelled: enough"):
            await job.aresult(PATIENCE)
        await eventually(answer.is_set, "the handler was told")


# The portal.


async def add(a: Any, b: Any) -> Any:
    return a + b


def test_a_portal_opens_again_after_it_was_closed() -> None:
    portal = Portal()
    assert portal.call(add(1, 2)) == 3
    portal.close()
    assert portal.call(add(3, 4)) == 7
    portal.close()
    portal.close()
