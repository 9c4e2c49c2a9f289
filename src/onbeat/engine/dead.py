"""Tells the broker's queue of dead letters what was put aside; the store keeps the letters."""

from collections import deque
from typing import Final

from msgspec.structs import replace

from onbeat.model.errors import TooLarge, Unavailable
from onbeat.model.letter import DeadLetter
from onbeat.ports.transport import Broker, Envelope
from onbeat.wire.work import CUT_HEADER, DEAD, REASON_HEADER, SOURCE_HEADER

PERIOD: Final = 0.5  # seconds between looks for what is to be told
AWAY_PERIOD: Final = 5.0  # the same while the broker is away
WAITING_MAX: Final = 100  # while the broker is away; the newest are told, all are in the store
BODY_BYTES_TOLD_MAX: Final = 131_072  # some brokers take little more
HEADER_CHARS_MAX: Final = 500
SAID_HEADERS: Final = (SOURCE_HEADER, REASON_HEADER, CUT_HEADER)


class DeadPost:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.waiting: deque[Envelope] = deque(maxlen=WAITING_MAX)

    def put(self, letter: DeadLetter) -> None:
        """From any thread."""
        # What waits is what will be told: a hundred whole letters would fill the memory.
        self.waiting.append(envelope(letter))

    async def step(self) -> float:
        """Publish what waits, or keep it while the broker is away: nobody depends on it here."""
        while self.waiting:
            told = self.waiting[0]
            try:
                await self.tell(told)
            except Unavailable:
                return AWAY_PERIOD
            # Where more came than can wait, this one has gone already.
            if self.waiting and self.waiting[0] is told:
                self.waiting.popleft()
        return PERIOD

    async def tell(self, told: Envelope) -> None:
        try:
            await self.broker.publish(DEAD, [told])
        except TooLarge:
            await self.broker.publish(DEAD, [without_headers_of_its_own(told)])


def envelope(letter: DeadLetter) -> Envelope:
    """The message as it came, with where it came in and why it was put aside.

    A large one is cut, and a header tells how many bytes the store has of it.
    """
    said = {SOURCE_HEADER: letter.source, REASON_HEADER: letter.reason[:HEADER_CHARS_MAX]}
    if len(letter.body) > BODY_BYTES_TOLD_MAX:
        said[CUT_HEADER] = str(len(letter.body))
    return Envelope(
        body=letter.body[:BODY_BYTES_TOLD_MAX], id=letter.id, headers=letter.headers | said
    )


def without_headers_of_its_own(told: Envelope) -> Envelope:
    own = {name: told.headers[name] for name in SAID_HEADERS if name in told.headers}
    return replace(told, headers=own)
