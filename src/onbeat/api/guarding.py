"""Who is let in, and what every response says to a browser; before any route is looked at."""

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onbeat.api.answering import refused
from onbeat.api.options import ApiOptions
from onbeat.model.errors import Forbidden, OnbeatError, Unauthorized

OPEN_PATHS: Final = frozenset({"/", "/healthz", "/readyz", "/rpc/openrpc.json"})
OPEN_PREFIXES: Final = ("/docs/", "/swagger-ui")
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:\[\]]*)(?::[0-9]*)?", re.ASCII)
KEY_CHARS_MAX: Final = 1_000

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
}
"""For every response that does not say otherwise."""


def guarded(app: ASGIApp, options: ApiOptions) -> ASGIApp:
    """`app`, behind the keys, with the headers that keep browsers out of trouble."""
    knows = key_check(options.keys)
    hosts = frozenset(host.lower() for host in options.hosts)

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif scope["type"] == "http":
            await passed(scope, receive, with_headers(send))

    async def passed(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            check_host(request.headers, hosts)
            check_origin(request)
            check_key(request, knows)
        except OnbeatError as error:
            await refused(error, request)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guard


def with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent


def check_host(headers: Headers, hosts: frozenset[str]) -> None:
    """Refuse names that are not ours, which some other site may have pointed here."""
    if hosts and host_name(headers.get("host", "")) not in hosts:
        raise Forbidden("The service is not known under this host name")


def host_name(host: str) -> str:
    """The name without its port; an IPv6 address without its brackets."""
    found = HOST.fullmatch(host.lower())
    return found["name"].strip("[]") if found else ""


def check_origin(request: Request) -> None:
    """Refuse what a page of another site sends; a program sends none of these headers."""
    if request.method not in READING and not is_from_here(request.headers):
        raise Forbidden("Requests from pages of other sites are not allowed")


def is_from_here(headers: Headers) -> bool:
    # What the browser says of the site holds behind any proxy; a proxy may change the host.
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")


def check_key(request: Request, knows: Callable[[str], bool] | None) -> None:
    path = request.url.path
    if knows is None or path in OPEN_PATHS or path.startswith(OPEN_PREFIXES):
        return
    given = given_key(request.headers)
    if given is None or not knows(given):
        raise Unauthorized


def given_key(headers: Headers) -> str | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return headers.get("x-api-key")


def key_check(keys: tuple[str, ...]) -> Callable[[str], bool] | None:
    """Whether a text is one of the keys, in a time that tells nothing; None without keys."""
    if not keys:
        return None
    known = [digest(key) for key in keys]

    def knows(given: str) -> bool:
        found = digest(given[:KEY_CHARS_MAX])
        # All are compared, so that the time does not tell which one matched.
        return any([hmac.compare_digest(found, one) for one in known])  # noqa: C419

    return knows


def digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
