"""`onbeat up --reload`: a service in a process of its own, started again when a source changes."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

import click

LOOK_AGAIN: Final = 0.3  # seconds between two looks at the files
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
FLAG: Final = "--reload"
PROGRAM: Final = "onbeat.cli.worker_process"
ENVIRONMENT: Final = "pyvenv.cfg"  # is in the folder of a virtual environment

Seen = Mapping[Path, tuple[int, int]]
"""The files with the time of their last change and their size."""


def watched_folders(place: str | None) -> list[Path]:
    """The working directory, and the folder of the program where it is elsewhere."""
    here = Path.cwd()
    file = Path((place or "").partition(":")[0])
    folder = file.resolve().parent if file.suffix == ".py" else here
    return [here] if folder.is_relative_to(here) else [here, folder]


def sources(folder: Path) -> Iterator[Path]:
    """Python files below, but not those of virtual environments and hidden folders."""
    for where, folders, files in os.walk(folder):
        if ENVIRONMENT in files:
            folders.clear()
            continue
        folders[:] = [one for one in folders if not one.startswith((".", "__pycache__"))]
        yield from (Path(where, one) for one in files if one.endswith(".py"))


def look(folders: Sequence[Path]) -> Seen:
    seen: dict[Path, tuple[int, int]] = {}
    for folder in folders:
        for file in sources(folder):
            try:
                known = file.stat()
            except OSError:
                continue  # deleted meanwhile
            seen[file] = known.st_mtime_ns, known.st_size
    return seen


def difference(before: Seen, after: Seen) -> Path | None:
    """A file that was added, changed or deleted."""
    changed = {one for one, _ in before.items() ^ after.items()}
    return min(changed, default=None)


class Reloader:
    """Runs `onbeat` with the arguments, drains it at a change, and starts it again."""

    def __init__(self, arguments: Sequence[str], folders: Sequence[Path]) -> None:
        self.arguments = [one for one in arguments if one != FLAG]
        self.folders = folders
        self.seen = look(folders)
        self.signals = 0
        self.woken: SimpleQueue[None] = SimpleQueue()  # a signal handler may put into it

    def run(self) -> int:
        """Until a signal. Returns the exit code of the last process."""
        for number in SIGNALS:
            signal.signal(number, self.on_signal)
        while True:
            child = self.start()
            self.wait_for_change(child)
            code = self.drain(child)
            if self.signals:
                return code

    def start(self) -> "subprocess.Popen[bytes]":
        # A session of its own: Ctrl+C reaches it once, from here. It drains when its pipe closes.
        return subprocess.Popen(  # noqa: S603  our own command
            [sys.executable, "-m", PROGRAM, *self.arguments],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def on_signal(self, *_: object) -> None:
        self.signals += 1
        self.woken.put(None)

    def rest(self) -> None:
        """Until the next look, or a signal."""
        with contextlib.suppress(Empty):
            self.woken.get(timeout=LOOK_AGAIN)

    def wait_for_change(self, child: "subprocess.Popen[bytes]") -> None:
        """Until a signal or a change, also where the process ends, as with a broken program."""
        is_announced = False
        while not self.signals:
            changed = self.changed()
            if changed is not None:
                click.echo(f"onbeat: {changed} has changed", err=True)
                return
            if child.poll() is not None and not is_announced:
                is_announced = True
                click.echo(f"onbeat: ended with {child.returncode}; waiting for a change", err=True)
            self.rest()

    def drain(self, child: "subprocess.Popen[bytes]") -> int:
        """Let the process drain; a second signal to this one stops it at once."""
        child.terminate()  # does nothing to one that has ended
        is_hurried = False
        while child.poll() is None:
            if self.signals > 1 and not is_hurried:
                is_hurried = True
                child.terminate()
            self.rest()
        return child.returncode

    def changed(self) -> Path | None:
        before, self.seen = self.seen, look(self.folders)
        return difference(before, self.seen)
