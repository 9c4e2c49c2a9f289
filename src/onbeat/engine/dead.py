"""Tells the broker's queue of dead letters what was put aside; the store keeps the letters."""

from collections import deque
from typing import Final

from onbeat.model.errors import TooLarge, Unavailable
from onbeat.model.letter import DeadLetter
from onbeat.ports.transport import Broker, Envelope
from onbeat.wire.work import CUT_HEADER, DEAD, REASON_HEADER, SOURCE_HEADER

PERIOD: Final = 0.5  # seconds between looks for what is to be told
AWAY_PERIOD: Final = 5.0  # the same while the broker is away
WAITING_MAX: Final = 100  # while the broker is away; the newest are told, all are in the store
BODY_BYTES_TOLD_MAX: Final = 131_072  # some brokers take little more
HEADER_CHARS_MAX: Final = 500


class DeadPost:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.waiting: deque[DeadLetter] = deque(maxlen=WAITING_MAX)

    def put(self, letter: DeadLetter) -> None:
        """From any thread."""
        self.waiting.append(letter)

    async def step(self) -> float:
        """Publish what waits, or keep it while the broker is away: nobody depends on it here."""
        while self.waiting:
            letter = self.waiting[0]
            try:
                await self.tell(letter)
            except Unavailable:
                return AWAY_PERIOD
            # Where more came than can wait, this one has gone already.
            if self.waiting and self.waiting[0] is letter:
                self.waiting.popleft()
        return PERIOD

    async def tell(self, letter: DeadLetter) -> None:
        try:
            await self.broker.publish(DEAD, [envelope(letter, letter.headers)])
        except TooLarge:
            await self.broker.publish(DEAD, [envelope(letter, {})])


def envelope(letter: DeadLetter, headers: dict[str, str]) -> Envelope:
    """The message as it came, with where it came in and why it was put aside.

    A large one is cut, and a header tells how many bytes the store has of it.
    """
    said = {SOURCE_HEADER: letter.source, REASON_HEADER: letter.reason[:HEADER_CHARS_MAX]}
    if len(letter.body) > BODY_BYTES_TOLD_MAX:
        said[CUT_HEADER] = str(len(letter.body))
    return Envelope(body=letter.body[:BODY_BYTES_TOLD_MAX], id=letter.id, headers=headers | said)
