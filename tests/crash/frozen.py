"""Stopping a process as a frozen machine does."""

import signal
from pathlib import Path
from typing import Any

import apsw

from conditions import eventually_here

SQLITE = "sqlite:///"


def freeze(program: Any, place: Path) -> None:
    """Stop it at a moment at which the others can write: SQLite has one lock for all.

    A process that is stopped while it has that lock keeps it, and nobody can take its jobs.
    """
    url = (place / "store").read_text()
    while True:
        program.signal(signal.SIGSTOP)
        eventually_here(lambda: stands_still(program.pid), "it stands still")
        if not url.startswith(SQLITE) or can_be_written(url.removeprefix(SQLITE)):
            return
        program.signal(signal.SIGCONT)


def stands_still(pid: int) -> bool:
    """Whether each thread of the process is stopped."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return {one.read_text().rpartition(")")[2].split()[0] for one in threads} == {"T"}


def can_be_written(path: str) -> bool:
    db = apsw.Connection(path)
    db.set_busy_timeout(2_000)
    try:
        db.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return False
    finally:
        db.close()
    return True
