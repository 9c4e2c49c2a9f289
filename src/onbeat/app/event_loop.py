"""Event loops that survive interrupts raised in tasks.

asyncio lets a KeyboardInterrupt or SystemExit of any task end the loop. Here the exception belongs
to that task, and its awaiter gets it; the loop and everything else in it continue.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

log = logging.getLogger("onbeat.event_loop")

Value = TypeVar("Value")

INTERRUPTS = (KeyboardInterrupt, SystemExit)


def run(
    work: Coroutine[Any, Any, Value],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> Value:
    """Like `asyncio.run`, but only `work` itself and a signal end the loop early."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        loop = runner.get_loop()
        task = loop.create_task(work)
        while True:
            try:
                return loop.run_until_complete(task)
            except INTERRUPTS as error:
                if task.done() or is_signal(error):
                    raise
                report_unhandled(error)


def run_forever(loop: asyncio.AbstractEventLoop) -> None:
    """Run until the loop is stopped. For threads other than the main one, which get no signals."""
    while True:
        try:
            loop.run_forever()
        except INTERRUPTS as error:
            report_unhandled(error)
        else:
            return


def is_running_here() -> bool:
    """Whether the caller is a coroutine or a callback of an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_signal(error: BaseException) -> bool:
    """Whether it may come from Ctrl+C: only Python's default handler raises it."""
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(error, KeyboardInterrupt) and handler is signal.default_int_handler


def report_unhandled(error: BaseException) -> None:
    log.warning("a task raised %s; the event loop goes on", type(error).__name__, exc_info=error)
