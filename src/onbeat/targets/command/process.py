"""The process of one command, in a session of its own."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from onbeat.targets.command import gate
from onbeat.targets.process_reaper import ProcessReaper
from onbeat.targets.process_tree import descendants, identity, kill_tree, send

GRACE_SECONDS: Final = 5.0
"""From SIGTERM to SIGKILL; less than a worker that stops waits for its attempts."""

DRAIN_SECONDS: Final = 2.0
"""For the rest of the output, which a process that left the session may hold open."""


class NotStarted(Exception):
    """The program could not be run, for the reason that the system gave."""


class CommandProtocol(asyncio.SubprocessProtocol):
    """Hears of the process; its output goes on as it comes."""

    def __init__(self, on_output: Callable[[bytes], None]) -> None:
        self.on_output = on_output
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.on_output(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()


class CommandProcess:
    """A started process, which waits at its gate until `begin`."""

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        protocol: CommandProtocol,
        link: socket.socket,
        reaper: ProcessReaper,
    ) -> None:
        self.transport = transport
        self.protocol = protocol
        self.link = link
        self.reaper = reaper
        self.leader = identity(transport.get_pid())
        reaper.add(self.leader)

    async def begin(self, order: bytes, stdin: bytes) -> None:
        """Let it run the program. Raises `NotStarted`."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            await loop.sock_sendall(self.link, order)
            self.link.shutdown(socket.SHUT_WR)
        problem = b""
        with contextlib.suppress(ConnectionError):
            problem = await loop.sock_recv(self.link, 16)
        self.link.close()
        if problem:
            await self.protocol.exited.wait()
            raise NotStarted(os.strerror(int(problem)))
        pipe = cast("asyncio.WriteTransport", self.transport.get_pipe_transport(0))
        if stdin:
            pipe.write(stdin)
        pipe.close()

    async def end(self) -> int:
        """Wait for its end, and end what is left of its session. Returns the exit code, below 0
        for a signal.
        """
        await self.protocol.exited.wait()
        self.signal_group(signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self.protocol.drained.wait()
        code = self.transport.get_returncode()
        assert code is not None, "an ended process has an exit code"
        return code

    async def stop(self) -> None:
        """End it and its descendants: SIGTERM, and SIGKILL for what is left after the grace."""
        below = await asyncio.to_thread(descendants, self.leader.pid)
        self.signal_group(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await self.protocol.exited.wait()
        if not self.protocol.exited.is_set():
            await asyncio.to_thread(kill_tree, self.leader)
        await asyncio.to_thread(send, below, signal.SIGKILL)
        await self.end()

    def kill(self) -> None:
        """End it at once, without waiting."""
        if not self.protocol.exited.is_set():
            kill_tree(self.leader)

    def signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader.pid, number)

    def close(self) -> None:
        self.link.close()
        self.transport.close()
        self.reaper.discard(self.leader)


async def start_process(
    reaper: ProcessReaper, on_output: Callable[[bytes], None]
) -> CommandProcess:
    """A process at its gate. Raises OSError where the system has no more."""
    await asyncio.to_thread(reaper.open)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        with theirs:
            transport, protocol = await asyncio.get_running_loop().subprocess_exec(
                lambda: CommandProtocol(on_output),
                *(sys.executable, "-I", "-S", str(Path(gate.__file__)), str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    return CommandProcess(transport, protocol, ours, reaper)
