"""Hooks round jobs: where they run, what they are given, and that their errors change nothing."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from app import hooked_tasks
from onbeat import Call, Context, Fail, Onbeat, Retry, Snooze
from onbeat.types import JobInfo

AT = "2026-11-23T09:00Z"
tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


@pytest.fixture
def beat() -> Onbeat:
    return Onbeat("memory://")


def test_plain_hooks_run_in_the_thread_of_a_plain_handler(beat: Onbeat) -> None:
    threads: list[int] = []
    beat.before_job(lambda context: threads.append(threading.get_ident()))
    beat.after_job(lambda context, error: threads.append(threading.get_ident()))

    @beat.task
    def work() -> None:
        threads.append(threading.get_ident())

    with beat.testing(at=AT):
        work.send().result()
    assert len(threads) == 3
    assert set(threads) == {threads[1]}
    assert threads[1] != threading.get_ident()


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_hook_sets_a_context_variable_for_every_kind_of_handler(
    beat: Onbeat, is_plain: bool
) -> None:
    seen: dict[str, str] = {}

    def enter(context: Context) -> None:
        tenant.set(context.labels["tenant"])

    async def aenter(context: Context) -> None:
        enter(context)

    beat.before_job(enter if is_plain else aenter)

    @beat.task
    def plain() -> None:
        seen["plain"] = tenant.get()

    @beat.task
    async def coroutine() -> None:
        seen["coroutine"] = tenant.get()

    @beat.task
    def generator() -> Iterator[Call[Any]]:
        seen["generator"] = tenant.get()
        yield plain.options(labels={"tenant": "green"}).call()

    @beat.task
    async def async_generator() -> AsyncIterator[Call[Any]]:
        seen["async_generator"] = tenant.get()
        yield coroutine.options(labels={"tenant": "green"}).call()

    with beat.testing(at=AT) as trial:
        generator.options(labels={"tenant": "green"}).send()
        async_generator.options(labels={"tenant": "green"}).send()
        trial.drain()
    assert seen == dict.fromkeys(("generator", "async_generator", "plain", "coroutine"), "green")


def test_the_hook_after_a_job_is_told_what_the_handler_raised(beat: Onbeat) -> None:
    seen: list[Any] = []

    @beat.after_job
    async def note(context: Context, error: BaseException | None) -> None:
        seen.append((context.task, context.queue, context.attempt, type(error)))

    @beat.task("good", queue="fast")
    def good() -> None: ...

    @beat.task("bad", retry=Retry(1))
    async def bad() -> None:
        raise ValueError("no")

    @beat.task("later")
    def later(context: Context) -> None:
        raise Snooze("1h")

    with beat.testing(at=AT) as trial:
        tasks: list[Any] = [good, bad, later]
        for task in tasks:
            task.send()
            trial.drain()
    assert seen == [
        ("good", "fast", 1, type(None)),
        ("bad", "default", 1, ValueError),
        ("later", "default", 1, Snooze),
    ]


def test_an_error_in_a_hook_is_logged_and_changes_nothing(
    beat: Onbeat, caplog: pytest.LogCaptureFixture
) -> None:
    @beat.before_job
    def broken(context: Context) -> None:
        raise RuntimeError("before")

    @beat.after_job
    async def broken_too(context: Context, error: BaseException | None) -> None:
        raise RuntimeError("after")

    @beat.on_job_failed
    def broken_as_well(job: JobInfo) -> None:
        raise RuntimeError("failed")

    @beat.task
    def good() -> int:
        return 7

    @beat.task
    def bad() -> None:
        raise Fail("no", retryable=False)

    with caplog.at_level(logging.ERROR, "onbeat.hooks"), beat.testing(at=AT) as trial:
        assert good.send().result() == 7
        bad.send()
        trial.drain()
    assert sum(record.getMessage() == "a hook failed" for record in caplog.records) == 5


def test_the_hook_of_failures_is_called_once_when_the_last_attempt_has_failed(beat: Onbeat) -> None:
    failed: list[tuple[str, int, str | None]] = []
    beat.on_job_failed(lambda job: failed.append((job.id, job.attempt, job.error)))

    @beat.on_job_failed
    async def note(job: JobInfo) -> None:
        failed.append((job.id, job.attempt, "in the loop"))

    @beat.task(retry=Retry(2, delay="1m", jitter=False))
    def bad() -> None:
        raise ValueError("no")

    with beat.testing(at=AT) as trial:
        job: Any = bad.send()
        trial.drain()
        assert failed == []
        trial.advance("1m")
    assert [(id, attempt) for id, attempt, _ in failed] == [(job.id, 2)] * 2
    assert "ValueError: no" in (failed[0][2] or "")


def test_a_timeout_is_a_failure_too(beat: Onbeat) -> None:
    failed: list[str] = []
    beat.on_job_failed(lambda job: failed.append(job.error or ""))
    after: list[type] = []
    beat.after_job(lambda context, error: after.append(type(error)))

    @beat.task(timeout="10ms", retry=Retry(1))
    async def slow() -> None:
        await asyncio.Event().wait()

    with beat.testing(at=AT) as trial:
        slow.send()
        trial.drain()
    assert "timed out" in failed[0]
    assert after == [asyncio.CancelledError]


async def test_a_context_variable_that_a_start_sets_is_seen_by_handlers(beat: Onbeat) -> None:
    @beat.on_start
    async def enter() -> None:
        tenant.set("of the program")

    @beat.task
    async def work() -> str:
        return tenant.get()

    async with beat:
        assert await (await work.asend()).aresult(30) == "of the program"


async def test_hooks_of_start_and_stop_surround_all_jobs() -> None:
    beat, seen = Onbeat("memory://"), []

    @beat.on_start
    async def connect() -> None:
        seen.append("connect")

    @beat.on_start
    def warm() -> None:
        seen.append("warm")

    @beat.on_stop
    def first_of_two() -> None:
        seen.append("stop 1")

    @beat.on_stop
    async def second_of_two() -> None:
        seen.append("stop 2")
        raise RuntimeError("only logged")

    @beat.task
    async def work() -> None:
        seen.append("job")

    async with beat:
        await (await work.asend()).aresult(60)
    assert seen == ["connect", "warm", "job", "stop 2", "stop 1"]


async def test_an_error_at_the_start_stops_it() -> None:
    beat = Onbeat("memory://")

    @beat.on_start
    async def connect() -> None:
        raise ConnectionError("the pool is away")

    with pytest.raises(ConnectionError, match="the pool is away"):
        await beat.start()
    assert not beat.backend.is_running


def test_hooks_run_in_the_process_of_an_isolated_task() -> None:
    with hooked_tasks.beat.testing(at=AT):
        assert hooked_tasks.whose.options(labels={"tenant": "blue"}).send().result() == "blue"
