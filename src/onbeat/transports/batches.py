"""Size limits of messages, and batches for publishing."""

from collections.abc import Iterator, Sequence
from typing import Final

from onbeat.model.errors import TooLarge
from onbeat.ports.transport import Envelope
from onbeat.rules.batches import split_by_weight

BODY_BYTES_MAX: Final = 16 << 20  # the default limit of RabbitMQ
HEADERS_BYTES_MAX: Final = 100_000  # AMQP sends them in one frame of at most 128 KiB
BATCH_MESSAGES: Final = 500  # per batch: fast enough, and lets others in between
BATCH_BYTES: Final = 1 << 20


def check_size(envelope: Envelope) -> None:
    """Raises `TooLarge` for a message over the limits."""
    if len(envelope.body) > BODY_BYTES_MAX:
        raise TooLarge(f"a message has at most {BODY_BYTES_MAX:,} bytes", "body")
    texts = (*envelope.headers.keys(), *envelope.headers.values())
    if sum(len(text.encode()) for text in texts) > HEADERS_BYTES_MAX:
        raise TooLarge(
            f"the headers of a message have at most {HEADERS_BYTES_MAX:,} bytes", "headers"
        )


def batches(envelopes: Sequence[Envelope]) -> Iterator[Sequence[Envelope]]:
    """All messages in order, in batches that are sent at once; a large message has its own."""
    return split_by_weight(
        envelopes, lambda envelope: len(envelope.body), BATCH_MESSAGES, BATCH_BYTES
    )
