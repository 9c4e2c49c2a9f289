"""Asks Kafka about topics and how far a group has come, without consuming."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.cimpl import NewTopic

from onbeat.model.errors import Unavailable
from onbeat.transports.kafka.clients import EARLIEST, LATEST, admin, consumer
from onbeat.transports.kafka.faults import (
    UNKNOWN_TOPIC,
    Exists,
    GroupLives,
    error_of,
    unavailable,
)
from onbeat.transports.kafka.place import Place

THREADS: Final = 4  # questions at once
LOOK_AGAIN_SECONDS: Final = 0.05  # at a topic that was made just now
LOOKS: Final = 40
SLACK_SECONDS: Final = 1
AS_THE_BROKER_HAS_IT: Final = -1

Answer = TypeVar("Answer")


class Clerk:
    """Plain functions are for threads; they raise `Unavailable` within a few timeouts."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="onbeat-kafka")
        self.known: set[str] = set()
        self.closing = threading.Event()
        # The types of librdkafka's administrator leave out what its answers hold.
        self.admin: Any = None
        self.consumer: Any = None

    def open(self) -> None:
        """Raises `Misconfigured`."""
        self.consumer = consumer(self.place, "", no_matter)
        self.admin = admin(self.place)

    async def ask(self, question: Callable[[str], Answer], topic: str) -> Answer:
        """Within one timeout. Raises `Unavailable`."""
        if self.consumer is None:
            raise Unavailable(f"Kafka {self.place.url} is closed")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.place.timeout + SLACK_SECONDS):
                return await loop.run_in_executor(self.threads, question, topic)
        except TimeoutError as error:
            raise Unavailable(f"Kafka {self.place.url}: it did not answer; try again") from error

    def close(self) -> None:
        self.closing.set()
        self.threads.shutdown(wait=False, cancel_futures=True)
        consumer, self.admin, self.consumer = self.consumer, None, None
        if consumer is not None:
            consumer.close()

    def ping(self, topic: str) -> None:
        """Any topic will do; this client makes none."""
        self.listed(self.consumer, topic)

    def make_known(self, topic: str) -> None:
        """Makes the topic, unless it is there."""
        if topic in self.known:
            return
        if not self.partitions(topic):
            self.make(topic)
        self.known.add(topic)

    def partitions(self, topic: str) -> list[int]:
        """None of them for a topic that is not there."""
        found = self.listed(self.consumer, topic)
        if found.error is not None and found.error.code() in UNKNOWN_TOPIC:
            return []
        self.raise_error(found.error)
        return sorted(found.partitions)

    def make(self, topic: str) -> None:
        if self.place.partitions:
            self.create(topic)
        else:
            # To ask as this kind of client is to have it made, where the broker does that.
            self.listed(self.admin, topic)
        for _ in range(LOOKS):
            if self.partitions(topic):
                return
            self.closing.wait(LOOK_AGAIN_SECONDS)
        raise Unavailable(
            f"Kafka {self.place.url} has no topic {topic} and makes none by itself;"
            " make it, or let partitions say how many a new one gets"
        )

    def create(self, topic: str) -> None:
        replication = self.place.replication or AS_THE_BROKER_HAS_IT
        asked = [NewTopic(topic, self.place.partitions, replication)]
        answer = self.admin.create_topics(asked, request_timeout=self.place.timeout)
        with suppress(Exists):
            self.result(answer[topic])

    def depth(self, topic: str) -> int:
        """Messages that the group has not come to yet, or not done with."""
        return sum(end - start for start, end in self.spans(topic).values())

    def spans(self, topic: str) -> dict[int, tuple[int, int]]:
        """From where the group stands to the end, by partition."""
        places = [TopicPartition(topic, partition) for partition in self.partitions(topic)]
        if not places:
            return {}
        stands = self.stands(topic, places)
        firsts = self.offsets(places, EARLIEST)
        ends = self.offsets(places, LATEST)
        return {
            number: (min(end, max(firsts[number], stands[number])), end)
            for number, end in ends.items()
        }

    def stands(self, topic: str, places: list[TopicPartition]) -> dict[int, int]:
        """Where the group stands; below 0 where it has not said so yet."""
        group = self.place.group_of(topic)
        asked = [ConsumerGroupTopicPartitions(group, places)]
        answer = self.admin.list_consumer_group_offsets(asked, request_timeout=self.place.timeout)
        found = self.result(answer[group]).topic_partitions
        for one in found:
            self.raise_error(one.error)
        return {one.partition: one.offset for one in found}

    def offsets(self, places: list[TopicPartition], spec: Any) -> dict[int, int]:
        asked = dict.fromkeys(places, spec)
        answer = self.admin.list_offsets(asked, request_timeout=self.place.timeout)
        return {place.partition: self.result(one).offset for place, one in answer.items()}

    def purge(self, topic: str) -> None:
        """Says that the group has come to the end; where workers consume as this group, deletes."""
        ends = [
            TopicPartition(topic, partition, end)
            for partition, (start, end) in self.spans(topic).items()
            if start < end
        ]
        if not ends:
            return
        try:
            self.move(topic, ends)
        except GroupLives:
            self.delete(ends)

    def move(self, topic: str, places: list[TopicPartition]) -> None:
        group = self.place.group_of(topic)
        asked = [ConsumerGroupTopicPartitions(group, places)]
        answer = self.admin.alter_consumer_group_offsets(asked, request_timeout=self.place.timeout)
        for one in self.result(answer[group]).topic_partitions:
            self.raise_error(one.error)

    def delete(self, places: list[TopicPartition]) -> None:
        """All that stands before these."""
        answer = self.admin.delete_records(places, request_timeout=self.place.timeout)
        for one in answer.values():
            self.result(one)

    def result(self, future: Any) -> Any:
        try:
            return future.result(self.place.timeout + SLACK_SECONDS)
        except KafkaException as raised:
            raise unavailable(error_of(raised), self.place.url) from raised
        except TimeoutError as late:
            raise Unavailable(f"Kafka {self.place.url}: it did not answer; try again") from late

    def raise_error(self, error: KafkaError | None) -> None:
        if error is not None:
            raise unavailable(error, self.place.url)

    def listed(self, client: Any, topic: str) -> Any:
        try:
            return client.list_topics(topic, self.place.timeout).topics[topic]
        except KafkaException as raised:
            raise unavailable(error_of(raised), self.place.url) from raised


def no_matter(_error: KafkaError) -> None:
    """Who asks gets the error as the answer."""
