"""The HTTP API as one ASGI application."""

from collections.abc import Sequence

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
from onbeat.api.responses import error_response
from onbeat.api.rest import rest_routes
from onbeat.api.rpc import rpc_routes
from onbeat.api.security import secure_app
from onbeat.operations.context import OperationContext

PLAIN = ApiOptions()


def build_api(
    context: OperationContext, options: ApiOptions = PLAIN, *, routes: Sequence[BaseRoute] = ()
) -> ASGIApp:
    """REST, documents and health checks behind one guard; `routes` of the caller come first."""
    keyring = Keyring(options.keys, context)
    bulk = BulkSlots()
    refusals = Refusals(context.clock.monotonic, options.key_refused)
    return secure_app(
        Starlette(
            routes=[
                *routes,
                *rest_routes(context, options, bulk),
                *rpc_routes(context, options, bulk),
                *health_routes(options),
                *page_routes(),
            ],
            exception_handlers={HTTPException: handle_error},
        ),
        options,
        keyring,
        refusals,
    )


async def handle_error(request: Request, error: Exception) -> Response:
    return error_response(error, request)
