"""The worker's side of its sidecar: starts the process and exchanges messages with it.

The process is `onbeat.app.sidecar_process`. It holds one end of a socket pair, and ends when the
other end is closed, by `close` or by any end of this process.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Final

import msgspec

from onbeat.app.sidecar_messages import MESSAGE_BYTES_MAX, SidecarReport, SidecarStart
from onbeat.app.system import is_kernel_known
from onbeat.model.errors import Unavailable
from onbeat.model.worker import WorkerRecord
from onbeat.ports.clock import Clock
from onbeat.ports.sidecar import NO_SIDECAR, Sidecar
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.liveness import STAND_IN_SHARE

RESTART_SECONDS: Final = 30.0  # between two starts of a sidecar that may be unable to run
PROGRAM: Final = """import sys
sys.path.insert(0, {path!r})
from onbeat.app.sidecar_process import main
main({fd})"""
CHILD_FD: Final = 3
END_SECONDS: Final = 1.0  # grace to exit by itself


def sidecar_for(url: str, clock: Clock, telemetry: Telemetry) -> Sidecar:
    """A sidecar for the store at `url`, where the system and the program allow one."""
    if not is_kernel_known() or interpreter() is None:
        return NO_SIDECAR
    return ProcessSidecar(url, clock, telemetry)


def interpreter() -> str | None:
    """The Python executable; None in a frozen or embedding program."""
    path = Path(sys.executable or "")
    is_plain = path.name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
    return str(path.absolute()) if is_plain else None


class ProcessSidecar:
    def __init__(self, url: str, clock: Clock, telemetry: Telemetry) -> None:
        self.url = url
        self.clock = clock
        self.telemetry = telemetry
        self.lock = threading.Lock()
        self.socket: socket.socket | None = None
        self.pid: int | None = None
        self.started_at: float | None = None
        self.is_closed = False
        self.highest = 0

    def report_life(self, row: WorkerRecord) -> None:
        with self.lock:
            if self.is_closed or not (self.is_linked or self.is_started()):
                return
            seconds = row.lease_seconds * STAND_IN_SHARE
            self.send(json.dumps([row.id, seconds, msgspec.json.encode(row).decode()]).encode())
            self.read_messages()

    def last_beat(self) -> int:
        with self.lock:
            self.read_messages()
            return self.highest

    def close(self) -> None:
        with self.lock:
            self.is_closed = True
            self.disconnect()

    @property
    def is_linked(self) -> bool:
        return self.socket is not None

    def is_started(self) -> bool:
        """Start the process, unless a start was tried recently."""
        now = self.clock.monotonic()
        if self.started_at is not None and now - self.started_at < RESTART_SECONDS:
            return False
        self.started_at = now
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_BYTES_MAX)
        self.socket.setblocking(False)
        with theirs:
            self.pid = spawn(theirs.fileno())
        self.send(json.dumps(SidecarStart(self.url, os.getpid(), sys.path)).encode())
        return self.is_linked

    def send(self, message: bytes) -> None:
        """Send without blocking; drop the message if the sidecar's buffer is full."""
        try:
            if self.socket is not None:
                self.socket.send(message)
        except BlockingIOError:
            return
        except OSError as error:
            self.disconnect()
            self.telemetry.loop_failed("sidecar", error)

    def read_messages(self) -> None:
        """Process the reports of the sidecar; usually none."""
        silence = 0.0
        while (report := self.next_report()) is not None:
            self.highest = max(self.highest, report.beat)
            if report.error:
                self.telemetry.loop_failed("sidecar", Unavailable(report.error))
            else:
                silence = report.silence
        if silence:
            self.telemetry.interpreter_held(silence)

    def next_report(self) -> SidecarReport | None:
        if self.socket is None:
            return None
        try:
            message = self.socket.recv(MESSAGE_BYTES_MAX)
        except BlockingIOError:
            return None
        except OSError:
            message = b""
        if not message:
            self.disconnect()
            return None
        return SidecarReport(*json.loads(message))

    def disconnect(self) -> None:
        """Close the socket, which ends the process; kill it if it does not exit soon."""
        link, pid, self.socket, self.pid = self.socket, self.pid, None, None
        if link is None:
            return
        with link:
            is_ended = has_ended(link)
        # The process may already be reaped: some programs wait for any child.
        with contextlib.suppress(ChildProcessError):
            if pid is not None and not is_ended:
                os.kill(pid, signal.SIGKILL)
            if pid is not None:
                os.waitpid(pid, 0)


def has_ended(link: socket.socket) -> bool:
    """Whether the process closed its end soon after it saw ours closed."""
    link.settimeout(END_SECONDS)
    try:
        link.shutdown(socket.SHUT_WR)
        while link.recv(MESSAGE_BYTES_MAX):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def spawn(fd: int) -> int:
    """Start a process that inherits only `fd`; returns its process id.

    It has its own session, so that signals of a terminal reach only the worker.
    """
    path = interpreter()
    assert path is not None, "checked before"
    program = PROGRAM.format(path=str(Path(__file__).parents[2]), fd=CHILD_FD)
    null = os.devnull
    return os.posix_spawn(
        path,
        [path, "-I", "-c", program],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, null, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, null, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, null, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, fd, CHILD_FD),
        ],
        setsid=True,
    )
