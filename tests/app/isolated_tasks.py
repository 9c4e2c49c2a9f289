"""Tasks that run in processes of their own; a child imports this module to find them."""

import ctypes
import os
import signal
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
