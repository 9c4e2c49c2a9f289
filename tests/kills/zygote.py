"""A process with all of Onbeat imported, from which processes of a program are forked.

So that one is there within milliseconds after its predecessor was killed, and a thousand kills take
minutes. Run as a program, it forks one process for each line of JSON that it reads and answers with
its pid; when its input ends, it kills them all.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from conditions import eventually_here

HERE: Final = Path(__file__)
IMPORTED: Final = ("onbeat.app", "onbeat.engine", "onbeat.stores", "onbeat.targets")
WITHIN: Final = 60.0


class Handle:
    """A process by a descriptor, which a later process of the same pid does not have.

    Pids come round within minutes, and a thread has one too: SIGKILL to that of a thread ends its
    whole process, whichever that is.
    """

    def __init__(self, pid: int) -> None:
        self.descriptor: int | None = None
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self.descriptor = os.pidfd_open(pid)
            weakref.finalize(self, os.close, self.descriptor)

    @property
    def is_up(self) -> bool:
        if self.descriptor is None:
            return False
        ended = select.poll()
        ended.register(self.descriptor, select.POLLIN)
        return not ended.poll(0)

    def signal(self, number: int) -> None:
        if self.descriptor is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.descriptor, number)


class Forked(Handle):
    """A process of a program; it leaves no zombie, so its pid is free once it has ended."""

    def __init__(self, pid: int, log: Path) -> None:
        super().__init__(pid)
        self.log = log

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> None:
        eventually_here(lambda: not self.is_up, f"{self.log.name} has ended", WITHIN)


class Zygote:
    """Forks processes in `place`, each with a log there."""

    def __init__(self, place: Path, process: "subprocess.Popen[str]") -> None:
        self.place = place
        self.process = process

    def fork(self, program: Path, name: str, *args: str) -> Forked:
        log = self.place / f"{name}.log"
        request = {"program": str(program), "args": [name, *args], "log": str(log)}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return Forked(int(self.process.stdout.readline()), log)

    @classmethod
    @contextlib.contextmanager
    def running(cls, place: Path) -> Iterator[Self]:
        paths = filter(None, [str(HERE.parent.parent), os.environ.get("PYTHONPATH")])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [sys.executable, str(HERE)],
            cwd=place,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield cls(place, process)
        finally:
            process.stdin.close()
            process.wait()
            process.stdout.close()


def serve() -> None:
    for package in IMPORTED:
        import_all(package)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system clears up after the children
    children: list[Handle] = []
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            become(**json.loads(line))
        children.append(Handle(pid))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
    for child in children:
        child.signal(signal.SIGKILL)


def import_all(package: str) -> None:
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, f"{package}."):
        importlib.import_module(module.name)


def become(program: str, args: list[str], log: str) -> None:
    """Run the program in this process, until its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = [program, *args]
    code = 1
    try:
        runpy.run_path(program, run_name="__main__")
        code = 0
    except BaseException as error:  # noqa: BLE001  whatever ends it is told in its log
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
