"""Brokers under prefixes of their own on a server that others use too."""

import secrets
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlencode, urlsplit

from onbeat.transports.redis.broker import RedisBroker
from transports.proxy import Proxy
from transports.redis.server import delete, server, through

TIMEOUT = 3.0
VISIBILITY = 2.0


class Make:
    """Makes brokers, straight or over a line, with options."""

    def __init__(self) -> None:
        self.prefix = f"test-{secrets.token_hex(4)}:"
        self.made: list[RedisBroker] = []

    def __call__(self, line: Proxy | None = None, **options: object) -> RedisBroker:
        address = line.address if line else urlsplit(server()).netloc.rpartition("@")[2]
        given = {"prefix": self.prefix, "timeout": TIMEOUT, "visibility": VISIBILITY, **options}
        self.made.append(RedisBroker(through(address, server(), urlencode(given))))
        return self.made[-1]


@asynccontextmanager
async def line(tls: ssl.SSLContext | None = None) -> AsyncGenerator[Proxy, None]:
    parts = urlsplit(server())
    async with Proxy(parts.hostname or "", parts.port or 6379, tls) as proxy:
        yield proxy


@asynccontextmanager
async def brokers() -> AsyncGenerator[Make, None]:
    """Their keys are deleted at the end."""
    make = Make()
    yield make
    for broker in make.made:
        await broker.close()
    delete(server(), make.prefix)
