"""The thread that consumes one topic as a member of the group."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Delivery
from onbeat.transports.kafka.admin import TopicAdmin
from onbeat.transports.kafka.connection import consumer
from onbeat.transports.kafka.errors import UNKNOWN_TOPIC, error_of, unavailable
from onbeat.transports.kafka.messages import content_of
from onbeat.transports.kafka.offsets import OffsetTracker, Receipt

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.1  # the delay at most until it notices a commit or a stop
# A pause discards fetched messages, so it is not worth it for a shorter time.
PAUSE_AFTER_SECONDS: Final = 0.2
PROBE_SECONDS: Final = 0.5  # duration, and thus interval, of probes while Kafka is unavailable
AGAIN_SECONDS: Final = 0.5  # after a failure
LAST_COMMITS: Final = 50  # with a poll after each; a longer rebalance causes a second delivery

Take = Callable[[Sequence[Delivery]], None]
Fail = Callable[[Unavailable], None]


class TopicReader:
    """Attributes belong to its thread, except `offsets` and `away`, which are shared under `lock`.

    `take` and `fail` are called in its thread.
    """

    def __init__(
        self, admin: TopicAdmin, topic: str, prefetch: int, take: Take, fail: Fail
    ) -> None:
        self.admin = admin
        self.topic = topic
        self.prefetch = prefetch
        self.take = take
        self.fail = fail
        self.lock = threading.Lock()
        self.offsets = OffsetTracker()
        self.away: Unavailable | None = None
        self.stopping = threading.Event()
        self.has_room = threading.Event()
        self.paused = False
        self.fatal = False

    def run(self) -> None:
        """Run until stopped; a consumer that fails permanently is replaced."""
        while not self.stopping.is_set():
            try:
                self.admin.make_known(self.topic)
                self.consume()
            except Unavailable as error:
                self.fail(error)
            except KafkaException as raised:
                self.fail(unavailable(error_of(raised), self.admin.config.url))
            self.stopping.wait(AGAIN_SECONDS)

    def finish(self, receipts: Sequence[Receipt]) -> None:
        """Thread-safe."""
        with self.lock:
            self.offsets.finish(receipts)
        self.has_room.set()

    def is_held(self, receipt: Receipt) -> bool:
        """Thread-safe."""
        with self.lock:
            return self.offsets.holds(receipt)

    def stop(self) -> None:
        """Thread-safe; returns before the reader has stopped."""
        self.stopping.set()
        self.has_room.set()

    def consume(self) -> None:
        self.fatal = self.paused = False
        client = consumer(self.admin.config, self.topic, self.note_error, self.note_commit)
        try:
            client.subscribe(
                [self.topic],
                on_assign=self.on_assign,
                on_revoke=self.on_revoke,
                on_lost=self.on_lost,
            )
            while not (self.stopping.is_set() or self.fatal):
                self.step(client)
            self.commit_finally(client)
        finally:
            client.close()
            with self.lock:
                self.offsets.revoke(tuple(self.offsets.partitions))

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
            self.has_room.clear()
            return self.prefetch - self.offsets.outstanding()

    def fetch(self, client: Consumer, room: int) -> None:
        first = client.poll(POLL_SECONDS)
        if first is None:
            return
        rest = client.consume(room - 1, 0) if room > 1 else []
        self.sort([first, *rest])

    def wait_for_room(self, client: Consumer) -> None:
        if self.has_room.wait(PAUSE_AFTER_SECONDS):
            return
        # A full consumer still has to poll, or the group would exclude it. Partitions assigned
        # meanwhile are paused as well.
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
        result = [message for message in messages if message.error() is None]
        if not result:
            return
        with self.lock:
            deliveries = [self.delivery_of(message) for message in result]
            self.away = None
        self.take([delivery for delivery in deliveries if delivery is not None])

    def delivery_of(self, message: Message) -> Delivery | None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        receipt = self.offsets.hand_out(partition, offset)
        if receipt is None:
            return None
        body, headers, id = content_of(message)
        return Delivery(body=body, headers=headers, receipt=receipt, id=id)

    def note_message_error(self, error: KafkaError) -> None:
        if error.code() in UNKNOWN_TOPIC:
            self.admin.known.discard(self.topic)
            self.fatal = True
        self.fail(unavailable(error, self.admin.config.url))

    def note_error(self, error: Any) -> None:
        """A global error of librdkafka; failures of single connections may be harmless."""
        self.fatal = self.fatal or error.fatal()
        if error.fatal():
            self.fail(unavailable(error, self.admin.config.url))
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self.away is None:  # noqa: SLF001  so named by librdkafka
            with self.lock:
                self.away = unavailable(error, self.admin.config.url)
            log.warning("%s; its consumers wait for it", self.away)

    def probe(self, client: Consumer) -> None:
        """Checks whether Kafka is available again, since it may have no messages to send."""
        if self.away is None:
            return
        try:
            client.list_topics(self.topic, PROBE_SECONDS)
        except KafkaException:
            return
        with self.lock:
            self.away = None
        log.info("Kafka %s is back", self.admin.config.url)

    def on_assign(self, _client: Consumer, partitions: Sequence[TopicPartition]) -> None:
        with self.lock:
            self.offsets.assign(partition.partition for partition in partitions)

    def on_revoke(self, client: Consumer, partitions: Sequence[TopicPartition]) -> None:
        numbers = {partition.partition for partition in partitions}
        self.commit(client, numbers)
        self.forget(numbers)

    def on_lost(self, _client: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """The partitions already belong to others, so nothing is committed."""
        self.forget({partition.partition for partition in partitions})

    def forget(self, partitions: Collection[int]) -> None:
        with self.lock:
            self.offsets.revoke(partitions)

    def commit(self, client: Consumer, partitions: Collection[int] | None = None) -> None:
        """Commits positions that have changed.

        The commit is sent before any later request of this consumer, so its result is not awaited.
        """
        with self.lock:
            news = self.offsets.unreported_positions(partitions)
        if not news:
            return
        places = self.places(news)
        try:
            client.commit(offsets=places, asynchronous=True)
        except KafkaException as raised:
            self.note_commit(error_of(raised), places)

    def commit_finally(self, client: Consumer) -> None:
        """Waits until Kafka accepts the commit, which it refuses during a rebalance."""
        if self.away is not None or self.fatal:
            return
        client.pause(client.assignment())
        for _ in range(LAST_COMMITS):
            with self.lock:
                self.offsets.forget_report(tuple(self.offsets.partitions))
                positions = self.offsets.unreported_positions()
            if not positions or self.is_committed(client, positions):
                return
            client.poll(POLL_SECONDS)  # takes part in the rebalance

    def is_committed(self, client: Consumer, positions: Mapping[int, int]) -> bool:
        try:
            client.commit(offsets=self.places(positions), asynchronous=False)
        except KafkaException:
            return False
        return True

    def places(self, positions: Mapping[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self.topic, *position) for position in positions.items()]

    def note_commit(self, error: Any, places: Sequence[TopicPartition]) -> None:
        failed = [
            place.partition for place in places if error is not None or place.error is not None
        ]
        with self.lock:
            self.offsets.forget_report(failed)
