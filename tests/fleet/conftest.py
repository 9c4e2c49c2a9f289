"""A program whose jobs go over a broker, and the other side of that broker."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest

from conditions import PATIENCE, eventually
from onbeat import Onbeat, Options, Retry
from onbeat.app.brokers import open_broker
from onbeat.engine.options import RuntimeOptions
from onbeat.model.remote_task import RemoteTask
from onbeat.ports.transport import Broker, Delivery, Envelope
from onbeat.wire.broker_messages import (
    DEAD,
    REPLIES,
    RESULTS,
    SUBMIT,
    TOKEN_HEADER,
    run_queue,
    work_queue,
)
from transports.proxy import Proxy
from transports.rabbitmq import server as rabbitmq
from transports.redis import server as redis

QUEUES = (SUBMIT, RESULTS, DEAD, REPLIES, work_queue("default"), run_queue("default"))


@asynccontextmanager
async def rabbitmq_url(line: str | None = None) -> AsyncIterator[str]:
    prefix = f"test-{secrets.token_hex(4)}."
    yield through(rabbitmq, prefix, line)
    names = {f"{prefix}{name}" for name in QUEUES}
    await rabbitmq.delete(rabbitmq.server(), names, f"{prefix}onbeat.dlx")


@asynccontextmanager
async def redis_url(line: str | None = None) -> AsyncIterator[str]:
    prefix = f"test-{secrets.token_hex(4)}:"
    yield through(redis, prefix, line)
    redis.delete(redis.server(), prefix)


def through(kind: Any, prefix: str, line: str | None) -> str:
    address = line or urlsplit(kind.server()).netloc.rpartition("@")[2]
    return kind.through(address, kind.server(), urlencode({"prefix": prefix, "timeout": 3}))


@asynccontextmanager
async def memory_url() -> AsyncIterator[str]:
    yield f"memory://test-{secrets.token_hex(4)}"


KINDS = {"rabbitmq": rabbitmq_url, "redis": redis_url}
SERVERS = {"rabbitmq": rabbitmq, "redis": redis}


class BrokerLine(NamedTuple):
    """A broker by two ways: straight, and through a proxy that can be cut."""

    straight: str
    through: str
    proxy: Proxy


@pytest.fixture(params=KINDS)
async def link(request: pytest.FixtureRequest) -> AsyncIterator[BrokerLine]:
    async with KINDS[request.param]() as url:
        parts = urlsplit(url)
        async with Proxy(parts.hostname or "", parts.port or 0) as proxy:
            far = SERVERS[request.param].through(proxy.address, url, parts.query)
            yield BrokerLine(url, far, proxy)


@asynccontextmanager
async def speaking(url: str) -> AsyncIterator["Outside"]:
    broker = open_broker(url)
    await broker.open()
    outside = Outside(broker)
    yield outside
    await outside.stack.aclose()
    await broker.close()


class Outside:
    """Who speaks to the program over the broker alone."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.stack = AsyncExitStack()
        self.inboxes: dict[str, Any] = {}

    async def say(self, queue: str, message: object, *, id: str = "", **headers: str) -> None:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        envelope = Envelope(body=body, id=id or secrets.token_hex(8), headers=headers)
        await self.broker.publish(queue, [envelope])

    async def answer(self, delivery: Delivery, **members: object) -> None:
        """As a worker: the outcome of a call, with the token that came with it."""
        id = json.loads(delivery.body)["id"]
        headers = {TOKEN_HEADER: delivery.headers[TOKEN_HEADER]}
        await self.say(RESULTS, {"jsonrpc": "2.0", "id": id, **members}, **headers)

    async def answer_plainly(self, delivery: Delivery, **members: object) -> None:
        """The same as a worker that knows no token."""
        id = json.loads(delivery.body)["id"]
        await self.say(RESULTS, {"jsonrpc": "2.0", "id": id, **members})

    async def next(self, queue: str, within: float = PATIENCE) -> Delivery:
        """The next message, acknowledged."""
        result = await self.look(queue, within)
        assert result is not None, f"no message on {queue} within {within} s"
        return result

    async def look(self, queue: str, within: float) -> Delivery | None:
        if queue not in self.inboxes:
            consumer = self.broker.consumer(queue, 1)
            self.inboxes[queue] = await self.stack.enter_async_context(consumer)
        deadline = asyncio.get_running_loop().time() + within
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            for delivery in await self.inboxes[queue].receive(1, left):
                await self.inboxes[queue].acknowledge([delivery])
                return delivery
        return None


class Fleet:
    """One program on an SQLite store, and the outside."""

    def __init__(self, beat: Onbeat, outside: Outside) -> None:
        self.beat = beat
        self.outside = outside

    async def jobs(self) -> list[Any]:
        from onbeat.model.page import JobFilter  # noqa: PLC0415

        page = await self.beat.backend.store.jobs(JobFilter(limit=100))
        return list(page.items)

    async def the_job(self, condition: Callable[[Any], bool], what: str) -> Any:
        async def look() -> Any:
            return next((job for job in await self.jobs() if condition(job)), None)

        return await eventually(look, what)

    async def dead_letters(self, count: int) -> list[Any]:
        async def look() -> Any:
            result = await self.beat.backend.store.dead_letters(None, 100)
            return result if len(result) >= count else None

        return list(await eventually(look, f"{count} dead letters"))


@pytest.fixture(params=[*KINDS.values(), memory_url], ids=[*KINDS, "memory"])
async def transport(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    async with request.param() as url:
        yield url


@pytest.fixture
async def outside(transport: str) -> AsyncIterator[Outside]:
    async with speaking(transport) as outside:
        yield outside


@pytest.fixture
def make_fleet(tmp_path: Path, transport: str, outside: Outside) -> Callable[..., Any]:
    @asynccontextmanager
    async def make(
        *,
        remote: Collection[str | RemoteTask] = ("export",),
        lease: timedelta = timedelta(minutes=2),
        fence: Any = "token",
        retry: Any = None,
        register: Callable[..., Any] | None = None,
        over: Any = None,
        **runtime: Any,
    ) -> AsyncIterator[Fleet]:
        beat = Onbeat(
            f"sqlite:///{tmp_path / 'fleet.db'}",
            options=Options(
                runtime=RuntimeOptions(**runtime),
                transport=over or transport,
                remote_tasks=remote,
                remote_lease=lease,
                remote_fence=fence,
                retry=retry or Retry(attempts_max=3, delay=0),
                drain_timeout=timedelta(seconds=5),
            ),
        )
        if register is not None:
            register(beat)
        async with beat:
            yield Fleet(beat, outside)

    return make
