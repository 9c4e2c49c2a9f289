"""Steps and pauses of tasks: what an earlier attempt has done is not done again."""

import asyncio
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from app.test_fan_out import give_up
from conditions import eventually
from onbeat import Context, Onbeat, Retry
from onbeat.model.errors import LeaseLost
from onbeat.model.limits import STEPS_BYTES_MAX

AT = "2026-11-23T20:00Z"
AT_ONCE = Retry(3, delay=0)


class Program:
    """A task `work` with the body of the test, and what its steps were called with."""

    def __init__(self) -> None:
        self.beat = Onbeat("memory://")
        self.trial = self.beat.testing(at=AT)
        self.calls: list[Any] = []

    def run(self, body: Any, **options: Any) -> Any:
        task = self.beat.task("work", retry=AT_ONCE, **options)(body)
        job = task.send()
        self.trial.drain()
        return job

    async def double(self, number: int) -> int:
        self.calls.append(number)
        return number * 2

    def day(self, text: str) -> date:
        self.calls.append(text)
        return date.fromisoformat(text)


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    with program.trial:
        yield program


def test_a_next_attempt_gets_the_stored_results(program: Program) -> None:
    seen: list[Any] = []

    async def body(context: Context) -> None:
        seen.append(await context.step("double", program.double, 21))
        seen.append(await context.step("day", program.day, "2030-01-02"))
        if context.attempt == 1:
            raise ValueError("of its own")

    assert program.run(body).info().state == "succeeded"
    assert seen == [42, date(2030, 1, 2)] * 2
    assert program.calls == [21, "2030-01-02"]


def test_a_step_that_fails_runs_again(program: Program) -> None:
    async def fail_once() -> str:
        program.calls.append("called")
        if len(program.calls) == 1:
            raise ValueError("of its own")
        return "done"

    async def body(context: Context) -> str:
        return await context.step("only", fail_once)

    assert program.run(body).result() == "done"
    assert program.calls == ["called"] * 2


def test_steps_may_run_at_once(program: Program) -> None:
    async def body(context: Context) -> list[int]:
        steps = [context.step(f"double {n}", program.double, n) for n in range(20)]
        doubled = await asyncio.gather(*steps)
        if context.attempt == 1:
            raise ValueError("of its own")
        return doubled

    assert program.run(body).result() == [n * 2 for n in range(20)]
    assert sorted(program.calls) == list(range(20))


@pytest.mark.parametrize("other", [22, "text"])
def test_a_key_that_changes_its_arguments_is_refused(program: Program, other: Any) -> None:
    async def body(context: Context) -> None:
        await context.step("double", program.double, 21)
        await context.step("double", program.double, other)

    job = program.run(body).info()
    assert (job.state, job.attempt) == ("failed", 1)
    assert job.error == (
        "step 'double' was another function, or had other arguments, when it was stored;"
        " give it another key"
    )


def test_a_key_that_changes_its_function_is_refused(program: Program) -> None:
    async def body(context: Context) -> None:
        await context.step("one", program.day, "2030-01-02")
        await context.step("one", date.fromisoformat, "2030-01-02")

    assert program.run(body).info().state == "failed"


def test_one_key_twice_at_once_is_refused(program: Program) -> None:
    async def body(context: Context) -> None:
        await asyncio.gather(*(context.step("same", asyncio.sleep, 0) for _ in range(2)))

    assert "step 'same' runs already" in program.run(body).info().error


@pytest.mark.parametrize(
    ("key", "result", "says"),
    [
        ("", 1, "the key of a step cannot be empty"),
        ("x", object(), "the result of step 'x' cannot be stored: object has no JSON form"),
        ("x", "y" * STEPS_BYTES_MAX, "the result of step 'x' takes 65538 bytes as JSON"),
    ],
)
def test_what_cannot_be_stored_fails(program: Program, key: str, result: Any, says: str) -> None:
    async def body(context: Context) -> None:
        await context.step(key, lambda: result)

    job = program.run(body).info()
    assert (job.state, job.attempt) == ("failed", 1)
    assert job.error.startswith(says)


def test_plain_code_cannot_wait_for_a_step(program: Program) -> None:
    def body(context: Context) -> Any:
        return context.step("x", lambda: 1)

    job = program.run(body).info()
    assert (job.state, job.attempt) == ("failed", 1)
    assert "returned a coroutine; write `async def` and await what it calls" in job.error


def room_for_one(key: str) -> int:
    """The characters that fill the list of steps, where `key` is the only one."""
    empty = {key: ["0" * 32, ""]}
    return STEPS_BYTES_MAX - len(str(empty).replace(" ", ""))


@pytest.mark.parametrize(("over", "state"), [(0, "succeeded"), (1, "failed")])
def test_the_results_of_a_job_have_a_limit(program: Program, over: int, state: str) -> None:
    async def body(context: Context) -> None:
        await context.step("x", lambda: "y" * (room_for_one("x") + over))

    assert program.run(body).info().state == state


def test_a_pause_puts_the_job_off_and_costs_no_attempt(program: Program) -> None:
    async def body(context: Context) -> int:
        doubled = await context.step("double", program.double, 1)
        await context.sleep("3d", key="first")
        await context.sleep(timedelta(hours=1), key="second")
        return context.attempt + doubled

    job = program.run(body)
    assert (job.info().state, job.info().attempt) == ("waiting", 0)
    program.trial.advance("2d")
    assert job.info().state == "waiting"
    program.trial.advance("1d")
    assert job.info().state == "waiting"
    program.trial.advance("1h")
    assert job.result() == 3
    assert program.calls == [1]


def test_a_pause_that_was_cut_short_goes_on(program: Program) -> None:
    async def body(context: Context) -> None:
        if context.attempt == 1 and not program.calls:
            program.calls.append("tried")
            with pytest.raises(Exception, match=""):
                await context.sleep("1h", key="pause")
            raise ValueError("of its own")
        await context.sleep("1h", key="pause")

    job = program.run(body)
    assert job.info().state == "waiting"
    program.trial.advance("1h")
    assert job.info().state == "succeeded"


def test_a_task_that_yields_calls_has_no_steps(program: Program) -> None:
    async def body(context: Context) -> Any:
        await context.step("double", program.double, 1)
        yield None

    assert "a task that yields calls has no steps" in program.run(body).info().error


async def test_a_lost_lease_stores_no_more_steps(beat: Onbeat) -> None:
    begun, given_up, ends = asyncio.Event(), asyncio.Event(), []

    async def number(of: int) -> int:
        return of

    @beat.task("work")
    async def work(context: Context) -> int:
        first = await context.step("first", number, 1)
        if context.token == 1:
            begun.set()
            await given_up.wait()
        try:
            second = await context.step("second", number, 2)
        except (LeaseLost, asyncio.CancelledError):  # the heartbeat may see the loss first
            ends.append(context.token)
            raise
        return first + second

    async with beat:
        job = await work.asend()
        await begun.wait()
        await give_up(beat, job.id)
        given_up.set()
        assert await job.aresult(60) == 3
        await eventually(lambda: ends == [1], "the first attempt cannot store its second step")
