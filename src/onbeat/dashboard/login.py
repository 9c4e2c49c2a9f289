"""Log-in with a key, which opens a session that the browser holds in a cookie, and log-out."""

import ipaddress
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from onbeat.api.security import (
    PLAIN_COOKIE,
    SECURE_COOKIE,
    Access,
    is_https,
    peer_of,
    principal_of,
    session_token,
)
from onbeat.dashboard.forms import read_fields
from onbeat.dashboard.links import link, safe_next
from onbeat.dashboard.renderer import PageAnswer, render
from onbeat.dashboard.viewer import viewer_of
from onbeat.model.errors import Forbidden, OnbeatError, RateLimited, Unauthorized
from onbeat.model.principal import ANONYMOUS
from onbeat.operations.audit import note_change
from onbeat.operations.context import OperationContext
from onbeat.rules.sessions import AGE_MAX
from onbeat.wire.errors import status_of

FORM_BYTES_MAX: Final = 4_096
FIELDS_MAX: Final = 3
IN_CLEAR: Final = (
    "Log in over HTTPS: here the key would cross the network in clear. Behind a proxy that speaks"
    " HTTPS, name its address in FORWARDED_ALLOW_IPS."
)


class LogIn:
    """The three requests of a session: its form, its begin and its end."""

    def __init__(self, context: OperationContext, access: Access) -> None:
        self.context = context
        self.access = access

    async def form(self, request: Request) -> Response:
        wanted = safe_next(request.query_params.get("next", ""))
        try:
            if await self.is_open():
                return RedirectResponse(link("now"), HTTPStatus.SEE_OTHER)
            check_transport(request)
        except OnbeatError as error:
            return self.page(request, wanted, error)
        return self.page(request, wanted)

    async def begin(self, request: Request) -> Response:
        wanted = link("now")
        try:
            if await self.is_open():
                return RedirectResponse(wanted, HTTPStatus.SEE_OTHER)
            check_transport(request)
            fields = await read_fields(request, FORM_BYTES_MAX, FIELDS_MAX)
            wanted = safe_next(fields.get("next", ""))
            token = await self.opened(request, fields.get("key", "").strip())
        except OnbeatError as error:
            return self.page(request, wanted, error)
        response = RedirectResponse(wanted, HTTPStatus.SEE_OTHER)
        set_cookie(response, request, token)
        return response

    async def opened(self, request: Request, key: str) -> str:
        try:
            token = await self.access.keyring.open_session(key)
            principal = await self.access.keyring.session_principal(token)
        except Unauthorized as error:
            self.access.refusals.note(peer_of(request))
            raise Unauthorized("This key is not known here") from error
        await note_change(self.context.for_principal(principal), "session.begin", "session/")
        return token

    async def end(self, request: Request) -> Response:
        """Its caller is authenticated, and has proved that a page of ours asks."""
        token = session_token(request)
        if token is not None:
            await self.access.keyring.close_session(token)
            context = self.context.for_principal(principal_of(request))
            await note_change(context, "session.end", "session/")
        response = Response(b"{}", media_type="application/json")
        for name in (SECURE_COOKIE, PLAIN_COOKIE):
            response.delete_cookie(name, secure=name == SECURE_COOKIE, httponly=True)
        return response

    async def is_open(self) -> bool:
        """Whether the service has no keys, so that everybody may do everything."""
        try:
            return await self.access.keyring.principal(None) is ANONYMOUS
        except Unauthorized:
            return False

    def page(self, request: Request, wanted: str, error: OnbeatError | None = None) -> Response:
        status = HTTPStatus.OK if error is None else status_of(error).status
        values = {
            "next": wanted,
            "error": None if error is None else str(error),
            "takes_keys": not is_in_clear(request),
        }
        response = render(
            PageAnswer("login.html", "Log in", "", values, status), viewer_of(self.context, request)
        )
        if isinstance(error, RateLimited):
            response.headers["Retry-After"] = str(error.retry_after)
        return response


def check_transport(request: Request) -> None:
    """Raises `Forbidden` where others on the network could read the key."""
    if is_in_clear(request):
        raise Forbidden(IN_CLEAR)


def is_in_clear(request: Request) -> bool:
    return not is_https(request) and not is_loopback(peer_of(request))


def is_loopback(peer: str) -> bool:
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def set_cookie(response: Response, request: Request, token: str) -> None:
    is_secure = is_https(request)
    response.set_cookie(
        SECURE_COOKIE if is_secure else PLAIN_COOKIE,
        token,
        max_age=int(AGE_MAX.total_seconds()),
        secure=is_secure,
        httponly=True,
        samesite="lax",
    )
