"""A small port with `/metrics`, `/healthz` and `/readyz`, for a process of any role."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onbeat.app.connections import Connections, Times
from onbeat.app.health import Health
from onbeat.app.listener import Server, listen
from onbeat.app.protocol import bounded_by
from onbeat.model.errors import OnbeatError

READY_SECONDS_MAX: Final = 5.0
CONNECTIONS_MAX: Final = 16  # who asks is one scraper and one supervisor
TIMES: Final = Times(head=5.0)
KEEP_ALIVE_SECONDS: Final = 5
LOCAL_NAMES: Final = ["localhost", "127.0.0.1", "[::1]"]


@contextlib.asynccontextmanager
async def serve_probe(host: str, port: int, health: Health) -> AsyncGenerator[int]:
    """Answer on this address until the block ends; yields the port, which is free for 0.

    Raises `Misconfigured` if the address is not available.
    """
    with listen(host, port, "metrics.port") as listener:
        server = Server(
            uvicorn.Config(
                probe_app(health, is_local=is_local(host)),
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                http=bounded_by(Connections(CONNECTIONS_MAX, times=TIMES)),
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=1,
                ws="none",
            ),
            listener,
        )
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await server.listens.wait()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await task


def is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def probe_app(health: Health, *, is_local: bool) -> Starlette:
    """On loopback only its own names are answered, so that no page of a browser can ask."""
    names = LOCAL_NAMES if is_local else ["*"]
    guard = Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    return Starlette(routes=list(probe_routes(health)), middleware=[guard])


def probe_routes(health: Health) -> Iterator[Route]:
    async def healthz(_request: Request) -> Response:
        return as_json({"status": "ok"})

    async def readyz(_request: Request) -> Response:
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                checks = await health.readiness()
        except (OnbeatError, TimeoutError) as error:
            checks = {"store": str(error) or f"no answer within {READY_SECONDS_MAX:g} s"}
        is_ready = all(result == "ok" for result in checks.values())
        status = "ready" if is_ready else "not ready"
        return as_json({"status": status, "checks": checks}, 200 if is_ready else 503)

    async def metrics(request: Request) -> Response:
        body, content_type = await health.exposition(request.headers.get("Accept", ""))
        return Response(body, headers={"Content-Type": content_type, "Vary": "Accept"})

    yield Route("/healthz", healthz)
    yield Route("/readyz", readyz)
    yield Route("/metrics", metrics)


def as_json(value: dict[str, Any], status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store"}
    body = msgspec.json.encode(value)
    return Response(body, status, headers, media_type="application/json")
