"""Closes what a program has left open when it exits.

By then Python starts no threads and its thread pools take no work. The loop's tasks still exist,
and would be reported as destroyed.
"""

import asyncio
import atexit
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

from onbeat.app.portal import Portal

EXIT_SECONDS_MAX: Final = 3.0
"""For all open objects together: a database that does not answer must not delay the exit."""

Value = TypeVar("Value")


class Closable(Protocol):
    """The backend of an `Onbeat`."""

    @property
    def portal(self) -> Portal: ...

    @property
    def is_running(self) -> bool: ...

    async def aclose(self) -> None: ...


OPEN: Final[dict[Closable, int]] = {}
"""Open objects with the process that opened them: a forked process lacks their threads."""


def register(closable: Closable) -> None:
    OPEN[closable] = os.getpid()


def unregister(closable: Closable) -> None:
    OPEN.pop(closable, None)


@atexit.register
def close_all() -> None:
    """Running loops are left alone: their jobs count as lost, as with any exit."""
    ours = [one for one, process in OPEN.items() if process == os.getpid() and not one.is_running]
    for one in ours:
        with contextlib.suppress(Exception):  # no caller is left to report to
            close(one, EXIT_SECONDS_MAX / len(ours))


def close(closable: Closable, seconds: float) -> None:
    if closable.portal.is_alive:
        closable.portal.end(closable.aclose, ThreadlessExecutor(), seconds)
    else:
        with asyncio.Runner() as runner:
            runner.get_loop().set_default_executor(ThreadlessExecutor())
            runner.run(asyncio.wait_for(closable.aclose(), seconds))


class ThreadlessExecutor(ThreadPoolExecutor):
    """Runs submitted work at once, in the calling thread."""

    def submit(self, fn: Callable[..., Value], /, *args: Any, **kwargs: Any) -> "Future[Value]":
        future: Future[Value] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  raised by the future
            future.set_exception(error)
        return future
