"""A server that does what a test tells it to, decent or not, byte by byte."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


@dataclass
class Received:
    """A request as it came over the wire."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def lower(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}


Behaviour = Callable[[asyncio.StreamWriter, Received], Awaitable[None]]


def says(
    status: str = "200 OK", body: bytes = b"", *headers: str, length: int | None = None
) -> Behaviour:
    """Answers this and keeps the connection; with another `length` it lies about the body."""
    lines = [f"HTTP/1.1 {status}", *headers]
    if not status.startswith(("204", "304")):
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    answer = "\r\n".join([*lines, "", ""]).encode() + body

    async def behave(writer: asyncio.StreamWriter, _: Received) -> None:
        writer.write(answer)
        await writer.drain()

    return behave


async def silent(writer: asyncio.StreamWriter, _: Received) -> None:
    await asyncio.Event().wait()


async def hang_up(writer: asyncio.StreamWriter, _: Received) -> None:
    writer.close()


async def reset(writer: asyncio.StreamWriter, _: Received) -> None:
    writer.transport.abort()


async def answer_then_hang_up(writer: asyncio.StreamWriter, received: Received) -> None:
    await says(body=b"ok")(writer, received)
    writer.close()


async def break_off_in_body(writer: asyncio.StreamWriter, received: Received) -> None:
    await says(body=b"half", length=1000)(writer, received)
    writer.close()


async def break_off_in_headers(writer: asyncio.StreamWriter, _: Received) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-")
    await writer.drain()
    writer.transport.abort()


def drips(head: bytes, drop: bytes) -> Behaviour:
    """Something comes every few milliseconds, for ever."""

    async def behave(writer: asyncio.StreamWriter, _: Received) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(0.01)

    return behave


def pours(head: bytes, piece: bytes) -> Behaviour:
    """As much as the reader will take, for ever."""

    async def behave(writer: asyncio.StreamWriter, _: Received) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()

    return behave


@dataclass
class ScriptedServer:
    """Serves on a free port of the loopback while its context is open."""

    behaviour: Behaviour = field(default_factory=says)
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    sent: int = 0
    port: int = 0

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"{'https' if self.tls else 'http'}://{host or self.host}:{self.port}{path}"

    async def __aenter__(self) -> Self:
        self.tasks: list[asyncio.Task[None]] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.server = await asyncio.start_server(self.serve, self.host, 0, ssl=self.tls)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.server.close()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for writer in self.writers:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.tasks.append(asyncio.create_task(self.converse(reader, writer)))

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        try:
            while not writer.is_closing():
                received = await receive(reader, number)
                self.received.append(received)
                await self.behaviour(writer, received)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def header_of(line: str) -> tuple[str, str]:
    name, mark, value = line.partition(": ")
    return (name, value) if mark else (line[:-1], "")


async def receive(reader: asyncio.StreamReader, connection: int) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = dict(map(header_of, lines))
    lower = {name.lower(): value for name, value in headers.items()}
    body = await reader.readexactly(int(lower.get("content-length", "0")))
    return Received(method, path, headers, body, connection)
