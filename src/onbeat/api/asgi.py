"""The HTTP API as one ASGI application."""

from collections.abc import Callable, Iterable
from http import HTTPStatus

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from onbeat.api.bulk import BulkSlots
from onbeat.api.health import health_routes
from onbeat.api.key_refusals import Refusals
from onbeat.api.keyring import Keyring
from onbeat.api.options import ApiOptions
from onbeat.api.pages import page_routes
from onbeat.api.reports import report_routes
from onbeat.api.responses import error_response
from onbeat.api.rest import rest_routes
from onbeat.api.rpc import rpc_routes
from onbeat.api.security import Access, secure_app
from onbeat.api.stream import stream_routes
from onbeat.api.stream_hub import StreamHub
from onbeat.operations.context import OperationContext
from onbeat.rules.access import names_of

PLAIN = ApiOptions()


def no_pages(_access: Access) -> Iterable[BaseRoute]:
    return ()


def no_page(_request: Request) -> None:
    return None


def build_api(
    context: OperationContext,
    options: ApiOptions = PLAIN,
    *,
    pages: Callable[[Access], Iterable[BaseRoute]] = no_pages,
    missing: Callable[[Request], Response | None] = no_page,
    hub: StreamHub | None = None,
) -> ASGIApp:
    """REST, documents and health checks behind one guard; the `pages` of the caller come first.

    `missing` answers a path that nothing is at, where it has a page for who asks.

    A caller that stops the server gives the `hub` of streams, to close it before.
    """
    context = msgspec.structs.replace(context, configured_keys=names_of(options.keys))
    access = Access(
        Keyring(options.keys, context), Refusals(context.clock.monotonic, options.key_refused)
    )
    bulk = BulkSlots()

    async def handle_error(request: Request, error: Exception) -> Response:
        is_missing = isinstance(error, HTTPException) and error.status_code == HTTPStatus.NOT_FOUND
        page = missing(request) if is_missing else None
        return page or error_response(error, request)

    return secure_app(
        Starlette(
            routes=[
                *pages(access),
                *stream_routes(access, hub or StreamHub(context)),
                *report_routes(context, options, access.refusals),
                *rest_routes(context, options, bulk),
                *rpc_routes(context, options, bulk),
                *health_routes(options),
                *page_routes(),
            ],
            exception_handlers={HTTPException: handle_error},
        ),
        options,
        access,
    )
