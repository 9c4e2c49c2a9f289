"""Waiting for a named condition, never for time to pass."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 60
LOOK_AGAIN = 0.005


async def eventually(
    condition: Callable[[], Awaitable[Any] | Any], what: str, within: float = PATIENCE
) -> Any:
    """The first true answer of `condition`, which may be a coroutine function."""
    deadline = time.monotonic() + within
    while True:
        answer = condition()
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        await asyncio.sleep(LOOK_AGAIN)


def eventually_here(condition: Callable[[], Any], what: str, within: float = PATIENCE) -> Any:
    """The same for plain code."""
    deadline = time.monotonic() + within
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(LOOK_AGAIN)
    return answer
