"""A worker in which some jobs end the whole process, or their own, beside innocent ones."""

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from onbeat import Call, Onbeat, Options, Retry
from onbeat.engine.options import RuntimeOptions

SOON = Retry(attempts_max=1, delay="10ms", delay_max="100ms")

beat = Onbeat(
    Path("store").read_text(),
    options=Options(
        retry=SOON,
        runtime=RuntimeOptions(concurrency=50, lease=timedelta(seconds=3)),
        drain_timeout=timedelta(seconds=0.3),
    ),
)


@beat.task("innocent")
def innocent(seconds: float) -> str:
    time.sleep(seconds)
    return "well"


@beat.task("leaves")
def leaves(seconds: float) -> None:
    """Ends the process from another thread than its own."""
    threading.Timer(seconds, os._exit, (1,)).start()
    time.sleep(60)


@beat.task("crashes")
def crashes(seconds: float) -> None:
    time.sleep(seconds)
    ctypes.string_at(0)


@beat.task("leaves.apart", isolation="process")
def leaves_apart() -> None:
    os._exit(9)


@beat.task("hoards.apart", isolation="process", memory="256MB")
def hoards_apart() -> None:
    hoard = []
    while True:
        hoard.append(bytearray(1 << 24))


@beat.task("hangs.apart", isolation="process", timeout="0.5s")
def hangs_apart() -> None:
    while True:
        pass


CULPRITS: dict[str, Callable[[], list[Call[Any]]]] = {
    "beside": lambda: [leaves.call(0.1), crashes.call(0.1)],
    "apart": lambda: [leaves_apart.call(), hoards_apart.call(), hangs_apart.call()],
}

if __name__ == "__main__":
    if sys.argv[1] == "send":
        calls = [innocent.call(0.6) for _ in range(int(sys.argv[2]))]
        calls[10:10] = CULPRITS[sys.argv[3]]()
        beat.send(calls)
        beat.backend.wait_for(beat.aclose())
        beat.backend.portal.close()
    else:
        sys.stdout.write("runs\n")
        sys.stdout.flush()
        beat.run()
