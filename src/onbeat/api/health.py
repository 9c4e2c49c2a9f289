"""Liveness, readiness and metrics endpoints."""

import asyncio
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onbeat.api.options import ApiOptions, Readiness
from onbeat.api.responses import error_response, json_response
from onbeat.api.security import principal_of
from onbeat.model.errors import Unavailable
from onbeat.model.principal import Scope
from onbeat.rules.access import check_scope


def health_routes(options: ApiOptions) -> Iterator[Route]:
    async def healthz(_request: Request) -> Response:
        return json_response({"status": "ok"})

    async def readyz(request: Request) -> Response:
        try:
            checks = await readiness_in_time(options)
        except Exception as error:  # noqa: BLE001  every error becomes a response
            return error_response(error, request)
        wrong = [f"{name}: {result}" for name, result in checks.items() if result != "ok"]
        if wrong:
            return error_response(Unavailable("; ".join(wrong)), request)
        return json_response({"status": "ready", "checks": checks})

    yield Route("/healthz", healthz)
    yield Route("/readyz", readyz)
    yield from metrics_routes(options)


async def readiness_in_time(options: ApiOptions) -> Readiness:
    """Limits the time, because clients give up long before a store that waits for a lock."""
    seconds = options.ready_deadline.total_seconds()
    try:
        async with asyncio.timeout(seconds):
            return await options.ready()
    except TimeoutError:
        raise Unavailable(f"store: no answer within {seconds:g} s") from None


def metrics_routes(options: ApiOptions) -> Iterator[Route]:
    measure = options.metrics
    if measure is None:
        return

    async def metrics(request: Request) -> Response:
        try:
            check_scope(principal_of(request), Scope.READ)
            body, content_type = await measure(request.headers.get("Accept", ""))
        except Exception as error:  # noqa: BLE001  every error becomes a response
            return error_response(error, request)
        return Response(body, headers={"Content-Type": content_type, "Vary": "Accept"})

    yield Route("/metrics", metrics)
