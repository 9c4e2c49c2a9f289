"""Requests into an ASGI application, without a server."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        assert set(self.json) == {"error"}
        return self.json["error"]


class RestClient:
    def __init__(self, app: Callable[..., Any], **headers: str) -> None:
        self.app = app
        self.headers = {"host": "testserver", **headers}

    async def get(self, url: str, **headers: str) -> Response:
        return await self.send("GET", url, None, **headers)

    async def post(self, url: str, body: object = None, **headers: str) -> Response:
        return await self.send("POST", url, body, **headers)

    async def put(self, url: str, body: object = None, **headers: str) -> Response:
        return await self.send("PUT", url, body, **headers)

    async def delete(self, url: str, **headers: str) -> Response:
        return await self.send("DELETE", url, None, **headers)

    async def send(self, method: str, url: str, body: object = None, **headers: str) -> Response:
        """`body` as JSON, or bytes as they are."""
        sent = {name.replace("_", "-").lower(): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent = {"content-type": "application/json", **sent}
        return await self.send_parts(method, url, [body or b""], {**self.headers, **sent})

    async def send_parts(
        self,
        method: str,
        url: str,
        parts: Iterable[bytes | Awaitable[bytes]],
        headers: Mapping[str, str],
    ) -> Response:
        """The body in several parts; a part that is awaitable is waited for."""
        split = urlsplit(url)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(split.path),
            "raw_path": split.path.encode(),
            "query_string": split.query.encode(),
            "root_path": "",
            "headers": [
                (name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()
            ],
            "server": ("testserver", 80),
            "client": ("127.0.0.1", 1),
        }
        waiting, messages = list(parts), []
        ended = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if not waiting:
                # As servers have it: nothing more comes before the answer is whole.
                await ended.wait()
                return {"type": "http.disconnect"}
            part = waiting.pop(0)
            body = part if isinstance(part, bytes) else await part
            return {"type": "http.request", "body": body, "more_body": bool(waiting)}

        async def send(message: dict[str, Any]) -> None:
            messages.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                ended.set()

        await self.app(scope, receive, send)
        start = next(message for message in messages if message["type"] == "http.response.start")
        body = b"".join(message.get("body", b"") for message in messages)
        headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return Response(start["status"], headers, body)
