"""Isolated tasks that start processes, and write down their numbers."""

import ctypes
import os
import subprocess
import time
from pathlib import Path

from onbeat import Onbeat, Options, Retry
from onbeat.testing.build import SECOND

ONCE = Retry(attempts_max=1, lost_max=1)
SLEEPS = ["sleep", "600"]
STUBBORN = ["sh", "-c", "trap '' TERM; exec sleep 600"]
# Starts another, and ends: nobody but the system knows then who started that.
ORPHANS = ["sh", "-c", "setsid sleep 600 >/dev/null & echo $!"]

beat = Onbeat(
    os.environ.get("FAMILY_STORE", "memory://"), options=Options(drain_timeout=SECOND / 10)
)


def start_family(journal: str) -> None:
    """A child in the session, a stubborn one, one that has left it, and an orphan outside of it."""
    pids = [
        subprocess.Popen(SLEEPS).pid,
        subprocess.Popen(STUBBORN).pid,
        subprocess.Popen(SLEEPS, start_new_session=True).pid,
        int(subprocess.check_output(ORPHANS)),
    ]
    part = Path(f"{journal}.part")
    part.write_text("\n".join(map(str, [os.getpid(), *pids])))
    part.rename(journal)


@beat.task("ends", isolation="process", retry=ONCE)
def ends(journal: str) -> None:
    start_family(journal)


@beat.task("fails", isolation="process", retry=ONCE)
def fails(journal: str) -> None:
    start_family(journal)
    raise ValueError("after it")


@beat.task("hangs", isolation="process", timeout="5s", retry=ONCE)
def hangs(journal: str) -> None:
    start_family(journal)
    time.sleep(600)


@beat.task("stays", isolation="process", retry=ONCE)
def stays(journal: str) -> None:
    start_family(journal)
    time.sleep(600)


@beat.task("spins", isolation="process", retry=ONCE)
def spins(journal: str) -> None:
    """Never lets go of the interpreter again, in a call of C."""
    start_family(journal)
    ctypes.PyDLL(None).sleep(600)


@beat.task("crashes", isolation="process", retry=ONCE)
def crashes(journal: str) -> None:
    start_family(journal)
    ctypes.string_at(0)


@beat.task("own", isolation="process")
def own() -> int:
    return os.getpid()


if __name__ == "__main__":
    beat.run()
