"""Calls of the driver: in time or not at all, and with one error where it has many."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, NoReturn, TypeVar

from aiormq.exceptions import AMQPError

from onbeat.model.errors import Unavailable

T = TypeVar("T")

# A call on a connection that has just gone raises a bare RuntimeError.
FAULTS: Final = (AMQPError, OSError, EOFError, RuntimeError)


async def answered(call: Coroutine[Any, Any, T], seconds: float, url: str) -> T:
    """Its answer. Raises `Unavailable`, with the driver's error as its cause."""
    # The driver ends calls on a connection that goes by cancelling them. In a task of its own such
    # a call cannot be taken for a cancelled caller.
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
        raise_unavailable(url, said(error), error)


def raise_unavailable(url: str, why: str, cause: BaseException | None = None) -> NoReturn:
    raise Unavailable(f"the broker at {url} is not available: {why}") from cause


def said(error: BaseException) -> str:
    return str(error) or type(error).__name__
