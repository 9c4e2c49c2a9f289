"""SQS as a broker."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final

from onbeat.ports.transport import Consumer, Envelope
from onbeat.transports.sqs.batch_retry import all_done
from onbeat.transports.sqs.config import parse_url
from onbeat.transports.sqs.connection import Connection
from onbeat.transports.sqs.consumer import SqsConsumer
from onbeat.transports.sqs.errors import NoQueue
from onbeat.transports.sqs.messages import batches_of_ten, message_of
from onbeat.transports.sqs.queues import DEAD, SqsQueues

CLOSE_SLACK: Final = 1  # seconds beyond those of a running poll


class SqsBroker:
    """`sqs://REGION`, with credentials from boto3's usual sources.

    Options of the URL: `endpoint` (of a compatible service), `prefix` (of the name of every queue),
    `visibility` (60 s; how long a message is hidden from others unless it is extended), `wait` (10
    s; the longest poll), `receives` (10; a message received this often goes to the queue
    `onbeat.dead`), `retention` (a day, in seconds) and `timeout` (10 s; of a call).

    Queues are standard queues: order is not kept, and the key of an envelope is not used. An
    existing queue keeps its attributes. `depth` and `purge` are as exact and as fast as in SQS: a
    purge may take a minute, and drop messages published meanwhile. Closing waits for running polls,
    as only they can give back the messages that they may receive.
    """

    def __init__(self, url: str) -> None:
        """Raises `Misconfigured`."""
        self.config = parse_url(url)
        self.connection = Connection(self.config)
        self.queues = SqsQueues(self.connection)
        self.consumers: set[SqsConsumer] = set()
        self.closing_consumers: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return self.config.url

    async def open(self) -> None:
        await self.connection.open()

    async def close(self) -> None:
        for consumer in tuple(self.consumers):
            await self.close_consumer(consumer)
        if self.closing_consumers:
            await asyncio.wait(
                self.closing_consumers, timeout=self.config.wait + self.config.timeout + CLOSE_SLACK
            )
        self.connection.close()

    async def ping(self) -> None:
        with suppress(NoQueue):
            await self.queues.fetch_url(DEAD)

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        messages = [message_of(envelope) for envelope in envelopes]
        if not messages:
            return
        await self.queues.ensure_queue(queue)
        await all_done([self.queues.send(queue, batch) for batch in batches_of_ten(messages)])

    def consumer(self, queue: str, prefetch: int) -> AbstractAsyncContextManager[Consumer]:
        return self.open_consumer(queue, prefetch)

    @asynccontextmanager
    async def open_consumer(self, queue: str, prefetch: int) -> AsyncGenerator[Consumer, None]:
        consumer = SqsConsumer(self.queues, queue, prefetch)
        self.consumers.add(consumer)
        try:
            yield consumer
        finally:
            await self.close_consumer(consumer)

    async def close_consumer(self, consumer: SqsConsumer) -> None:
        if consumer not in self.consumers:
            return
        self.consumers.remove(consumer)
        for poll in consumer.polls:
            self.closing_consumers.add(poll)
            poll.add_done_callback(self.closing_consumers.discard)
        await consumer.close()

    async def depth(self, queue: str) -> int:
        try:
            return await self.queues.depth(queue)
        except NoQueue:
            return 0

    async def purge(self, queue: str) -> None:
        with suppress(NoQueue):
            await self.queues.purge(queue)
