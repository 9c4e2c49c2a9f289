"""What a handler sends has the cause of its job, so that loops of events end."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.test_steps import Program
from onbeat import Cancel, Fail
from onbeat.model.event import EventCause
from onbeat.model.limits import EVENT_DEPTH_MAX
from onbeat.ports.running_cause import running_cause

FAILED = "onbeat.job.failed"
CANCELLED = "onbeat.job.cancelled"
HERE = EventCause(FAILED, depth=1, carried=False)


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    with program.trial:
        yield program


def break_once(program: Program) -> None:
    """A job fails, and everything that follows from it runs."""

    @program.beat.task("broken")
    def broken() -> None:
        raise Fail("of its own", retryable=False)

    broken.send()
    program.trial.drain()


def causes_of(program: Program, task: str) -> list[EventCause | None]:
    jobs = program.beat.jobs.list(task=task, limit=100)
    stored = [program.beat.backend.wait_for(stored_job(program, job.id)) for job in jobs]
    return [job.cause for job in stored]


async def stored_job(program: Program, id: Any) -> Any:
    return await program.beat.backend.store.job(id)


def test_a_reaction_that_sends_a_job_that_fails_ends(program: Program) -> None:
    @program.beat.task("other")
    def other() -> None:
        raise Fail("as the first one", retryable=False)

    @program.beat.schedule(on=FAILED, key="react")
    def react() -> None:
        other.send()

    break_once(program)
    program.trial.assert_ran("other", times=1)
    assert causes_of(program, "other") == [HERE]


def test_two_reactions_that_cause_each_other_end_at_the_bound(program: Program) -> None:
    @program.beat.task("fails")
    def fails() -> None:
        raise Fail("again", retryable=False)

    @program.beat.task("cancels")
    async def cancels() -> None:
        raise Cancel("again")

    @program.beat.schedule(on=FAILED, key="on failed")
    async def on_failed() -> None:
        await cancels.asend()

    @program.beat.schedule(on=CANCELLED, key="on cancelled")
    def on_cancelled() -> None:
        program.beat.send(fails.call())

    break_once(program)
    ran = [len(program.trial.ran_of(one)) for one in (cancels, fails)]
    assert ran == [EVENT_DEPTH_MAX // 2] * 2
    depths = [cause.depth for cause in causes_of(program, "fails") if cause is not None]
    assert max(depths) == EVENT_DEPTH_MAX


def test_an_event_that_a_reaction_publishes_counts_on(program: Program) -> None:
    @program.beat.schedule(on=FAILED, key="tell")
    def tell() -> None:
        program.beat.events.publish("again")

    @program.beat.schedule(on="again", key="fail")
    def fail() -> None:
        raise Fail("again", retryable=False)

    break_once(program)
    assert len(program.trial.ran_of(fail)) == EVENT_DEPTH_MAX
    extensions = [one.extensions for one in program.beat.events.list(type="again")]
    assert extensions == [{"onbeatdepth": depth} for depth in range(EVENT_DEPTH_MAX, 0, -1)]


def reaction_of(program: Program, work: Callable[[], Any]) -> None:
    program.beat.schedule(on=FAILED, key="react")(work)
    break_once(program)


def test_a_thread_of_the_handler_sends_with_its_cause(program: Program) -> None:
    @program.beat.task("other")
    def other() -> None: ...

    async def react() -> None:
        await asyncio.to_thread(other.send)

    reaction_of(program, react)
    assert causes_of(program, "other") == [HERE]


def test_many_calls_and_batches_have_the_cause(program: Program) -> None:
    @program.beat.task("other")
    def other(number: int) -> None: ...

    def react() -> None:
        program.beat.send([other.call(1), other.call(2)])
        program.beat.batch([other.call(3)], then=other.call(4))

    reaction_of(program, react)
    assert causes_of(program, "other") == [HERE] * 4


def test_a_flow_of_the_sender_is_not_joined(program: Program) -> None:
    @program.beat.task("other")
    def other() -> None: ...

    @program.beat.task("sender")
    def sender() -> None:
        other.send()

    program.beat.send([sender.options(name="one").call(), sender.options(name="two").call()])
    program.trial.drain()
    jobs = program.beat.jobs.list(task="other")
    assert len(jobs) == 2
    assert {program.beat.backend.wait_for(stored_job(program, job.id)).flow for job in jobs} == {
        None
    }


def test_what_is_sent_elsewhere_has_no_cause(program: Program) -> None:
    @program.beat.task("other")
    def other() -> None: ...

    def react() -> None: ...

    reaction_of(program, react)
    assert running_cause() is None
    other.send()
    assert causes_of(program, "other") == [None]


def test_a_thread_that_the_handler_did_not_start_has_no_cause(program: Program) -> None:
    seen: list[Any] = []
    asked, answered = threading.Event(), threading.Event()

    def serve() -> None:
        asked.wait()
        seen.append(running_cause())
        answered.set()

    outside = threading.Thread(target=serve)
    outside.start()

    def react() -> None:
        seen.append(running_cause())
        asked.set()
        answered.wait()

    reaction_of(program, react)
    outside.join()
    assert seen == [HERE, None]
