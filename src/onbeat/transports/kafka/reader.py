"""The thread that consumes one topic as a member of the group."""

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Delivery
from onbeat.transports.kafka.clerk import Clerk
from onbeat.transports.kafka.clients import consumer
from onbeat.transports.kafka.faults import UNKNOWN_TOPIC, error_of, unavailable
from onbeat.transports.kafka.ledger import Ledger, Receipt
from onbeat.transports.kafka.letters import content_of

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.1  # how late at most it notices that it is to commit, or to stop
# A pause throws away what was fetched; one that ends sooner than this is not worth it.
PAUSE_AFTER_SECONDS: Final = 0.2
PROBE_SECONDS: Final = 0.5  # which it takes while Kafka is away, so it comes no more often
AGAIN_SECONDS: Final = 0.5  # after a failure

Take = Callable[[Sequence[Delivery]], None]
Fail = Callable[[Unavailable], None]


class Reader:
    """Its plain attributes belong to its thread; `ledger` and `away` are shared, under `lock`.

    `take` and `fail` are called in its thread.
    """

    def __init__(self, clerk: Clerk, topic: str, prefetch: int, take: Take, fail: Fail) -> None:
        self.clerk = clerk
        self.topic = topic
        self.prefetch = prefetch
        self.take = take
        self.fail = fail
        self.lock = threading.Lock()
        self.ledger = Ledger()
        self.away: Unavailable | None = None
        self.stopping = threading.Event()
        self.roomy = threading.Event()
        self.paused = False
        self.fatal = False

    def run(self) -> None:
        """Until it is told to stop; a consumer that can go on no more is followed by another."""
        while not self.stopping.is_set():
            try:
                self.clerk.make_known(self.topic)
                self.consume()
            except Unavailable as error:
                self.fail(error)
            except KafkaException as raised:
                self.fail(unavailable(error_of(raised), self.clerk.place.url))
            self.stopping.wait(AGAIN_SECONDS)

    def finish(self, receipts: Sequence[Receipt]) -> None:
        """From any thread."""
        with self.lock:
            self.ledger.finish(receipts)
        self.roomy.set()

    def held(self, receipt: Receipt) -> bool:
        """From any thread."""
        with self.lock:
            return self.ledger.holds(receipt)

    def stop(self) -> None:
        """From any thread; returns before it has stopped."""
        self.stopping.set()
        self.roomy.set()

    def consume(self) -> None:
        self.fatal = self.paused = False
        client = consumer(self.clerk.place, self.topic, self.note_error, self.note_commit)
        try:
            client.subscribe(
                [self.topic], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost
            )
            while not (self.stopping.is_set() or self.fatal):
                self.step(client)
        finally:
            client.close()
            with self.lock:
                self.ledger.revoke(tuple(self.ledger.lines))

    def step(self, client: Consumer) -> None:
        self.commit(client)
        room = self.room()
        if room > 0:
            self.resume(client)
            self.fetch(client, room)
        else:
            self.wait_for_room(client)
        self.probe(client)

    def room(self) -> int:
        with self.lock:
            self.roomy.clear()
            return self.prefetch - self.ledger.outstanding()

    def fetch(self, client: Consumer, room: int) -> None:
        first = client.poll(POLL_SECONDS)
        if first is None:
            return
        rest = client.consume(room - 1, 0) if room > 1 else []
        self.sort([first, *rest])

    def wait_for_room(self, client: Consumer) -> None:
        if self.roomy.wait(PAUSE_AFTER_SECONDS):
            return
        # Even a full consumer polls, or the group would wait for it and then go on without it.
        # Partitions that it is given meanwhile are paused with the others.
        client.pause(client.assignment())
        self.paused = True
        if (unasked := client.poll(0)) is not None:
            self.sort([unasked])

    def resume(self, client: Consumer) -> None:
        if self.paused:
            client.resume(client.assignment())
            self.paused = False

    def sort(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if (error := message.error()) is not None:
                self.note_message_error(error)
        found = [message for message in messages if message.error() is None]
        if not found:
            return
        with self.lock:
            deliveries = [self.delivery_of(message) for message in found]
            self.away = None
        self.take([delivery for delivery in deliveries if delivery is not None])

    def delivery_of(self, message: Message) -> Delivery | None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        receipt = self.ledger.hand_out(partition, offset)
        if receipt is None:
            return None
        body, headers, id = content_of(message)
        return Delivery(body=body, headers=headers, receipt=receipt, id=id)

    def note_message_error(self, error: KafkaError) -> None:
        if error.code() in UNKNOWN_TOPIC:
            self.clerk.known.discard(self.topic)
            self.fatal = True
        self.fail(unavailable(error, self.clerk.place.url))

    def note_error(self, error: Any) -> None:
        """What librdkafka tells beside the messages; single connections may fail without harm."""
        self.fatal = self.fatal or error.fatal()
        if error.fatal():
            self.fail(unavailable(error, self.clerk.place.url))
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self.away is None:  # noqa: SLF001  so named by librdkafka
            with self.lock:
                self.away = unavailable(error, self.clerk.place.url)
            log.warning("%s; its consumers wait for it", self.away)

    def probe(self, client: Consumer) -> None:
        """Looks whether Kafka is back, for it may have nothing to send."""
        if self.away is None:
            return
        try:
            client.list_topics(self.topic, PROBE_SECONDS)
        except KafkaException:
            return
        with self.lock:
            self.away = None
        log.info("Kafka %s is back", self.clerk.place.url)

    def assigned(self, _client: Consumer, partitions: Sequence[TopicPartition]) -> None:
        with self.lock:
            self.ledger.assign(one.partition for one in partitions)

    def revoked(self, client: Consumer, partitions: Sequence[TopicPartition]) -> None:
        numbers = {one.partition for one in partitions}
        self.commit(client, numbers)
        self.forget(numbers)

    def lost(self, _client: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Others have them already, so it says nothing of them any more."""
        self.forget({one.partition for one in partitions})

    def forget(self, partitions: Collection[int]) -> None:
        with self.lock:
            self.ledger.revoke(partitions)

    def commit(self, client: Consumer, partitions: Collection[int] | None = None) -> None:
        """Tells Kafka how far the group has come, where that is news. What is told goes out before
        anything that this consumer says later, so nobody has to wait for the answer.
        """
        with self.lock:
            news = self.ledger.news(partitions)
        if not news:
            return
        places = [TopicPartition(self.topic, number, offset) for number, offset in news.items()]
        try:
            client.commit(offsets=places, asynchronous=True)
        except KafkaException as raised:
            self.note_commit(error_of(raised), places)

    def note_commit(self, error: Any, places: Sequence[TopicPartition]) -> None:
        failed = [one.partition for one in places if error is not None or one.error is not None]
        with self.lock:
            self.ledger.not_told(failed)
