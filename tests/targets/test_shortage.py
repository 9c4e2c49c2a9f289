"""What our own want of means, and of a name server, makes of attempts: nobody's failure."""

import contextlib
import os
import resource
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest

from engine.harness import EngineHarness
from onbeat.app.brokers import open_broker
from onbeat.engine.worker import HandledAttempt
from onbeat.model.job import JobState
from onbeat.model.limits import DESCRIPTORS_SPARE
from onbeat.model.outcome import Failed, Snoozed, Succeeded
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget
from onbeat.rules.circuit_breaker import CALLS_MIN, HOLD_SECONDS_MIN
from onbeat.rules.ip_policy import NOTHING_MORE
from onbeat.rules.shortage import shortage_in
from onbeat.targets.breaker import Breakers
from onbeat.targets.http import HttpRunner
from onbeat.targets.http_options import HttpOptions
from onbeat.targets.lazy import LazyRunner
from onbeat.targets.message import MessageRunner
from onbeat.targets.ssrf_guard import AddressGuard
from onbeat.targets.subprocess.child import serve
from onbeat.targets.subprocess.parent import ChildProcesses
from onbeat.testing.build import NOW, a_job
from targets.runs import CLOCK, a_run, a_runner
from targets.scripted_http_server import ScriptedServer

TASK = HandlerTarget("work")


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """This process can open nothing more until the block ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def means_short(coroutine: Coroutine[Any, Any, Any]) -> str:
    """What was short when this was awaited."""
    with no_descriptors(), pytest.raises(Exception) as caught:
        await coroutine
    return shortage_in(caught.value)


async def test_a_callback_without_a_descriptor_says_nothing_about_its_endpoint() -> None:
    async with ScriptedServer() as sink, a_runner() as runner:
        for _ in range(2 * CALLS_MIN):
            assert await means_short(runner.run(a_run(sink.url()))) == "open files"
        assert isinstance(await runner.run(a_run(sink.url())), Succeeded)
        assert len(sink.received) == 1


def test_the_last_descriptors_are_left_to_others() -> None:
    guard = AddressGuard(NOTHING_MORE, private_allowed=True)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert guard.descriptor_max == soft - DESCRIPTORS_SPARE
    info = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 9))
    with guard.socket_for(info) as made:
        number = made.fileno()
    guard.descriptor_max = number + 1
    guard.socket_for(info).close()
    guard.descriptor_max = number
    with pytest.raises(OSError, match="Too many open files") as caught:
        guard.socket_for(info)
    assert shortage_in(caught.value) == "open files"


async def test_a_name_that_seems_not_to_exist_for_want_of_a_descriptor_is_no_failure() -> None:
    async with a_runner() as runner:
        assert await means_short(runner.run(a_run("http://no.such.name.invalid/"))) == "open files"


async def test_what_is_loaded_late_is_not_loaded_by_halves() -> None:
    late = LazyRunner(lambda: HttpRunner(CLOCK, HttpOptions()))
    assert await means_short(late.run(a_run("http://127.0.0.1:9/"))) == "open files"
    assert late.runner is None
    assert isinstance(await late.run(a_run("http://127.0.0.1:9/")), Failed)
    await late.close()


@pytest.mark.parametrize(
    "url",
    ["amqp://127.0.0.1:9/", "redis://127.0.0.1:9", "sqs://eu-west-1?endpoint=http://127.0.0.1:9"],
)
async def test_a_message_without_a_descriptor_is_no_failure_of_the_broker(url: str) -> None:
    open_broker(url)  # loads the driver
    runner = MessageRunner({"x": url}, open_broker, Breakers(CLOCK))
    run = a_run("http://x/")
    run.job = a_job(target=MessageTarget("x", "queue"))
    assert await means_short(runner.run(run)) == "open files"
    await runner.close()


async def test_a_process_that_cannot_be_started_is_no_failure() -> None:
    processes = ChildProcesses(serve)
    run = a_run("http://x/")
    run.job = a_job(target=TASK)
    assert await means_short(processes.run(run, __name__, None)) == "open files"


async def test_an_attempt_that_was_short_of_means_is_put_off_and_spends_nothing() -> None:
    lane: dict[str, Any] = {"@http": lambda: None}
    async with a_runner() as http, EngineHarness(runners={HttpTarget: http}, **lane) as bench:
        job = a_job(target=HttpTarget("http://127.0.0.1:9/"))
        with no_descriptors():
            job = await bench.run(job)
        assert (job.state, job.attempt) == (JobState.WAITING, 0)
        assert job.reason == "this worker was out of open files"
        assert timedelta(seconds=1) <= job.due_at - NOW <= timedelta(seconds=5)
        assert bench.told.of("ran_short") == [("open files",)]
        (attempt,) = await bench.store.attempts(job.id)
        assert attempt.error == job.reason


async def test_a_plain_function_that_gets_no_thread_is_put_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(_thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with EngineHarness(work=lambda: 1) as bench:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            job = await bench.run()
        assert (job.state, job.attempt) == (JobState.WAITING, 0)
        assert job.reason == "this worker was out of threads"


async def test_a_runner_that_breaks_tells_no_path_of_the_installation() -> None:
    class Broken:
        async def run(self, run: HandledAttempt) -> None:
            raise FileNotFoundError(2, "No such file or directory", "/opt/onbeat/http.py")

    async with EngineHarness(runners={HandlerTarget: Broken()}, work=lambda: None) as bench:
        job = await bench.run(a_job())
    assert job.error == "FileNotFoundError: [Errno 2] No such file or directory"


def lookup_raising(number: int) -> Callable[..., Any]:
    async def lookup(_host: str, _port: int) -> None:
        raise socket.gaierror(number, "as the system says it")

    return lookup


@pytest.mark.parametrize("number", [socket.EAI_AGAIN, socket.EAI_SYSTEM])
async def test_a_name_server_that_does_not_answer_costs_no_attempt(number: int) -> None:
    url = "http://api.example/a"
    async with a_runner(lookup=lookup_raising(number)) as runner:
        for _ in range(3 * CALLS_MIN):
            outcome = await runner.run(a_run(url))
            assert isinstance(outcome, Snoozed)
            assert outcome.delay >= timedelta(seconds=HOLD_SECONDS_MIN / 2)
        # It is asked no more than an endpoint that is down.
        assert outcome.reason == "http://api.example:80 seems to be down, so no call was made"
        assert runner.breakers.breaker("http://api.example:80").is_open


async def test_the_reason_says_that_no_name_server_answered() -> None:
    async with a_runner(lookup=lookup_raising(socket.EAI_AGAIN)) as runner:
        outcome = await runner.run(a_run("http://api.example/a?b"))
    assert isinstance(outcome, Snoozed)
    assert outcome.reason == (
        "GET http://api.example/a was not sent: no name server answered for the host"
    )


@pytest.mark.parametrize("number", [socket.EAI_NONAME, socket.EAI_NODATA])
async def test_a_name_that_does_not_exist_is_a_failed_attempt_that_says_so(number: int) -> None:
    async with a_runner(lookup=lookup_raising(number)) as runner:
        outcome = await runner.run(a_run("http://api.example/a?b"))
    assert outcome == Failed(
        "GET http://api.example/a failed: there is no host of this name, or it has no address"
    )


async def test_other_faults_of_a_lookup_are_failed_attempts() -> None:
    async with a_runner(lookup=lookup_raising(socket.EAI_FAIL)) as runner:
        outcome = await runner.run(a_run("http://api.example/a"))
    assert outcome == Failed("GET http://api.example/a failed: the host's name did not resolve")
