"""Kafka as a broker."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from onbeat.ports.transport import Consumer, Envelope
from onbeat.transports.kafka.admin import TopicAdmin
from onbeat.transports.kafka.config import parse_url
from onbeat.transports.kafka.consumer import KafkaConsumer
from onbeat.transports.kafka.errors import UnknownTopic
from onbeat.transports.kafka.messages import message_of
from onbeat.transports.kafka.publisher import Publisher

DEAD: Final = "onbeat.dead"  # any topic will do for a ping


class KafkaBroker:
    """`kafka://HOST:PORT,HOST:PORT`.

    Options of the URL: `group` (onbeat; all consumers of a queue are members of one group, named
    after this and the topic), `partitions` (12; of a new topic, 0 leaves the creation of topics to
    Kafka), `replication` (Kafka's own), `timeout` (10 s; of a call) and librdkafka's
    own names for some other options, such as `security.protocol` and `sasl.password`.

    Kafka keeps a log and not a set of messages, so it guarantees less than other brokers:

    - A partition is consumed by one consumer at a time. At most as many consumers of a queue have
      work as it has partitions. Messages that a consumer holds go to no other while it lives,
      however long that takes; `extend` does nothing.
    - Acknowledgements count from the start of a partition up to the first unacknowledged message:
      when the partition is reassigned, acknowledged messages after that are delivered again.
    - A new consumer joins the group after a moment, and partitions are reassigned when consumers
      come and go.
    - Messages with one key are received in the order in which they were published.
    - `depth` counts uncommitted messages, and thus those in work. `purge` commits the end offsets;
      while the group has consumers it deletes records instead, which Kafka has to allow.
    """

    def __init__(self, url: str) -> None:
        """Raises `Misconfigured`."""
        self.config = parse_url(url)
        self.admin = TopicAdmin(self.config)
        self.publisher = Publisher(self.config)
        self.consumers: set[KafkaConsumer] = set()

    @property
    def url(self) -> str:
        return self.config.url

    async def open(self) -> None:
        self.admin.open()
        self.publisher.open()

    async def close(self) -> None:
        for consumer in tuple(self.consumers):
            await self.close_consumer(consumer)
        self.publisher.close()
        self.admin.close()

    async def ping(self) -> None:
        await self.admin.run(self.admin.ping, self.config.topic(DEAD))

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        topic = self.config.topic(queue)
        messages = [message_of(envelope, self.config.bytes_max) for envelope in envelopes]
        if not messages:
            return
        await self.admin.run(self.admin.make_known, topic)
        try:
            await self.publisher.send(topic, messages)
        except UnknownTopic:
            self.admin.known.discard(topic)
            raise

    def consumer(self, queue: str, prefetch: int) -> AbstractAsyncContextManager[Consumer]:
        return self.open_consumer(queue, prefetch)

    @asynccontextmanager
    async def open_consumer(self, queue: str, prefetch: int) -> AsyncGenerator[Consumer, None]:
        consumer = KafkaConsumer(self.admin, self.config.topic(queue), prefetch)
        self.consumers.add(consumer)
        try:
            yield consumer
        finally:
            await self.close_consumer(consumer)

    async def close_consumer(self, consumer: KafkaConsumer) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            await consumer.close()

    async def depth(self, queue: str) -> int:
        return await self.admin.run(self.admin.depth, self.config.topic(queue))

    async def purge(self, queue: str) -> None:
        await self.admin.run(self.admin.purge, self.config.topic(queue))
