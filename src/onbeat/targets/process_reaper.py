"""A small process that outlives a worker and ends the processes that the worker left behind."""

import contextlib
import subprocess
import sys
import threading
from pathlib import Path

from onbeat.targets import process_tree
from onbeat.targets.process_tree import Identity

GRACE = 5.0  # seconds for the reaper to end them when the worker closes


class ProcessReaper:
    """Reads from a pipe, which the kernel closes when the worker ends in any way."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[str] | None = None
        self.leaders: set[Identity] = set()

    def open(self) -> None:
        """Start the reaper before a child unless it runs. Raises OSError if that fails."""
        with self.lock:
            if self.process is None or self.process.poll() is not None:
                self.start()

    def add(self, leader: Identity) -> None:
        with self.lock:
            self.leaders.add(leader)
            self.send("+", leader)

    def discard(self, leader: Identity) -> None:
        with self.lock:
            self.leaders.discard(leader)
            self.send("-", leader)

    def start(self) -> None:
        """Plain Python without the program's packages; its own session shields it from Ctrl-C."""
        self.reap()
        self.process = subprocess.Popen(  # noqa: S603  no argument comes from outside
            [sys.executable, "-I", "-S", str(Path(process_tree.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        for leader in self.leaders:
            self.send("+", leader)

    def reap(self) -> None:
        """Close the pipe of a reaper that has ended."""
        if self.process is not None and self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def send(self, sign: str, leader: Identity) -> None:
        """If the reaper was killed, the next child starts it again."""
        if self.process is None or self.process.stdin is None:
            return
        try:
            self.process.stdin.write(f"{sign}{leader.pid} {leader.start}\n")
            self.process.stdin.flush()
        except OSError:
            # The kernel may not have reported its end yet.
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        with self.lock:
            process, self.process = self.process, None
        if process is not None:
            process.communicate(timeout=GRACE)
