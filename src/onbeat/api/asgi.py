"""The whole HTTP face as one ASGI application."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from onbeat.api.answering import refused
from onbeat.api.guarding import guarded
from onbeat.api.health import health_routes
from onbeat.api.options import ApiOptions
from onbeat.api.pages import page_routes
from onbeat.api.rest import rest_routes
from onbeat.api.rpc import rpc_routes
from onbeat.operations.operator import Operator

PLAIN = ApiOptions()


def build_api(
    operator: Operator, options: ApiOptions = PLAIN, *, routes: Sequence[BaseRoute] = ()
) -> ASGIApp:
    """REST, documents and health behind one guard; `routes` of others come first."""
    return guarded(
        Starlette(
            routes=[
                *routes,
                *rest_routes(operator, options),
                *rpc_routes(operator, options),
                *health_routes(options),
                *page_routes(),
            ],
            exception_handlers={HTTPException: handled},
        ),
        options,
    )


async def handled(request: Request, error: Exception) -> Response:
    return refused(error, request)
