"""Authentication and security headers, applied before any route."""

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onbeat.api.key_refusals import Refusals
from onbeat.api.keyring import Keyring
from onbeat.api.options import ApiOptions
from onbeat.api.responses import error_response
from onbeat.model.errors import Forbidden, OnbeatError, Unauthorized
from onbeat.model.principal import ANONYMOUS, Principal
from onbeat.rules.sessions import proves

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/rpc/openrpc.json"})
OPEN_PREFIXES: Final = ("/docs/", "/swagger-ui", "/assets/", "/login", "/api/reports/")
FOR_PROGRAMS: Final = ("/api", "/rpc", "/metrics")
"""The beginnings of the paths that answer JSON or text; all others are pages."""
STREAM_PATH: Final = "/api/stream"
SECURE_COOKIE: Final = "__Host-onbeat"
PLAIN_COOKIE: Final = "onbeat"  # over HTTP on loopback, where not all browsers take the other
PROOF_HEADER: Final = "onbeat-view"
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:\[\]]*)(?::[0-9]*)?", re.ASCII)
HOST_CHARS_MAX: Final = 300  # a name has at most 253, plus a port
HOSTS_KEPT: Final = 100
FORM_TYPE: Final = "application/x-www-form-urlencoded"
FORM_PAGES: Final = {
    "/new": 0,
    "/edit": 0,
    "/backfill": 0,
    "/limits": 2,
    "/pause": 1,
    "/reschedule": 1,
    "/delete": 1,
    "/silence": 1,
    "/note": 1,
}
"""How many parts the path of a form has more than that of its page, by its ending."""
FORM_ENDINGS: Final = tuple(FORM_PAGES)
"""How the paths of pages end that take forms, whose proof is a field of them."""
UNPROVEN: Final = "onbeat.unproven"
"""The key of the principal that a form has, if it proves in its body that a page of ours sent it.

Until then its principal is `NOBODY`.
"""
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


@dataclass(frozen=True)
class Access:
    """Who may come in, and how wrong keys are counted."""

    keyring: Keyring
    refusals: Refusals


def secure_app(app: ASGIApp, options: ApiOptions, access: Access) -> ASGIApp:
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
            principal = await authenticate(request, access)
            if options.hosts_with_key or principal is ANONYMOUS:
                check_host(request.headers.get("host", ""))
            scope[PRINCIPAL] = principal
        except OnbeatError as error:
            await refusal(error, request)(scope, receive, send)
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


async def authenticate(request: Request, access: Access) -> Principal:
    """Raises `Unauthorized` where a key is required and the request has no valid one."""
    path = path_of(request)
    if path in OPEN_PATHS or path.startswith(OPEN_PREFIXES):
        return NOBODY
    token = session_token(request)
    if token is not None and counts(request, token):
        return await access.keyring.session_principal(token)
    if token is not None and is_form(request):
        principal = await access.keyring.session_principal(token)
        if principal is ANONYMOUS:
            return principal
        request.scope[UNPROVEN] = principal
        return NOBODY
    key = key_from_headers(request.headers)
    try:
        return await access.keyring.principal(key)
    except Unauthorized:
        if key is not None or not is_page(path):
            access.refusals.note(peer_of(request))
        raise


def path_of(request: Request) -> str:
    """As the routes see it: `request.url` would cut it at a question mark of a name."""
    path: str = request.scope["path"]
    return path


def is_https(request: Request) -> bool:
    scheme: str = request.scope["scheme"]
    return scheme == "https"


def peer_of(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def session_token(request: Request) -> str | None:
    """The token of the dashboard's cookie.

    Over HTTPS only under the name that no other host of the domain can set.
    """
    return request.cookies.get(SECURE_COOKIE if is_https(request) else PLAIN_COOKIE) or None


def counts(request: Request, token: str) -> bool:
    """Whether the cookie is a right: to read pages, or where a page of ours proves that it asks.

    A browser sends the cookie with requests that another site made up, too.
    """
    if is_page(path_of(request)) and request.method in READING:
        return True
    if path_of(request) == STREAM_PATH and request.method in READING:
        # A browser's stream has no headers of ours; this one no page can set or leave out.
        return request.headers.get("sec-fetch-site") == "same-origin"
    return proves(token, request.headers.get(PROOF_HEADER))


def is_form(request: Request) -> bool:
    """Whether a page sent it without script, so that its proof can only be in the body."""
    path = path_of(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_taken = is_page(path) and path.endswith(FORM_ENDINGS)
    return request.method == "POST" and is_taken and kind == FORM_TYPE


def is_page(path: str) -> bool:
    """Whether the path is for people."""
    return not path.startswith(FOR_PROGRAMS)


def is_for_people(request: Request) -> bool:
    """Whether a browser asks for a page."""
    return is_page(path_of(request)) and "text/html" in request.headers.get("accept", "")


def refusal(error: OnbeatError, request: Request) -> Response:
    """The error; a browser that lacks a session is led to the log-in, and then back to the page."""
    wanted = page_behind(request)
    if not isinstance(error, Unauthorized) or wanted is None:
        return error_response(error, request)
    return RedirectResponse(f"/login?next={quote(wanted, safe='')}", HTTPStatus.SEE_OTHER)


def page_behind(request: Request) -> str | None:
    """The page that a browser asks for, or that has the form which it sends; None for programs."""
    path = path_of(request)
    if not is_for_people(request):
        return None
    if request.method in READING:
        query = request.scope["query_string"].decode("latin-1")
        return quote(path) + (f"?{query}" if query else "")
    if not is_form(request):
        return None
    parts = FORM_PAGES["/" + path.rpartition("/")[2]]
    return quote("/".join(path.split("/")[: -parts or None])) or "/"


def key_from_headers(headers: Headers) -> str | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return headers.get("x-api-key")
