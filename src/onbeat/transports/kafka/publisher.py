"""Publishes messages, and waits for Kafka's confirmations."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from onbeat.model.errors import TooLarge, Unavailable
from onbeat.transports.kafka.config import KafkaConfig
from onbeat.transports.kafka.connection import producer
from onbeat.transports.kafka.errors import TOO_LARGE, error_of, unavailable
from onbeat.transports.kafka.messages import OutgoingMessage

log = logging.getLogger(__name__)

THREADS: Final = 2
POLL_SECONDS: Final = 0.2
FULL_PAUSE_SECONDS: Final = 0.01
SLACK_SECONDS: Final = 2  # librdkafka checks once per second for messages not confirmed in time


class DeliveryReport:
    """The confirmations of one publish; called by the thread that polls."""

    def __init__(self, count: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.left = count
        self.confirmed: asyncio.Future[KafkaError | None] = self.loop.create_future()

    def note(self, error: KafkaError | None, _message: Message) -> None:
        self.left -= 1
        if error is not None or self.left == 0:
            with suppress(RuntimeError):  # the loop is closed, and nothing waits
                self.loop.call_soon_threadsafe(self.finish, error)

    def finish(self, error: KafkaError | None) -> None:
        if not self.confirmed.done():
            self.confirmed.set_result(error)


class Publisher:
    def __init__(self, config: KafkaConfig) -> None:
        self.config = config
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="onbeat-kafka-send")
        self.producer: Producer | None = None
        self.fatal = False
        self.closing = threading.Event()

    def open(self) -> None:
        """Raises `Misconfigured`."""
        self.producer = opened = producer(self.config, self.note_error)
        self.fatal = False
        threading.Thread(
            target=self.poll_forever, args=[opened], name="onbeat-kafka-confirm", daemon=True
        ).start()

    def poll_forever(self, opened: Producer) -> None:
        """Polls until another producer replaces this one, then reports its remaining messages."""
        while self.producer is opened:
            try:
                opened.poll(POLL_SECONDS)
            except KafkaException as raised:  # raised when the producer cannot continue
                self.note_error(error_of(raised))
        opened.purge()
        opened.flush(SLACK_SECONDS)

    def note_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = True
            log.warning("%s; another producer follows", unavailable(error, self.config.url))

    async def send(self, topic: str, messages: Sequence[OutgoingMessage]) -> None:
        """Returns once all are confirmed. Raises `Unavailable` and `TooLarge`."""
        if self.fatal:
            self.open()
        report = DeliveryReport(len(messages))
        try:
            async with asyncio.timeout(self.config.timeout + SLACK_SECONDS):
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self.threads, self.enqueue, topic, messages, report)
                error = await report.confirmed
        except TimeoutError as late:
            raise Unavailable(f"Kafka {self.config.url}: it did not confirm; try again") from late
        except KafkaException as raised:
            error = error_of(raised)
            self.note_error(error)
        finally:
            report.confirmed.cancel()
        if error is not None:
            raise self.refusal(error)

    def enqueue(
        self, topic: str, messages: Sequence[OutgoingMessage], report: DeliveryReport
    ) -> None:
        for message in messages:
            while not self.try_enqueue(topic, message, report):
                if report.confirmed.done():  # it failed, or nothing waits any more
                    return
                self.closing.wait(FULL_PAUSE_SECONDS)

    def try_enqueue(self, topic: str, message: OutgoingMessage, report: DeliveryReport) -> bool:
        if self.producer is None:
            raise Unavailable(f"Kafka {self.config.url} is closed")
        try:
            self.producer.produce(
                topic,
                message.body,
                message.key,
                headers=list[tuple[str, str | bytes | None]](message.headers),
                on_delivery=report.note,
            )
        except BufferError:
            return False
        return True

    def refusal(self, error: KafkaError) -> Exception:
        if error.code() in TOO_LARGE:
            return TooLarge(f"Kafka {self.config.url} takes no message of this size; {error.str()}")
        return unavailable(error, self.config.url)

    def close(self) -> None:
        self.producer = None
        self.closing.set()
        self.threads.shutdown(wait=False, cancel_futures=True)
