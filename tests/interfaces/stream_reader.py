"""A reader of the live stream, without a server: it takes what it wants, when it wants."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from conditions import eventually


class Told(NamedTuple):
    """One event; `id` is empty where it has none."""

    kind: str
    data: Any
    id: str


class StreamReader:
    """Reads until the block ends. While it is `stuck`, the service waits to send."""

    def __init__(self, app: Callable[..., Any], url: str, **headers: str) -> None:
        split = urlsplit(url)
        named = {"host": "testserver"} | {
            name.replace("_", "-").lower(): value for name, value in headers.items()
        }
        self.app = app
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": split.path,
            "raw_path": split.path.encode(),
            "query_string": split.query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
            "server": ("testserver", 80),
            "client": ("127.0.0.1", 1),
        }
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.has_ended = False
        self.left = asyncio.Event()
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.app(self.scope, self.receive, self.send))
        await eventually(lambda: self.status, "the stream has begun")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.leave()

    async def leave(self) -> None:
        self.left.set()
        self.may_send.set()
        assert self.task is not None
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        await self.may_send.wait()
        self.body += message.get("body", b"")
        self.has_ended = not message.get("more_body")

    def get_stuck(self) -> None:
        self.may_send.clear()

    def go_on(self) -> None:
        self.may_send.set()

    @property
    def told(self) -> Sequence[Told]:
        return told_in(self.body)

    def of(self, kind: str) -> Sequence[Any]:
        return [one.data for one in self.told if one.kind == kind]

    async def until(self, kind: str, count: int = 1) -> Sequence[Any]:
        """The data of the events of this kind, once there are so many."""
        await eventually(lambda: len(self.of(kind)) >= count, f"{count} events {kind!r} came")
        return self.of(kind)


def told_in(body: bytes) -> Sequence[Told]:
    """The events of a text, whose end may be cut off."""
    whole = body.decode().rpartition("\n\n")[0]
    found: list[Told] = []
    for block in whole.split("\n\n"):
        lines = [line.partition(": ") for line in block.splitlines()]
        fields = {name: text for name, _, text in lines}
        if "event" in fields:
            data = json.loads(fields["data"])
            found.append(Told(fields["event"], data, fields.get("id", "")))
    return found
