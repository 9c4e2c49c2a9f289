"""Kafka as a broker."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from onbeat.ports.transport import Envelope, Inbox
from onbeat.transports.kafka.clerk import Clerk
from onbeat.transports.kafka.faults import UnknownTopic
from onbeat.transports.kafka.inbox import KafkaInbox
from onbeat.transports.kafka.letters import letter_of
from onbeat.transports.kafka.place import read_place
from onbeat.transports.kafka.sender import Sender

DEAD: Final = "onbeat.dead"  # a topic as good as any to ask about


class KafkaBroker:
    """`kafka://HOST:PORT,HOST:PORT`.

    Options of the URL: `group` (onbeat; all inboxes of a queue are members of one group, which has
    this name and the topic's), `partitions` (12; of a topic that is made, 0 leaves making topics to
    Kafka), `replication` (Kafka's own), `timeout` (10 s; of a call) and, by the names that
    librdkafka gives them, what `place` lists, such as `security.protocol` and `sasl.password`.

    Kafka keeps an order, not a set of messages, and so it promises less than others:

    - A partition is consumed by one inbox at a time. At most as many inboxes of a queue have work
      as it has partitions, and what an inbox holds goes to no other while it lives, however long
      that takes; `extend` does nothing.
    - What is acknowledged counts from the start of its partition up to the first message that is
      not: when the partition changes hands, what was acknowledged behind that comes again.
    - An inbox takes its place in the group when it has been there for a moment, and inboxes that
      come and go let partitions change hands.
    - Messages of one key are received in the order in which they were published.
    - `depth` is what the group has not been said to be done with, so it counts what is being
      worked on. `purge` says that the group has come to the end; while inboxes are open it deletes
      instead, which Kafka has to allow.
    """

    def __init__(self, url: str) -> None:
        """Raises `Misconfigured`."""
        self.place = read_place(url)
        self.clerk = Clerk(self.place)
        self.sender = Sender(self.place)
        self.inboxes: set[KafkaInbox] = set()

    @property
    def url(self) -> str:
        return self.place.url

    async def open(self) -> None:
        self.clerk.open()
        self.sender.open()

    async def close(self) -> None:
        for inbox in tuple(self.inboxes):
            await self.leave(inbox)
        self.sender.close()
        self.clerk.close()

    async def ping(self) -> None:
        await self.clerk.ask(self.clerk.ping, self.place.topic(DEAD))

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        topic = self.place.topic(queue)
        letters = [letter_of(envelope, self.place.bytes_max) for envelope in envelopes]
        if not letters:
            return
        await self.clerk.ask(self.clerk.make_known, topic)
        try:
            await self.sender.send(topic, letters)
        except UnknownTopic:
            self.clerk.known.discard(topic)
            raise

    def inbox(self, queue: str, prefetch: int) -> AbstractAsyncContextManager[Inbox]:
        return self.entered(queue, prefetch)

    @asynccontextmanager
    async def entered(self, queue: str, prefetch: int) -> AsyncGenerator[Inbox, None]:
        inbox = KafkaInbox(self.clerk, self.place.topic(queue), prefetch)
        self.inboxes.add(inbox)
        try:
            yield inbox
        finally:
            await self.leave(inbox)

    async def leave(self, inbox: KafkaInbox) -> None:
        if inbox in self.inboxes:
            self.inboxes.remove(inbox)
            await inbox.leave()

    async def depth(self, queue: str) -> int:
        return await self.clerk.ask(self.clerk.depth, self.place.topic(queue))

    async def purge(self, queue: str) -> None:
        await self.clerk.ask(self.clerk.purge, self.place.topic(queue))
