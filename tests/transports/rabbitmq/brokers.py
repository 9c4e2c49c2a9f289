"""Brokers under prefixes of their own on a server that others use too."""

import secrets
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlencode, urlsplit

from onbeat.transports.amqp.broker import RabbitMqBroker
from transports.proxy import Proxy
from transports.rabbitmq.server import delete, server, through

TIMEOUT = 3.0


class Make:
    """Makes brokers, straight or over a line, with options."""

    def __init__(self) -> None:
        self.prefix = f"test-{secrets.token_hex(4)}."
        self.made: list[RabbitMqBroker] = []

    def __call__(self, line: Proxy | None = None, **options: object) -> RabbitMqBroker:
        address = line.address if line else urlsplit(server()).netloc.rpartition("@")[2]
        query = urlencode({"prefix": self.prefix, "timeout": TIMEOUT, **options})
        self.made.append(RabbitMqBroker(through(address, server(), query)))
        return self.made[-1]


@asynccontextmanager
async def line(tls: ssl.SSLContext | None = None) -> AsyncGenerator[Proxy, None]:
    parts = urlsplit(server())
    async with Proxy(parts.hostname or "", parts.port or 5672, tls) as proxy:
        yield proxy


@asynccontextmanager
async def brokers() -> AsyncGenerator[Make, None]:
    """Their queues are deleted at the end."""
    make = Make()
    yield make
    names = {name for broker in make.made for name in broker.declarations.known}
    names.add(f"{make.prefix}onbeat.dead")  # what is gone was forgotten with all the rest
    for broker in make.made:
        await broker.close()
    await delete(server(), names, f"{make.prefix}onbeat.dlx")
