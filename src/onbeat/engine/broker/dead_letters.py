"""Publishes copies of dead letters to the broker's dead-letter queue; the store keeps them all."""

from collections import deque
from typing import Final

from msgspec.structs import replace

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import TooLarge, Unavailable
from onbeat.ports.transport import Broker, Envelope
from onbeat.wire.broker_messages import CUT_HEADER, DEAD, REASON_HEADER, SOURCE_HEADER

PERIOD: Final = 0.5  # seconds between checks for dead letters to publish
AWAY_PERIOD: Final = 5.0  # the same while the broker is unavailable
WAITING_MAX: Final = 100  # the newest are published; the store keeps all of them
COPY_BYTES_MAX: Final = 131_072  # some brokers accept little more
HEADER_CHARS_MAX: Final = 500
COPIED_HEADERS: Final = (SOURCE_HEADER, REASON_HEADER, CUT_HEADER)


class DeadLetterPublisher:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.waiting: deque[Envelope] = deque(maxlen=WAITING_MAX)

    def submit(self, dead_letter: DeadLetter) -> None:
        """Queue a dead letter for publication. Thread-safe."""
        # The queue holds the cut copies: a hundred whole dead letters could fill the memory.
        self.waiting.append(envelope(dead_letter))

    async def step(self) -> float:
        """Publish the waiting dead letters, or keep them while the broker is unavailable."""
        while self.waiting:
            answer = self.waiting[0]
            try:
                await self.publish(answer)
            except Unavailable:
                return AWAY_PERIOD
            # When the queue is full, a newer dead letter may have displaced this one.
            if self.waiting and self.waiting[0] is answer:
                self.waiting.popleft()
        return PERIOD

    async def publish(self, answer: Envelope) -> None:
        try:
            await self.broker.publish(DEAD, [answer])
        except TooLarge:
            await self.broker.publish(DEAD, [without_own_headers(answer)])


def envelope(dead_letter: DeadLetter) -> Envelope:
    """The original message, with its source and the reason as headers.

    A large message is cut, and a header gives its full size in bytes as the store has it.
    """
    headers = {
        SOURCE_HEADER: dead_letter.source,
        REASON_HEADER: dead_letter.reason[:HEADER_CHARS_MAX],
    }
    if len(dead_letter.body) > COPY_BYTES_MAX:
        headers[CUT_HEADER] = str(len(dead_letter.body))
    return Envelope(
        body=dead_letter.body[:COPY_BYTES_MAX],
        id=dead_letter.id,
        headers=dead_letter.headers | headers,
    )


def without_own_headers(answer: Envelope) -> Envelope:
    own = {name: answer.headers[name] for name in COPIED_HEADERS if name in answer.headers}
    return replace(answer, headers=own)
