"""Tasks that run in processes of their own; a child imports this module to find them."""

import asyncio
import ctypes
import logging
import os
import signal
from datetime import datetime
from typing import Any

from onbeat import Context, Onbeat, Retry, Snooze

ONCE = Retry(attempts_max=1)
beat = Onbeat("memory://")


@beat.task("pid", isolation="process")
def pid(_nothing: int = 0) -> int:
    return os.getpid()


@beat.task("told", isolation="process")
def told(context: Context, word: str) -> list[str]:
    context.progress(1, 2)
    return [context.job_id, str(context.attempt), word]


@beat.task("logs", isolation="process", retry=ONCE)
async def logs(context: Context, *, fail: bool) -> None:
    context.log.info("begun", extra={"pid": os.getpid()})
    await asyncio.to_thread(logging.getLogger("shop").warning, "of a thread")
    context.log.debug("too low")
    if fail:
        raise ValueError("of its own making")


@beat.task("clock", isolation="process")
def clock(context: Context) -> tuple[datetime, datetime]:
    return context.now, context.now


@beat.task("ticks", isolation="process", retry=ONCE, timeout="30s")
def ticks(context: Context) -> tuple[datetime, datetime]:
    first = context.now
    while context.now == first:
        pass
    return first, context.now


@beat.task("asks", isolation="process")
async def asks() -> str:
    return "a coroutine"


@beat.task("raises", isolation="process", retry=ONCE)
def raises() -> None:
    raise ValueError("of its own making")


@beat.task("snoozes", isolation="process")
def snoozes(context: Context) -> str:
    if context.token == 1:
        raise Snooze(0.01)
    return "awake"


@beat.task("spins", isolation="process", timeout="0.3s", retry=ONCE)
def spins() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass


@beat.task("crashes", isolation="process", retry=Retry(attempts_max=1, delay="1ms"))
def crashes() -> None:
    ctypes.string_at(0)


@beat.task("hoards", isolation="process", memory="256MB", retry=ONCE)
def hoards() -> int:
    return len(b"x" * (1 << 30))


def hide() -> Any:
    @beat.task("hidden", isolation="process", retry=ONCE)
    def hidden() -> None: ...

    return hidden


@beat.task("leaves", isolation="process", retry=Retry(attempts_max=1, delay="1ms"))
def leaves() -> None:
    os._exit(7)


@beat.task("finishes", isolation="process", retry=ONCE)
def finishes(context: Context) -> None:
    context.finish_in_transaction(object())
