"""Manages topics, and reads a group's offsets without consuming."""

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
from onbeat.transports.kafka.config import KafkaConfig
from onbeat.transports.kafka.connection import EARLIEST, LATEST, admin, consumer
from onbeat.transports.kafka.errors import (
    UNKNOWN_TOPIC,
    AlreadyExists,
    GroupIsActive,
    error_of,
    unavailable,
)

THREADS: Final = 4  # concurrent calls
LOOK_AGAIN_SECONDS: Final = 0.05  # between checks for a topic that was just created
LOOKS: Final = 40
SLACK_SECONDS: Final = 1
AS_THE_BROKER_HAS_IT: Final = -1

Answer = TypeVar("Answer")


class TopicAdmin:
    """Synchronous functions run in threads; they raise `Unavailable` within a few timeouts."""

    def __init__(self, config: KafkaConfig) -> None:
        self.config = config
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="onbeat-kafka")
        self.known: set[str] = set()
        self.closing = threading.Event()
        # The types of librdkafka's admin client lack the content of its results.
        self.admin: Any = None
        self.consumer: Any = None

    def open(self) -> None:
        """Raises `Misconfigured`."""
        self.consumer = consumer(self.config, "", ignore_error)
        self.admin = admin(self.config)

    async def run(self, question: Callable[[str], Answer], topic: str) -> Answer:
        """Run the call within one timeout. Raises `Unavailable`."""
        if self.consumer is None:
            raise Unavailable(f"Kafka {self.config.url} is closed")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.config.timeout + SLACK_SECONDS):
                return await loop.run_in_executor(self.threads, question, topic)
        except TimeoutError as error:
            raise Unavailable(f"Kafka {self.config.url}: it did not answer; try again") from error

    def close(self) -> None:
        self.closing.set()
        self.threads.shutdown(wait=False, cancel_futures=True)
        consumer, self.admin, self.consumer = self.consumer, None, None
        if consumer is not None:
            consumer.close()

    def ping(self, topic: str) -> None:
        """Any topic will do; this client creates none."""
        self.list_topic(self.consumer, topic)

    def make_known(self, topic: str) -> None:
        """Creates the topic unless it exists."""
        if topic in self.known:
            return
        if not self.partitions(topic):
            self.make(topic)
        self.known.add(topic)

    def partitions(self, topic: str) -> list[int]:
        """Empty for a topic that does not exist."""
        result = self.list_topic(self.consumer, topic)
        if result.error is not None and result.error.code() in UNKNOWN_TOPIC:
            return []
        self.raise_error(result.error)
        return sorted(result.partitions)

    def make(self, topic: str) -> None:
        if self.config.partitions:
            self.create(topic)
        else:
            # A metadata request of this client creates the topic, if the broker is configured so.
            self.list_topic(self.admin, topic)
        for _ in range(LOOKS):
            if self.partitions(topic):
                return
            self.closing.wait(LOOK_AGAIN_SECONDS)
        raise Unavailable(
            f"Kafka {self.config.url} has no topic {topic} and makes none by itself;"
            " make it, or let partitions say how many a new one gets"
        )

    def create(self, topic: str) -> None:
        replication = self.config.replication or AS_THE_BROKER_HAS_IT
        request = [NewTopic(topic, self.config.partitions, replication)]
        answer = self.admin.create_topics(request, request_timeout=self.config.timeout)
        with suppress(AlreadyExists):
            self.result(answer[topic])

    def depth(self, topic: str) -> int:
        """Messages that the group has not consumed or not committed."""
        return sum(end - start for start, end in self.uncommitted_ranges(topic).values())

    def uncommitted_ranges(self, topic: str) -> dict[int, tuple[int, int]]:
        """From the committed offset to the end, by partition."""
        places = [TopicPartition(topic, partition) for partition in self.partitions(topic)]
        if not places:
            return {}
        stands = self.committed_offsets(topic, places)
        firsts = self.offsets(places, EARLIEST)
        ends = self.offsets(places, LATEST)
        return {
            number: (min(end, max(firsts[number], stands[number])), end)
            for number, end in ends.items()
        }

    def committed_offsets(self, topic: str, places: list[TopicPartition]) -> dict[int, int]:
        """The committed offsets; below 0 if there is none yet."""
        group = self.config.group_of(topic)
        request = [ConsumerGroupTopicPartitions(group, places)]
        answer = self.admin.list_consumer_group_offsets(
            request, request_timeout=self.config.timeout
        )
        result = self.result(answer[group]).topic_partitions
        for one in result:
            self.raise_error(one.error)
        return {one.partition: one.offset for one in result}

    def offsets(self, places: list[TopicPartition], spec: Any) -> dict[int, int]:
        request = dict.fromkeys(places, spec)
        answer = self.admin.list_offsets(request, request_timeout=self.config.timeout)
        return {config.partition: self.result(one).offset for config, one in answer.items()}

    def purge(self, topic: str) -> None:
        """Commits the end offsets; deletes the records instead while the group has consumers."""
        ends = [
            TopicPartition(topic, partition, end)
            for partition, (start, end) in self.uncommitted_ranges(topic).items()
            if start < end
        ]
        if not ends:
            return
        try:
            self.commit_to(topic, ends)
        except GroupIsActive:
            self.delete(ends)

    def commit_to(self, topic: str, places: list[TopicPartition]) -> None:
        group = self.config.group_of(topic)
        request = [ConsumerGroupTopicPartitions(group, places)]
        answer = self.admin.alter_consumer_group_offsets(
            request, request_timeout=self.config.timeout
        )
        for topic_partition in self.result(answer[group]).topic_partitions:
            self.raise_error(topic_partition.error)

    def delete(self, places: list[TopicPartition]) -> None:
        """Deletes all records before these offsets."""
        answer = self.admin.delete_records(places, request_timeout=self.config.timeout)
        for one in answer.values():
            self.result(one)

    def result(self, future: Any) -> Any:
        try:
            return future.result(self.config.timeout + SLACK_SECONDS)
        except KafkaException as raised:
            raise unavailable(error_of(raised), self.config.url) from raised
        except TimeoutError as late:
            raise Unavailable(f"Kafka {self.config.url}: it did not answer; try again") from late

    def raise_error(self, error: KafkaError | None) -> None:
        if error is not None:
            raise unavailable(error, self.config.url)

    def list_topic(self, client: Any, topic: str) -> Any:
        try:
            return client.list_topics(topic, self.config.timeout).topics[topic]
        except KafkaException as raised:
            raise unavailable(error_of(raised), self.config.url) from raised


def ignore_error(_error: KafkaError) -> None:
    """Ignored here: the caller receives the error as the result of its call."""
