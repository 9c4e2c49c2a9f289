"""A socket to listen on, and a server on it inside a loop that has other work."""

import asyncio
import contextlib
import socket
from collections.abc import Generator
from typing import Final

import uvicorn

from onbeat.model.errors import Misconfigured

BACKLOG: Final = 2_048  # connections that the system keeps until they are accepted


@contextlib.contextmanager
def listen(host: str, port: int, setting: str) -> Generator[socket.socket]:
    """A bound socket, closed after the block. Raises `Misconfigured`, which names `setting`."""
    with contextlib.ExitStack() as stack:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, address = found[0]
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError as error:
            raise Misconfigured(
                f"{setting}: cannot listen on {host}:{port} ({error.strerror or error}); "
                "stop what listens there, or choose another port",
                setting,
            ) from error
        yield listener


class Server(uvicorn.Server):
    """uvicorn inside our event loop, with our signal handlers and socket."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket | None = None) -> None:
        super().__init__(config)
        self.listener = listener
        self.listens = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # The event loop also uses the backlog as the number of connections accepted at once.
        if self.listener is not None:
            self.listener.listen(BACKLOG)
        self.listens.set()
