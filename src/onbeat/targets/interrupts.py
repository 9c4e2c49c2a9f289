"""Distinguishes a coroutine closed from outside from an error that its handler raised."""

import asyncio


def is_closed_outside(error: BaseException, task: "asyncio.Task[object] | None") -> bool:
    """Whether `error` closes the coroutine that runs in `task`, such as at garbage collection.

    A running coroutine cannot be closed: while its task runs, the handler raised the error.
    """
    return isinstance(error, GeneratorExit) and running_task() is not task


def running_task() -> "asyncio.Task[object] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop is running
        return None
