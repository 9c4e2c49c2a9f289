"""Messages to be sent: how large they may be, and how many at once."""

from collections.abc import Iterator, Sequence
from typing import Final

from onbeat.model.errors import TooLarge
from onbeat.ports.transport import Envelope
from onbeat.rules.lots import parted

BODY_BYTES_MAX: Final = 16 << 20  # what RabbitMQ takes when it is not told otherwise
HEADERS_BYTES_MAX: Final = 100_000  # in AMQP they travel in one frame of at most 128 KiB
LOT_MESSAGES: Final = 500  # sent at once: enough to be quick, few enough to let others in between
LOT_BYTES: Final = 1 << 20


def check(envelope: Envelope) -> None:
    """Raises `TooLarge` for one over the bounds."""
    if len(envelope.body) > BODY_BYTES_MAX:
        raise TooLarge(f"a message has at most {BODY_BYTES_MAX:,} bytes", "body")
    texts = (*envelope.headers.keys(), *envelope.headers.values())
    if sum(len(text.encode()) for text in texts) > HEADERS_BYTES_MAX:
        raise TooLarge(
            f"the headers of a message have at most {HEADERS_BYTES_MAX:,} bytes", "headers"
        )


def lots(envelopes: Sequence[Envelope]) -> Iterator[Sequence[Envelope]]:
    """All of them in order, in parts that are sent at once; one that is large has its own."""
    return parted(envelopes, lambda envelope: len(envelope.body), LOT_MESSAGES, LOT_BYTES)
