"""A TCP proxy before a server that others use too: it can be cut without harm to them."""

import asyncio
import contextlib
import ssl
from collections.abc import Coroutine
from typing import Any, Self

CHUNK = 1 << 16


class Proxy:
    """Listens on a free port of this machine and passes on to `host` and `port`.

    While it is cut, it takes connections and ends them at once, and counts them: `refused`. While it
    is silent, it takes what it is sent and passes nothing on, either way. With `tls` it speaks that to
    who connects, and plainly to the server.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.host = host
        self.port = port
        self.tls = tls
        self.refused = 0
        self.is_cut = False
        self.loud = asyncio.Event()
        self.loud.set()
        self.pairs: set[asyncio.Task[None]] = set()
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
        self.loud.set()

    def silence(self) -> None:
        """As a network that loses everything does: nobody is told."""
        self.loud.clear()

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
        self.pairs.add(task)
        try:
            await self.carry(near_in, near_out)
        except (asyncio.CancelledError, OSError):
            # Cut, or the server is away: who connected sees the end of the connection.
            pass
        finally:
            self.pairs.discard(task)
            near_out.transport.abort()

    async def carry(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        far_in, far_out = await asyncio.open_connection(self.host, self.port)
        try:
            await both(self.pass_on(near_in, far_out), self.pass_on(far_in, near_out))
        finally:
            far_out.transport.abort()

    async def pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                await self.loud.wait()
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
