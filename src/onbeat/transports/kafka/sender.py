"""Publishes, and hears from Kafka what it has confirmed."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from onbeat.model.errors import TooLarge, Unavailable
from onbeat.transports.kafka.clients import producer
from onbeat.transports.kafka.faults import TOO_LARGE, error_of, unavailable
from onbeat.transports.kafka.letters import Letter
from onbeat.transports.kafka.place import Place

log = logging.getLogger(__name__)

THREADS: Final = 2
POLL_SECONDS: Final = 0.2
FULL_PAUSE_SECONDS: Final = 0.01
SLACK_SECONDS: Final = 2  # librdkafka looks once a second for what was not confirmed in time


class Report:
    """What Kafka says to the letters of one publish; told by the thread that listens."""

    def __init__(self, count: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.left = count
        self.confirmed: asyncio.Future[KafkaError | None] = self.loop.create_future()

    def note(self, error: KafkaError | None, _message: Message) -> None:
        self.left -= 1
        if error is not None or self.left == 0:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                self.loop.call_soon_threadsafe(self.finish, error)

    def finish(self, error: KafkaError | None) -> None:
        if not self.confirmed.done():
            self.confirmed.set_result(error)


class Sender:
    def __init__(self, place: Place) -> None:
        self.place = place
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="onbeat-kafka-send")
        self.producer: Producer | None = None
        self.fatal = False
        self.closing = threading.Event()

    def open(self) -> None:
        """Raises `Misconfigured`."""
        self.producer = opened = producer(self.place, self.note_error)
        self.fatal = False
        threading.Thread(
            target=self.listen, args=[opened], name="onbeat-kafka-confirm", daemon=True
        ).start()

    def listen(self, opened: Producer) -> None:
        """Until another took its place: what it owes by then is told by its own end."""
        while self.producer is opened:
            try:
                opened.poll(POLL_SECONDS)
            except KafkaException as raised:  # so it tells that it can go on no more
                self.note_error(error_of(raised))
        opened.purge()
        opened.flush(SLACK_SECONDS)

    def note_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = True
            log.warning("%s; another producer follows", unavailable(error, self.place.url))

    async def send(self, topic: str, letters: Sequence[Letter]) -> None:
        """Returns once all are confirmed. Raises `Unavailable` and `TooLarge`."""
        if self.fatal:
            self.open()
        report = Report(len(letters))
        try:
            async with asyncio.timeout(self.place.timeout + SLACK_SECONDS):
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self.threads, self.put, topic, letters, report)
                error = await report.confirmed
        except TimeoutError as late:
            raise Unavailable(f"Kafka {self.place.url}: it did not confirm; try again") from late
        except KafkaException as raised:
            error = error_of(raised)
            self.note_error(error)
        finally:
            report.confirmed.cancel()
        if error is not None:
            raise self.refusal(error)

    def put(self, topic: str, letters: Sequence[Letter], report: Report) -> None:
        for letter in letters:
            while not self.was_put(topic, letter, report):
                if report.confirmed.done():  # it failed, or nobody waits any more
                    return
                self.closing.wait(FULL_PAUSE_SECONDS)

    def was_put(self, topic: str, letter: Letter, report: Report) -> bool:
        if self.producer is None:
            raise Unavailable(f"Kafka {self.place.url} is closed")
        try:
            self.producer.produce(
                topic,
                letter.body,
                letter.key,
                headers=list[tuple[str, str | bytes | None]](letter.headers),
                on_delivery=report.note,
            )
        except BufferError:
            return False
        return True

    def refusal(self, error: KafkaError) -> Exception:
        if error.code() in TOO_LARGE:
            return TooLarge(f"Kafka {self.place.url} takes no message of this size; {error.str()}")
        return unavailable(error, self.place.url)

    def close(self) -> None:
        self.producer = None
        self.closing.set()
        self.threads.shutdown(wait=False, cancel_futures=True)
