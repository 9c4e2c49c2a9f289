"""Long searches leave the loop, and end when nobody waits for them."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from conditions import eventually
from onbeat.model.errors import TooCostly
from onbeat.model.limits import LOOP_STEPS_MAX, RECURRENCE_STEPS_MAX
from onbeat.ports.computation import THREADS_MAX, compute, compute_aside
from onbeat.recurrence import Budget

HERE = threading.get_ident


def spending(steps: int, seen: list[int]) -> Callable[..., Any]:
    def work(budget: Budget) -> int:
        seen.append(HERE())
        for _ in range(steps):
            budget.spend()
        return steps

    return work


async def test_short_work_is_done_in_place_and_long_work_in_a_thread() -> None:
    seen: list[int] = []
    assert await compute(spending(LOOP_STEPS_MAX, seen)) == LOOP_STEPS_MAX
    assert seen == [HERE()]
    assert await compute(spending(LOOP_STEPS_MAX + 1, seen)) == LOOP_STEPS_MAX + 1
    assert seen[:2] == [HERE()] * 2
    assert seen[2] != HERE()


async def test_work_that_takes_too_many_steps_is_refused() -> None:
    assert await compute(spending(RECURRENCE_STEPS_MAX, [])) == RECURRENCE_STEPS_MAX
    with pytest.raises(TooCostly, match="200,000"):
        await compute(spending(RECURRENCE_STEPS_MAX + 1, []))


async def test_all_the_work_of_a_request_is_spent_of_its_budget() -> None:
    request = Budget(1_000)
    await compute(spending(600, []), request)
    with pytest.raises(TooCostly):
        await compute(spending(600, []), request)


class Endless:
    """Work that ends only when its budget is cancelled."""

    def __init__(self) -> None:
        self.running = 0
        self.ended = 0

    def __call__(self, budget: Budget) -> None:
        self.running += 1
        try:
            while True:
                budget.spend(0)
        finally:
            self.running -= 1
            self.ended += 1


async def test_work_ends_when_the_caller_has_left() -> None:
    work, hung_up = Endless(), asyncio.Event()

    async def gone() -> None:
        await hung_up.wait()

    request = asyncio.ensure_future(compute_aside(work, gone=gone))
    await eventually(lambda: work.running, "the thread works")
    hung_up.set()
    with pytest.raises(TooCostly):
        await request
    assert work.ended == 1


async def test_work_ends_when_its_task_is_cancelled() -> None:
    work = Endless()
    request = asyncio.ensure_future(compute_aside(work))
    await eventually(lambda: work.running, "the thread works")
    request.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await request
    await eventually(lambda: work.ended, "the thread has ended")


async def test_few_threads_work_at_once_and_the_others_wait() -> None:
    work = Endless()
    request = [asyncio.ensure_future(compute_aside(work)) for _ in range(THREADS_MAX + 3)]
    await eventually(lambda: work.running == THREADS_MAX, "all places are taken")
    for one in request:
        one.cancel()
    await asyncio.gather(*request, return_exceptions=True)
    await eventually(lambda: work.running == 0, "all have ended")
    assert work.ended == THREADS_MAX
