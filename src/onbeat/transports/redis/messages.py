"""Converts messages to and from stream entries."""

from collections.abc import Sequence
from typing import Final

import msgspec

from onbeat.ports.transport import Delivery, Envelope
from onbeat.transports.redis.connection import Command, Reply

GROUP: Final = "onbeat"

HEADERS: Final[msgspec.json.Decoder[dict[str, str | int | float | bool]]] = msgspec.json.Decoder(
    dict[str, str | int | float | bool]
)


def addition(key: str, envelope: Envelope) -> Command:
    return (
        "XADD",
        key,
        "*",
        "body",
        envelope.body,
        "id",
        envelope.id,
        "headers",
        msgspec.json.encode(envelope.headers),
    )


def delivery(key: str, entry: Reply) -> Delivery:
    """The delivery of an entry; other clients may add entries too, with fewer fields."""
    id, flat = entry
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    return Delivery(
        body=fields.get(b"body", b""),
        headers=headers_of(fields.get(b"headers", b"{}")),
        receipt=(key, id),
        # The entry's own id is the same at every delivery, too.
        id=fields.get(b"id", id).decode(errors="replace"),
    )


def headers_of(text: bytes) -> dict[str, str]:
    try:
        headers = HEADERS.decode(text)
    except (msgspec.DecodeError, ValueError):
        return {}
    return {
        name: value if isinstance(value, str) else str(value) for name, value in headers.items()
    }


def ids_of(key: str, deliveries: Sequence[Delivery]) -> list[bytes]:
    """The ids of the deliveries that came from this stream."""
    receipts = (delivery.receipt for delivery in deliveries)
    return [receipt[1] for receipt in receipts if isinstance(receipt, tuple) and receipt[0] == key]
