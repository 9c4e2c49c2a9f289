"""Authentication and security headers, applied before any route."""

import ipaddress
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onbeat.api.key_refusals import Refusals
from onbeat.api.keyring import Keyring
from onbeat.api.options import ApiOptions
from onbeat.api.responses import error_response
from onbeat.model.errors import Forbidden, OnbeatError, Unauthorized
from onbeat.model.principal import ANONYMOUS, Principal

OPEN_PATHS: Final = frozenset({"/", "/healthz", "/readyz", "/rpc/openrpc.json"})
OPEN_PREFIXES: Final = ("/docs/", "/swagger-ui")
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:\[\]]*)(?::[0-9]*)?", re.ASCII)
HOST_CHARS_MAX: Final = 300  # a name has at most 253, plus a port
HOSTS_KEPT: Final = 100
PRINCIPAL: Final = "onbeat.principal"
"""The key of the principal in a request's scope."""
NOBODY: Final = Principal(name="nobody", scopes=frozenset())
"""The principal of requests for public paths; no key was checked."""

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
}
"""Defaults for every response."""


def secure_app(app: ASGIApp, options: ApiOptions, keyring: Keyring, refusals: Refusals) -> ASGIApp:
    """Wrap `app` with authentication and security headers for browsers."""
    check_host = host_check(options.hosts)

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif scope["type"] == "http":
            await serve_checked(scope, receive, with_headers(send))

    async def serve_checked(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            check_origin(request)
            principal = await authenticate(request, keyring, refusals)
            if options.hosts_with_key or principal is ANONYMOUS:
                check_host(request.headers.get("host", ""))
            scope[PRINCIPAL] = principal
        except OnbeatError as error:
            await error_response(error, request)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guard


def with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


def host_check(hosts: Sequence[str] | None) -> Callable[[str], None]:
    """Refuses foreign host names, which another site may have pointed here (DNS rebinding).

    Addresses are safe, because they cannot be pointed elsewhere.
    """
    names = None if hosts is None else frozenset(host.lower() for host in hosts)

    @lru_cache(HOSTS_KEPT)
    def is_known(host: str) -> bool:
        name = host_name(host)
        return names is None or name in names or is_address(name)

    def check(host: str) -> None:
        if not is_known(host[:HOST_CHARS_MAX]):
            raise Forbidden(
                f"The service is not known as {host_name(host)[:100]!r}: call it by its address, "
                "or name it in api.hosts"
            )

    return check


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def host_name(host: str) -> str:
    """The name without its port; an IPv6 address without its brackets."""
    match = HOST.fullmatch(host.lower())
    return match["name"].strip("[]") if match else ""


def check_origin(request: Request) -> None:
    """Refuse requests from a page of another site; programs do not send these headers."""
    if request.method not in READING and not is_same_origin(request.headers):
        raise Forbidden("Requests from pages of other sites are not allowed")


def is_same_origin(headers: Headers) -> bool:
    # This header is valid behind any proxy; a proxy may change the host.
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")


def principal_of(request: Request) -> Principal:
    """The principal of an authenticated request."""
    principal: Principal = request.scope[PRINCIPAL]
    return principal


async def authenticate(request: Request, keyring: Keyring, refusals: Refusals) -> Principal:
    """Raises `Unauthorized` where a key is required and the request has no valid one."""
    path = request.url.path
    if path in OPEN_PATHS or path.startswith(OPEN_PREFIXES):
        return NOBODY
    try:
        return await keyring.principal(key_from_headers(request.headers))
    except Unauthorized:
        refusals.note(request.client.host if request.client else "unknown")
        raise


def key_from_headers(headers: Headers) -> str | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return headers.get("x-api-key")
