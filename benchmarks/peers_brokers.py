"""The peers on RabbitMQ and Redis, each used as its documentation says, with its best settings.

All peers have one interface: a peer is opened in the sending program, and runs its workers in
processes of its own. Its jobs wait in the broker; it records no outcome, which is faster for it.
Celery acknowledges a job before it runs, which is its default, the others afterwards.
"""

import asyncio
import contextlib
import importlib
import os
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

NAME: Final = "onbeat_bench_brokers"
"""A part of all names of queues and keys, used to find and delete them afterwards."""

Ran = Callable[[int], None]
"""Called by the handler with the job's number."""

Begin = Callable[[], None]
"""Called by a worker that is ready; returns when it may begin."""


class Peer(Protocol):
    """`module` is the imported module of `packages`. `variants` are the tried settings by their
    description; the first is the best. `crew` names the role of each process that drains.
    `queues` and `exchanges` are those created in RabbitMQ.
    """

    name: str
    packages: tuple[str, ...]
    module: str
    variants: dict[str, dict[str, Any]]
    crew: tuple[str, ...]
    queues: tuple[str, ...]
    exchanges: tuple[str, ...]

    def __init__(self, url: str, variant: str) -> None: ...

    def opened(self) -> contextlib.AbstractAsyncContextManager[None]: ...

    async def enqueue(self, n: int) -> None: ...

    async def enqueue_many(self, count: int) -> None:
        """Send jobs with the numbers from 0 on."""
        ...

    async def recorded(self) -> None:
        """Called after all jobs have run. Returns when any outcomes are recorded."""
        ...

    async def check(self, count: int) -> None:
        """Raises unless this number of outcomes is recorded."""
        ...

    def serve(self, role: str, ran: Ran, begin: Begin) -> None:
        """Run one process of the group until it is killed."""
        ...


class Dramatiq:
    """Uses the worker that each process of its command line runs."""

    name = "Dramatiq"
    packages = ("dramatiq", "pika")
    module = "dramatiq.brokers.rabbitmq"
    variants = {
        "8 threads, 1000 prefetched": {"threads": 8, "prefetch": 1_000},
        "8 threads, the default": {"threads": 8, "prefetch": 0},
        "2 threads, 100 prefetched": {"threads": 2, "prefetch": 100},
        "4 threads, 100 prefetched": {"threads": 4, "prefetch": 100},
        "32 threads, 1000 prefetched": {"threads": 32, "prefetch": 1_000},
    }
    crew = ("worker", "worker")
    queues = (NAME, f"{NAME}.DQ", f"{NAME}.XQ")
    exchanges = ()

    def __init__(self, url: str, variant: str) -> None:
        self.url = url
        self.settings = self.variants[variant]

    def declare(self, ran: Ran) -> Any:
        prefetch = str(self.settings["prefetch"])
        os.environ["dramatiq_queue_prefetch"] = prefetch  # noqa: SIM112  it reads this at its import
        import dramatiq
        from dramatiq.brokers.rabbitmq import RabbitmqBroker
        from dramatiq.brokers.redis import RedisBroker

        self.broker = (
            RabbitmqBroker(url=self.url)
            if self.url.startswith("amqp")
            else RedisBroker(url=self.url, namespace=NAME)
        )
        dramatiq.set_broker(self.broker)
        return dramatiq.actor(ran, actor_name="work", queue_name=NAME)

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        self.work = self.declare(nothing)
        try:
            yield
        finally:
            self.broker.close()

    async def enqueue(self, n: int) -> None:
        self.work.send(n)

    async def enqueue_many(self, count: int) -> None:
        """It has no bulk operation."""
        for n in range(count):
            self.work.send(n)

    async def recorded(self) -> None:
        """No outcomes are recorded."""

    async def check(self, count: int) -> None:
        """No outcomes are recorded."""

    def serve(self, role: str, ran: Ran, begin: Begin) -> None:
        self.declare(ran)
        from dramatiq import Worker

        worker = Worker(self.broker, worker_threads=self.settings["threads"])
        begin()
        worker.start()
        threading.Event().wait()


