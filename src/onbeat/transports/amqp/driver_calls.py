"""Calls the driver with a timeout, and turns its many errors into one."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, NoReturn, TypeVar

from aiormq.exceptions import AMQPError

from onbeat.model.errors import Unavailable

T = TypeVar("T")

# A call on a connection that was just lost raises a bare RuntimeError, and one whose frames end
# while it connects a StopAsyncIteration.
FAULTS: Final = (AMQPError, OSError, EOFError, RuntimeError, StopAsyncIteration)


async def call_driver(call: Coroutine[Any, Any, T], seconds: float, url: str) -> T:
    """The result of the call. Raises `Unavailable`, with the driver's error as its cause."""
    # The driver cancels its calls when a connection is lost. A separate task distinguishes that
    # from the cancellation of the caller.
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not task.done():
        task.cancel()
        raise_unavailable(url, f"no answer within {seconds:g} s")
    if task.cancelled():
        raise_unavailable(url, "the connection was closed")
    try:
        return task.result()
    except FAULTS as error:
        raise_unavailable(url, error_text(error), error)


def raise_unavailable(url: str, why: str, cause: BaseException | None = None) -> NoReturn:
    raise Unavailable(f"the broker at {url} is not available: {why}") from cause


def error_text(error: BaseException) -> str:
    return str(error) or type(error).__name__
