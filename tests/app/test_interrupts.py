"""What a handler raises ends its attempt, and never a loop, a thread or a process."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.programs import program
from conditions import eventually_here
from onbeat import JobFailed, Onbeat, Retry
from onbeat.app import event_loop
from onbeat.app.portal import GONE
from onbeat.model.job import JobState
from onbeat.wire.jobs import JobInfo

PATIENCE = 60
ONCE = Retry(attempts_max=1)


class Panic(BaseException):
    """As extension modules written in Rust raise one."""


ERRORS = [KeyboardInterrupt, GeneratorExit, SystemExit, Panic]


async def in_the_coroutine(error: BaseException) -> None:
    raise error


async def in_a_task(error: BaseException) -> None:
    await asyncio.create_task(in_the_coroutine(error))


async def in_a_group(error: BaseException) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(in_the_coroutine(error))


async def in_a_generator(error: BaseException) -> AsyncIterator[None]:
    raise error
    yield


def in_a_thread(error: BaseException) -> None:
    raise error


def in_a_plain_generator(error: BaseException) -> Iterator[None]:
    raise error
    yield


def coroutine_of(act: Callable[..., Any], error: type[BaseException]) -> Callable[..., Any]:
    async def work() -> None:
        await act(error("odd"))

    return work


def generator_of(error: type[BaseException]) -> Any:
    async def work() -> AsyncIterator[Any]:
        async for call in in_a_generator(error("odd")):
            yield call

    return work


def thread_of(error: type[BaseException]) -> Any:
    def work() -> None:
        in_a_thread(error("odd"))

    return work


def plain_generator_of(error: type[BaseException]) -> Any:
    def work() -> Iterator[Any]:
        yield from in_a_plain_generator(error("odd"))

    return work


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "made",
    [
        partial(coroutine_of, in_the_coroutine),
        partial(coroutine_of, in_a_task),
        partial(coroutine_of, in_a_group),
        generator_of,
        thread_of,
        plain_generator_of,
    ],
    ids=["coroutine", "task", "group", "async generator", "thread", "generator"],
)
def test_whatever_is_raised_is_a_failed_attempt_and_the_loop_goes_on(
    error: type[BaseException], made: Callable[..., Any]
) -> None:
    beat = Onbeat("memory://")
    work = beat.task("work", retry=ONCE)(made(error))

    @beat.task("after")
    async def after() -> int:
        return 7

    with beat.started():
        with pytest.raises(JobFailed, match=f"{error.__name__}|TaskGroup"):
            work.send().result(timeout=PATIENCE)
        assert after.send().result(timeout=PATIENCE) == 7
    beat.backend.portal.close()


PROGRAM = """
import asyncio, sys
from onbeat import Onbeat, Retry

beat = Onbeat("sqlite:///onbeat.db")

async def interrupts():
    raise KeyboardInterrupt("odd")

@beat.task("bad", retry=Retry(attempts_max=1))
async def bad() -> None:
    await (asyncio.create_task(interrupts()) if sys.argv[1] == "task" else interrupts())

@beat.task("good")
async def good() -> None:
    print("good", flush=True)

bad.send()
good.send()
beat.run()
"""


@pytest.mark.parametrize("place", ["coroutine", "task"])
def test_a_program_goes_on_after_a_handler_was_interrupted(tmp_path: Path, place: str) -> None:
    with program(PROGRAM, tmp_path, place) as running:
        running.wait_to_say("good")

        def ended() -> list[JobInfo]:
            beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")
            try:
                return [job for job in beat.jobs.list() if job.state is JobState.FAILED]
            finally:
                beat.backend.portal.call(beat.aclose())
                beat.backend.portal.close()

        (failed,) = eventually_here(ended, "the interrupted attempt failed")
        assert "KeyboardInterrupt" in failed.error
        running.signal(signal.SIGTERM)
        assert running.ended() == 0


def test_a_real_signal_before_anybody_listens_still_ends_the_loop() -> None:
    async def work() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), 2)
        await asyncio.Event().wait()

    # Whoever starts tests in the background may have them ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            event_loop.run(work())
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_the_work_itself_raises_comes_out() -> None:
    async def work() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        event_loop.run(work())


def test_a_call_whose_thread_is_gone_says_so() -> None:
    beat = Onbeat("memory://")
    assert list(beat.jobs.list()) == []
    beat.backend.portal.loop.call_soon_threadsafe(beat.backend.portal.loop.stop)
    beat.backend.portal.thread.join()
    with pytest.raises(RuntimeError, match="background thread has ended"):
        beat.jobs.list()
    beat.backend.portal.close()
    assert list(beat.jobs.list()) == []
    beat.backend.portal.close()


def test_a_call_that_is_under_way_when_the_thread_ends_does_not_hang() -> None:
    beat = Onbeat("memory://")
    raised = []
    begun = threading.Event()

    async def never() -> None:
        begun.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            beat.backend.portal.call(never())
        except RuntimeError as error:
            raised.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    assert begun.wait(PATIENCE)
    beat.backend.portal.loop.call_soon_threadsafe(beat.backend.portal.loop.stop)
    thread.join(PATIENCE)
    assert raised == [GONE]
    beat.backend.portal.close()
