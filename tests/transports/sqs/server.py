"""A server that speaks SQS, and a line to it that can be cut."""

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from moto.server import ThreadedMotoServer
from moto.sqs import models

KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def moto() -> Iterator[int]:
    """The port of a server; boto3 finds keys for it as long as it runs."""
    theirs: Any = models
    # At each message moto looks at all others, by a slow clock: a thousand would take a minute.
    theirs.SQSBackend.is_message_valid_based_on_retention_period = is_young
    theirs.unix_time_millis = lambda: time.time() * 1_000
    # Its threads change what this reads, and it answers 500 then.
    theirs.Queue.pending_message_groups = property(pending_groups)
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line for every call
    kept = {name: os.environ.get(name) for name in KEYS}
    os.environ.update(KEYS)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield server.get_host_and_port()[1]
    finally:
        server.stop()
        for name, value in kept.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def is_young(backend: Any, queue: str, message: Any) -> bool:
    retained = backend.get_queue(queue).message_retention_period
    return bool(message.sent_timestamp / 1_000 + retained > time.time())


def pending_groups(queue: Any) -> set[str]:
    messages = tuple(queue.pending_messages)
    return {message.group_id for message in messages if message.group_id is not None}


def url(port: int, **options: object) -> str:
    query = "".join(f"&{name}={value}" for name, value in options.items())
    return f"sqs://eu-central-1?endpoint=http://127.0.0.1:{port}{query}"


class SqsLink:
    """A way to a port of this machine, through a port of its own."""

    def __init__(self, port: int) -> None:
        self.far = port
        self.port = 0
        self.server: asyncio.Server | None = None
        self.carrying: set[asyncio.Task[None]] = set()

    async def reconnect(self) -> None:
        if self.server is None:
            self.server = await asyncio.start_server(self.carry, "127.0.0.1", self.port)
            self.port = self.server.sockets[0].getsockname()[1]

    async def disconnect(self) -> None:
        if self.server is not None:
            self.server.close()
            self.server = None
        for task in tuple(self.carrying):
            task.cancel()
        await asyncio.gather(*self.carrying, return_exceptions=True)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.carrying.add(task)
        with suppress(OSError, asyncio.CancelledError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.far)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(pump(reader, far_writer))
                    tasks.create_task(pump(far_reader, writer))
            finally:
                far_writer.close()
        self.carrying.discard(task)
        writer.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
