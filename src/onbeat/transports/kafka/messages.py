"""Converts envelopes to Kafka messages, and Kafka messages to deliveries."""

from typing import Any, Final

import msgspec
from confluent_kafka import Message

from onbeat.model.errors import TooLarge
from onbeat.ports.transport import Envelope

ID: Final = "onbeat.id"
FRAME_BYTES: Final = 100  # overhead of a message in a batch of its own
HEADER_FRAME_BYTES: Final = 10


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An envelope in Kafka's form. Messages with one key keep their order."""

    body: bytes
    key: bytes | None
    headers: list[tuple[str, bytes]]

    def size(self) -> int:
        """Size in bytes, an upper bound of Kafka's count."""
        headers = sum(
            len(name.encode()) + len(value) + HEADER_FRAME_BYTES for name, value in self.headers
        )
        return len(self.body) + len(self.key or b"") + headers + FRAME_BYTES


def message_of(envelope: Envelope, bytes_max: int) -> OutgoingMessage:
    """Raises `TooLarge` for a message of more than `bytes_max`."""
    headers = {**envelope.headers, ID: envelope.id}
    message = OutgoingMessage(
        body=envelope.body,
        key=(envelope.key or envelope.id).encode() or None,
        headers=[(name, value.encode()) for name, value in headers.items()],
    )
    if message.size() > bytes_max:
        raise TooLarge(
            f"message {envelope.id} has {message.size()} bytes with its headers; this Kafka takes"
            f" {bytes_max}: keep large data elsewhere and send where it is, or raise"
            " message.max.bytes here and there"
        )
    return message


def content_of(message: Message) -> tuple[bytes, dict[str, str], str]:
    """Body, headers and id, as far as they are readable: other clients may have sent it."""
    pairs: list[tuple[str, bytes | None]] = list(message_headers(message))
    headers = {name: (value or b"").decode(errors="replace") for name, value in pairs}
    return message.value() or b"", headers, headers.pop(ID, "")


def message_headers(message: Message) -> Any:
    return message.headers() or ()
