"""Open a store, and die by kill -9 after so many of SQLite's steps, or as the migration commits."""

import os
import signal
import sys
from collections.abc import Callable

from onbeat.stores.sqlite.connection import LockWait, connect_writer
from onbeat.stores.sqlite.migrate import migrate


def die() -> bool:
    os.kill(os.getpid(), signal.SIGKILL)
    return True


def die_after(steps: int) -> Callable[[], bool]:
    left = iter(range(steps))
    return lambda: next(left, None) is None and die()


if __name__ == "__main__":
    path, when = sys.argv[1:]
    db = connect_writer(path, "FULL", LockWait())
    if when == "commit":
        db.set_commit_hook(die)
    else:
        db.set_progress_handler(die_after(int(when)), 1)
    migrate(db, path)
