"""Whether the process lives, whether it can work, and its figures."""

import asyncio
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onbeat.api.answering import answered, refused
from onbeat.api.options import ApiOptions, Readiness
from onbeat.model.errors import Unavailable


def health_routes(options: ApiOptions) -> Iterator[Route]:
    async def healthz(_request: Request) -> Response:
        return answered({"status": "ok"})

    async def readyz(request: Request) -> Response:
        try:
            checks = await known_in_time(options)
        except Exception as error:  # noqa: BLE001  every error is told in one form
            return refused(error, request)
        wrong = [f"{name}: {found}" for name, found in checks.items() if found != "ok"]
        if wrong:
            return refused(Unavailable("; ".join(wrong)), request)
        return answered({"status": "ready", "checks": checks})

    yield Route("/healthz", healthz)
    yield Route("/readyz", readyz)
    yield from metrics_routes(options)


async def known_in_time(options: ApiOptions) -> Readiness:
    """Who asks gives up long before a store does that waits for a lock."""
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
            body, content_type = await measure()
        except Exception as error:  # noqa: BLE001  every error is told in one form
            return refused(error, request)
        return Response(body, headers={"Content-Type": content_type})

    yield Route("/metrics", metrics)
