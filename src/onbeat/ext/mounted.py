"""The API and the dashboard of an `Onbeat` as an ASGI application, at any path of another one."""

import re
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onbeat.api.asgi import build_api
from onbeat.api.options import ApiOptions
from onbeat.api.stream_hub import StreamHub
from onbeat.app.client import Onbeat
from onbeat.dashboard.routes import dashboard_routes, missing_page
from onbeat.model.errors import Misconfigured
from onbeat.ports.store import Store

LINKS: Final = re.compile(rb'(\s(?:href|src|action|formaction|data-[a-z-]+)=")(?=/(?!/))')
KEYS: Final = re.compile(rb'\sdata-keys="[^"]*"')
QUOTED: Final = re.compile(rb"(&(?:#34|quot);)(?=/(?!/))")
LITERALS: Final = re.compile(rb"""(["'`])(?=/[a-z])""")


class Mounted:
    """`app.mount("/onbeat", Mounted(beat, keys=["admin:…"]))`.

    `keys` are those of the setting `api.keys`. Without any, whoever reaches the path may do all:
    then `insecure=True` says that something else guards it. `hosts` are the names under which the
    application is called; None is any name. Raises `Misconfigured`.
    """

    def __init__(
        self,
        beat: Onbeat,
        *,
        keys: tuple[str, ...] | list[str] = (),
        hosts: tuple[str, ...] | None = None,
        insecure: bool = False,
    ) -> None:
        if not keys and not insecure:
            raise Misconfigured(
                "keys: without a key everybody has access; give keys, or insecure=True where "
                "something else guards the path",
                "keys",
            )
        self.beat = beat
        self.options = ApiOptions(keys=tuple(keys), hosts=hosts)
        self.store: Store | None = None
        self.hub: StreamHub | None = None
        self.app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await self.beat.backend.open()
        prefix, path = split(scope)
        inner = {**scope, "path": path, "root_path": ""}
        await self.current()(inner, receive, with_prefix(send, prefix) if prefix else send)

    def current(self) -> ASGIApp:
        """Made anew where a trial has replaced the store."""
        backend = self.beat.backend
        if self.app is None or self.store is not backend.store:
            context = backend.context
            self.store, self.hub = backend.store, StreamHub(context)
            self.app = build_api(
                context,
                self.options,
                pages=lambda access: dashboard_routes(context, access),
                missing=missing_page(context),
                hub=self.hub,
            )
        return self.app

    async def aclose(self) -> None:
        """End the open streams, which would hold the server up when it stops."""
        if self.hub is not None:
            await self.hub.close()


def split(scope: Scope) -> tuple[str, str]:
    """Where this application is mounted, and the path below."""
    prefix, path = str(scope.get("root_path", "")).rstrip("/"), str(scope["path"])
    if not prefix or not path.startswith(prefix):
        return prefix, path
    return prefix, path[len(prefix) :] or "/"


def with_prefix(send: Send, prefix: str) -> Send:
    """Pages, scripts and redirections with the paths that a browser must ask for.

    They are made for the root of a host; streams and answers in JSON pass unchanged.
    """
    writers = {"text/html": in_page, "text/javascript": in_script}
    held: list[Message] = []

    async def send_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if headers.get("location", "").startswith("/"):
                headers["location"] = prefix + headers["location"]
            if kind_of(headers) in writers:
                held.append(message)
                return
        if not held:
            await send(message)
            return
        held.append(message)
        if not message.get("more_body", False):
            start, *parts = held
            write = writers[kind_of(MutableHeaders(scope=start))]
            await send_whole(send, start, parts, write, prefix.encode())

    return send_on


async def send_whole(
    send: Send,
    start: Message,
    parts: list[Message],
    write: Callable[[bytes, bytes], bytes],
    prefix: bytes,
) -> None:
    body = write(b"".join(part.get("body", b"") for part in parts), prefix)
    headers = MutableHeaders(scope=start)
    if "content-length" in headers:
        headers["content-length"] = str(len(body))
    await send(start)
    await send({"type": "http.response.body", "body": body})


def kind_of(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0]


def in_page(body: bytes, prefix: bytes) -> bytes:
    """In attributes only: text of jobs that looks like one has its quotes escaped."""

    def in_keys(match: re.Match[bytes]) -> bytes:
        return QUOTED.sub(rb"\1" + prefix, match[0])

    return KEYS.sub(in_keys, LINKS.sub(rb"\1" + prefix, body))


def in_script(body: bytes, prefix: bytes) -> bytes:
    return LITERALS.sub(rb"\1" + prefix, body)
