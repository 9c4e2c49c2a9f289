"""A TCP proxy before a server that others use too: it can be cut without harm to them."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Coroutine
from typing import Any, Self

CHUNK = 1 << 16


class Proxy:
    """Listens on a free port of this machine and passes on to `host` and `port`.

    While it is cut, it takes connections and ends them at once, and counts them: `refused`. While it
    is silent, it takes what it is sent and passes nothing on, in both directions or in one. It waits
    `delay` seconds before it passes anything on. With `tls` it speaks that to who connects, and
    plainly to the server.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.host = host
        self.port = port
        self.tls = tls
        self.refused = 0
        self.is_cut = False
        self.delay = 0.0
        self.requests_pass = asyncio.Event()
        self.answers_pass = asyncio.Event()
        self.pass_all()
        self.pairs: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self.server = await asyncio.start_server(self.connected, "127.0.0.1", 0, ssl=self.tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.server is not None
        self.server.close()
        await self.drop()

    @property
    def address(self) -> str:
        """HOST:PORT, for a URL."""
        assert self.server is not None
        return f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def disconnect(self) -> None:
        self.is_cut = True
        await self.drop()

    async def reconnect(self) -> None:
        self.is_cut = False
        self.delay = 0.0
        self.pass_all()

    def pass_all(self) -> None:
        self.requests_pass.set()
        self.answers_pass.set()

    def silence(self, *, requests: bool = True, answers: bool = True) -> None:
        """As a network that loses everything does, one way or both: nobody is told."""
        if requests:
            self.requests_pass.clear()
        if answers:
            self.answers_pass.clear()

    async def reset(self) -> None:
        """End all connections in the middle of what they carry: a reset, no orderly end."""
        at_once = struct.pack("ii", 1, 0)
        for near_out in self.pairs.values():
            near_out.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, at_once
            )
        await self.drop()

    async def drop(self) -> None:
        """End all connections; new ones are still taken."""
        pairs = [*self.pairs]
        for pair in pairs:
            pair.cancel()
        await asyncio.gather(*pairs, return_exceptions=True)

    async def connected(
        self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter
    ) -> None:
        if self.is_cut:
            self.refused += 1
            near_out.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self.pairs[task] = near_out
        try:
            await self.carry(near_in, near_out)
        except (asyncio.CancelledError, OSError):
            # Cut, or the server is away: who connected sees the end of the connection.
            pass
        finally:
            self.pairs.pop(task, None)
            near_out.transport.abort()

    async def carry(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        far_in, far_out = await asyncio.open_connection(self.host, self.port)
        try:
            await both(
                self.pass_on(near_in, far_out, self.requests_pass),
                self.pass_on(far_in, near_out, self.answers_pass),
            )
        finally:
            far_out.transport.abort()

    async def pass_on(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, passes: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                await asyncio.sleep(self.delay)
                await passes.wait()
                target.write(data)
                await target.drain()


async def both(first: Coroutine[Any, Any, None], second: Coroutine[Any, Any, None]) -> None:
    """Until the first of them ends, which is the end of the other."""
    tasks = [asyncio.create_task(first), asyncio.create_task(second)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
