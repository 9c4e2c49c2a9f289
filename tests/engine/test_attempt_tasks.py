"""Attempts that share a task do not see each other."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

import pytest

from conditions import eventually
from onbeat.engine import attempt_tasks
from onbeat.engine.attempt_tasks import SHARE_MAX, SHARE_SECONDS, WIDTH_MAX, AttemptTasks, is_same

Work = Callable[[], Awaitable[Any]]

MARK: ContextVar[Any] = ContextVar("mark", default=None)


class Attempts:
    """Attempts that are functions; `tasks` has the task of each that has begun.

    `later` has those that get a slot once none is ready.
    """

    def __init__(self) -> None:
        self.began: list[int] = []
        self.tasks: list[int] = []
        self.numbers = iter(range(1_000_000))
        self.later: list[list[Work]] = []
        self.own = AttemptTasks(self.run, self.refill)

    async def run(self, attempt: tuple[int, Work], task: "asyncio.Task[Any]") -> None:
        number, work = attempt
        self.began.append(number)
        # Not the task itself: a reference to it would end what this is about.
        self.tasks.append(id(task))
        try:
            await work()
        except Exception:  # noqa: BLE001  as the worker does
            return

    def add(self, *works: Work) -> None:
        for work in works:
            self.own.ready.append((next(self.numbers), work))
        self.own.start()

    def refill(self) -> None:
        self.add(*(self.later.pop(0) if self.later else ()))

    async def all_began(self, count: int) -> None:
        await eventually(lambda: len(self.began) == count, f"{count} attempts begin")
        await eventually(lambda: not self.own.is_started, "no task is to be made")


async def nothing() -> None: ...


@pytest.fixture
async def attempts(monkeypatch: pytest.MonkeyPatch) -> Attempts:
    """A machine that stands still must not look like attempts that compute."""
    monkeypatch.setattr(attempt_tasks, "SHARE_SECONDS", 60.0)
    return Attempts()


async def test_attempts_that_never_wait_run_in_order_in_one_task(attempts: Attempts) -> None:
    attempts.add(*[nothing] * 50)
    await attempts.all_began(50)
    assert attempts.began == [*range(50)]
    assert len(set(attempts.tasks)) == 1


async def test_the_loop_has_its_turn_between_many_attempts(attempts: Attempts) -> None:
    seen: list[int] = []
    asyncio.get_running_loop().call_soon(lambda: seen.append(len(attempts.began)))
    attempts.add(*[nothing] * (3 * SHARE_MAX))
    asyncio.get_running_loop().call_soon(lambda: seen.append(len(attempts.began)))
    await attempts.all_began(3 * SHARE_MAX)
    assert seen == [0, SHARE_MAX]


async def test_the_loop_has_its_turn_between_attempts_that_compute() -> None:
    """A beat of the worker is late by a few of them, and not by all."""
    attempts = Attempts()
    seen: list[int] = []

    async def computes() -> None:
        until = time.monotonic() + SHARE_SECONDS
        while time.monotonic() < until:
            pass

    attempts.add(*[computes] * 20)
    asyncio.get_running_loop().call_later(0, lambda: seen.append(len(attempts.began)))
    await attempts.all_began(20)
    assert seen[0] <= 2


async def test_what_gets_a_slot_when_another_ends_runs_in_its_task(attempts: Attempts) -> None:
    """So a worker with few slots stores the outcomes of many attempts at once."""
    attempts.later = [[nothing] * 2 for _ in range(20)]
    attempts.add(nothing)
    await attempts.all_began(41)
    assert attempts.began == [*range(41)]
    assert len(set(attempts.tasks)) == 1


async def test_what_gets_a_slot_after_a_full_turn_begins_in_the_next(attempts: Attempts) -> None:
    attempts.later = [[nothing] * 2]
    attempts.add(*[nothing] * SHARE_MAX)
    await attempts.all_began(SHARE_MAX + 2)


async def test_what_gets_a_slot_when_one_that_waited_ends_begins_at_once(
    attempts: Attempts,
) -> None:
    attempts.later = [[], [partial(asyncio.sleep, 0)], [], [nothing]]
    attempts.add(partial(asyncio.sleep, 0))
    await attempts.all_began(3)
    assert attempts.later == []


@pytest.mark.parametrize("count", [2, 10, 3 * WIDTH_MAX])
async def test_attempts_that_wait_all_run_at_once(attempts: Attempts, count: int) -> None:
    room = asyncio.Event()
    attempts.add(*[room.wait] * count)
    await attempts.all_began(count)
    assert attempts.began == [*range(count)]
    assert len(set(attempts.tasks)) == count
    room.set()


async def test_an_attempt_begins_while_the_one_before_waits_for_it(attempts: Attempts) -> None:
    room = asyncio.Event()
    ended: list[str] = []

    async def waits() -> None:
        await room.wait()
        ended.append("waits")

    async def opens() -> None:
        room.set()
        ended.append("opens")

    attempts.add(waits, opens, waits)
    await eventually(lambda: len(ended) == 3, "all end")
    assert ended == ["opens", "waits", "waits"]


async def test_an_attempt_does_not_go_on_in_a_task_that_has_waited(attempts: Attempts) -> None:
    async def waits() -> None:
        await asyncio.sleep(0)

    attempts.add(waits)
    await attempts.all_began(1)
    attempts.add(nothing)
    await attempts.all_began(2)
    assert len(attempts.began) == 2


async def test_attempts_that_wait_are_learned_and_forgotten(attempts: Attempts) -> None:
    room = asyncio.Event()
    attempts.add(*[room.wait] * 1_000)
    await attempts.all_began(1_000)
    assert attempts.own.width > 1
    room.set()
    for round in range(1, 20):
        attempts.add(*[nothing] * 10)
        await attempts.all_began(1_000 + 10 * round)
    assert attempts.own.width == 1


async def test_no_attempt_sees_the_variables_of_another(attempts: Attempts) -> None:
    seen: list[Any] = []

    async def sets() -> None:
        seen.append(MARK.get())
        MARK.set("set")

    attempts.add(sets, sets, nothing, sets)
    await attempts.all_began(4)
    assert seen == [None] * 3


async def test_a_variable_that_was_set_back_hinders_nobody(attempts: Attempts) -> None:
    async def sets() -> None:
        MARK.reset(MARK.set("set"))

    attempts.add(*[sets] * 5)
    await attempts.all_began(5)
    assert len(set(attempts.tasks)) == 1


async def test_a_cancel_by_a_kept_reference_meets_no_later_attempt(attempts: Attempts) -> None:
    kept: list[Any] = []
    room = asyncio.Event()
    ended: list[str] = []

    async def keeps() -> None:
        kept.append(asyncio.current_task())

    async def waits() -> None:
        await room.wait()
        ended.append("well")

    attempts.add(keeps, waits)
    await attempts.all_began(2)
    kept[0].cancel()
    room.set()
    await eventually(lambda: ended == ["well"], "the later one ends")


async def test_a_cancel_that_an_attempt_asked_for_itself_meets_no_later_one(
    attempts: Attempts,
) -> None:
    ended: list[str] = []

    async def cancels() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def waits() -> None:
        await asyncio.sleep(0)
        ended.append("well")

    attempts.add(cancels, waits)
    await eventually(lambda: ended == ["well"], "the later one ends")


async def test_timeouts_and_groups_of_tasks_work_within_an_attempt(attempts: Attempts) -> None:
    seen: list[str] = []

    async def limits() -> None:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            seen.append("timeout")

    async def groups() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(nothing())
        seen.append("group")

    async def unused() -> None:
        async with asyncio.timeout(0.001):  # noqa: ASYNC100  it ends before it waits
            seen.append("unused")

    attempts.add(unused, limits, groups, unused)
    await eventually(lambda: len(seen) == 4, "all end")
    assert sorted(seen) == ["group", "timeout", "unused", "unused"]


async def test_an_attempt_that_fails_or_is_cancelled_hinders_no_other(attempts: Attempts) -> None:
    async def fails() -> None:
        raise ValueError

    async def is_cancelled() -> None:
        raise asyncio.CancelledError

    attempts.add(fails, nothing, is_cancelled, nothing, fails, nothing)
    await attempts.all_began(6)


async def test_a_cancel_at_the_first_wait_ends_that_attempt_alone(attempts: Attempts) -> None:
    found: list[Any] = []
    ended: list[str] = []

    async def waits() -> None:
        found.append(asyncio.current_task())
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    attempts.add(nothing, waits, nothing)
    await attempts.all_began(3)
    found[0].cancel()
    await eventually(lambda: ended == ["cancelled"], "it ends")
    attempts.add(nothing)
    await attempts.all_began(4)


def test_values_that_refuse_to_be_compared_are_no_error() -> None:
    class Refuses:
        __hash__ = None

        def __eq__(self, other: object) -> bool:
            raise ValueError

    one, other = copy_context(), copy_context()
    one.run(MARK.set, Refuses())
    other.run(MARK.set, Refuses())
    assert not is_same(one, other)
    assert is_same(one, one.copy())