class Celery:
    name = "Celery"
    packages = ("celery", "kombu")
    module = "celery"
    variants = {
        "2 x solo, 100 prefetched": {"pool": "solo", "concurrency": 1, "prefetch": 100},
        "2 x solo, any number prefetched": {"pool": "solo", "concurrency": 1, "prefetch": 0},
        "2 x threads, 4 each": {"pool": "threads", "concurrency": 4, "prefetch": 100},
        "1 x prefork, 2 children": {"pool": "prefork", "concurrency": 2, "prefetch": 100},
        "2 x prefork, 1 child each": {"pool": "prefork", "concurrency": 1, "prefetch": 100},
    }
    queues = (NAME,)
    exchanges = (NAME,)

    def __init__(self, url: str, variant: str) -> None:
        self.url = url
        self.settings = self.variants[variant]
        self.crew = ("worker",) if variant.startswith("1 x") else ("worker", "worker")

    def declare(self, ran: Ran) -> Any:
        import celery

        # It parses a single slash at the end as the virtual host with the empty name.
        slash = "/" if self.url.startswith("amqp") and self.url.endswith("/") else ""
        self.app = celery.Celery(NAME, broker=self.url + slash, set_as_current=False)
        self.app.conf.update(
            task_ignore_result=True,
            task_default_queue=NAME,
            task_default_exchange=NAME,
            task_default_routing_key=NAME,
            worker_prefetch_multiplier=self.settings["prefetch"],
            worker_disable_rate_limits=True,
            worker_enable_remote_control=False,
            worker_redirect_stdouts=False,
            broker_connection_retry_on_startup=True,
        )
        if self.url.startswith("redis"):
            self.app.conf.broker_transport_options = {"global_keyprefix": f"{NAME}:"}
        return self.app.task(ran, name="work", shared=False)

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        from kombu import pools

        self.work = self.declare(nothing)
        try:
            yield
        finally:
            self.app.close()
            # Otherwise the next user of the broker gets a connection that assumes deleted queues.
            pools.reset()

    async def enqueue(self, n: int) -> None:
        self.work.delay(n)

    async def enqueue_many(self, count: int) -> None:
        """It has no bulk operation, so one producer sends all of them."""
        with self.app.producer_or_acquire() as producer:
            for n in range(count):
                self.work.apply_async((n,), producer=producer)

    async def recorded(self) -> None:
        """No outcomes are recorded."""

    async def check(self, count: int) -> None:
        """No outcomes are recorded."""

    def serve(self, role: str, ran: Ran, begin: Begin) -> None:
        self.declare(ran)
        # Otherwise the start would include these imports.
        importlib.import_module("celery.bin.celery")
        importlib.import_module("celery.apps.worker")
        begin()
        self.app.worker_main(
            [
                "--quiet",
                "worker",
                f"--pool={self.settings['pool']}",
                f"--concurrency={self.settings['concurrency']}",
                f"--hostname={os.getpid()}@%h",
                "--loglevel=WARNING",
                "--without-gossip",
                "--without-mingle",
                "--without-heartbeat",
            ]
        )


class Taskiq:
    """Uses the receiver that each process of its command line runs, also on uvloop."""

    name = "taskiq"
    packages = ("taskiq", "taskiq-redis")
    module = "taskiq_redis"
    variants = {
        "streams, 100 at once, 100 prefetched": {
            "kind": "stream",
            "read": 100,
            "tasks": 100,
            "prefetch": 100,
        },
        "streams, 100 at once": {"kind": "stream", "read": 100, "tasks": 100, "prefetch": 0},
        "streams, 1000 at once": {"kind": "stream", "read": 1_000, "tasks": 1_000, "prefetch": 0},
        "list, 100 at once": {"kind": "list", "read": 1, "tasks": 100, "prefetch": 0},
        "list, 100 at once, 100 prefetched": {
            "kind": "list",
            "read": 1,
            "tasks": 100,
            "prefetch": 100,
        },
    }
    crew = ("worker", "worker")
    queues = ()
    exchanges = ()

    def __init__(self, url: str, variant: str) -> None:
        self.url = url
        self.settings = self.variants[variant]

    def declare(self, ran: Ran) -> Any:
        from taskiq_redis import ListQueueBroker, RedisStreamBroker

        self.broker = (
            RedisStreamBroker(
                self.url,
                queue_name=NAME,
                consumer_group_name=NAME,
                xread_count=self.settings["read"],
            )
            if self.settings["kind"] == "stream"
            else ListQueueBroker(self.url, queue_name=NAME)
        )

        @self.broker.task(task_name="work")
        async def work(n: int) -> None:
            ran(n)

        return work

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        self.work = self.declare(nothing)
        await self.broker.startup()
        try:
            yield
        finally:
            await self.broker.shutdown()

    async def enqueue(self, n: int) -> None:
        await self.work.kiq(n)

    async def enqueue_many(self, count: int) -> None:
        """It has no bulk operation, so several are sent at the same time."""
        numbers = iter(range(count))

        async def sender() -> None:
            for n in numbers:
                await self.work.kiq(n)

        await asyncio.gather(*(sender() for _ in range(16)))

    async def recorded(self) -> None:
        """No outcomes are recorded."""

    async def check(self, count: int) -> None:
        """No outcomes are recorded."""

    def serve(self, role: str, ran: Ran, begin: Begin) -> None:
        import uvloop

        self.declare(ran)
        uvloop.run(self.receive(begin))

    async def receive(self, begin: Begin) -> None:
        from taskiq.api import run_receiver_task

        begin()
        await run_receiver_task(
            self.broker,
            validate_params=False,
            max_async_tasks=self.settings["tasks"],
            max_prefetch=self.settings["prefetch"],
            run_startup=True,
        )


def nothing(_n: int) -> None:
    """The handler as declared in the sender."""


ON_RABBITMQ: Final[tuple[type[Peer], ...]] = (Dramatiq, Celery)
ON_REDIS: Final[tuple[type[Peer], ...]] = (Dramatiq, Celery, Taskiq)
