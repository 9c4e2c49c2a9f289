"""The back office as an operator runs it: its processes by role, and its commands."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import aio_pika

from world import World

PATIENCE: Final = 60
BROKER: Final = os.environ.get("ONBEAT_TEST_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/")
QUEUES: Final = ("failed_payments", "billing_tasks", "billing_tasks.dead", "onbeat.dead")


def eventually(condition: Callable[[], Any], what: str = "it") -> Any:
    """The first answer that is true."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{what} does not happen"
        time.sleep(0.05)
    return answer


class Broker:
    """Queues of our own on RabbitMQ, by a prefix."""

    def __init__(self, server: str = BROKER) -> None:
        self.server = server
        self.prefix = f"t{uuid4().hex[:10]}."
        self.url = f"{server}?prefix={self.prefix}"

    async def declare(self, queue: str) -> None:
        """As the publishers of the old system do."""
        async with await aio_pika.connect(self.server) as connection:
            await (await connection.channel()).declare_queue(self.prefix + queue, durable=True)

    async def send(self, queue: str, body: bytes) -> None:
        """As the publishers of the old system do: without an id, persistent."""
        async with await aio_pika.connect(self.server) as connection:
            channel = await connection.channel()
            message = aio_pika.Message(body, delivery_mode=2)
            await channel.default_exchange.publish(message, self.prefix + queue)

    async def take(self, queue: str) -> list[aio_pika.abc.AbstractIncomingMessage]:
        """All messages that are there; none if the queue is not."""
        taken: list[aio_pika.abc.AbstractIncomingMessage] = []
        async with await aio_pika.connect(self.server) as connection:
            channel = await connection.channel()
            try:
                found = await channel.get_queue(self.prefix + queue)
            except aio_pika.exceptions.ChannelNotFoundEntity:
                return []
            while (message := await found.get(fail=False, no_ack=True)) is not None:
                taken.append(message)
        return taken

    async def close(self) -> None:
        async with await aio_pika.connect(self.server) as connection:
            channel = await connection.channel()
            for queue in QUEUES:
                await channel.queue_delete(self.prefix + queue)
            await channel.exchange_delete(f"{self.prefix}onbeat.dlx")


def variables(world: World, broker: Broker, **more: str) -> dict[str, str]:
    """The environment of each process of one back office."""
    parts = urlsplit(world.url)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "USE_DOTENV": "off",
        "DB_HOST": parts.hostname or "127.0.0.1",
        "DB_PORT": str(parts.port or 3306),
        "DB_USER": parts.username or "root",
        "DB_PASS": parts.password or "",
        "DB_NAME": parts.path.strip("/"),
        "QUEUE_URL": broker.url,
        "ONBEAT_LOG__FORMAT": "json",
        "ONBEAT_WORKER__LEASE": "2s",
        **more,
    }


def command(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "backoffice", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def free_port() -> str:
    """Below those that the system gives to connections, of which one may take it at a restart."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return str(port)


class Process:
    """`backoffice up` in one role, with its log in a file."""

    def __init__(self, environment: Mapping[str, str], role: str, log: Path) -> None:
        self.role = role
        self.log = log
        self.begin = log.stat().st_size if log.exists() else 0
        with log.open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "backoffice", "up", "--port", free_port()],
                env={**environment, "RUN_AS": role},
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def is_ready(self) -> bool:
        return self.is_running and '"ready"' in self.text()

    def ready(self) -> "Process":
        eventually(lambda: self.is_ready or not self.is_running, "a start")
        assert self.is_running, self.text()
        return self

    def text(self) -> str:
        """What it has logged."""
        return self.log.read_bytes()[self.begin :].decode()

    def kill(self) -> None:
        """At once, with all that it has started."""
        if self.is_running:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def running(environment: Mapping[str, str], folder: Path, *roles: str) -> Iterator[list[Process]]:
    """One process for each of `roles`, all ready; they drain at the end."""
    started = [
        Process(environment, role, folder / f"{role}-{number}.log")
        for number, role in enumerate(roles)
    ]
    try:
        for each in started:
            each.ready()
        yield started
        codes = [each.stop() for each in started if each.is_running]
        assert codes == [0] * len(codes)
    finally:
        for each in started:
            each.kill()
