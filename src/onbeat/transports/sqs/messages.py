"""Converts envelopes to SQS messages, and SQS messages to deliveries.

A body that is text is sent as that text, so that programs in any language can read it; others are
sent as base64, which an attribute declares. Headers are separate message attributes where SQS
accepts them, and otherwise one attribute in JSON.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from onbeat.model.errors import TooLarge
from onbeat.ports.transport import Delivery, Envelope

if TYPE_CHECKING:  # the package of types is installed for type checkers only
    from types_boto3_sqs.type_defs import MessageTypeDef

LETTER_BYTES_MAX: Final = 262_144  # body and attributes; the original limit of SQS, for a batch too
BATCH_MAX: Final = 10  # SQS's own limit of one call
ATTRIBUTES_MAX: Final = 10  # SQS's own limit of one message

ID: Final = "onbeat.id"
ENCODING: Final = "onbeat.encoding"
HEADERS: Final = "onbeat.headers"
OWN: Final = frozenset({ID, ENCODING, HEADERS})

# The characters that SQS accepts in a body or a value: those of XML 1.0.
TEXT_FORM: Final = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")
NAME_FORM: Final = re.compile(r"(?!(?i:aws\.|amazon\.))[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
NAME_CHARS_MAX: Final = 256
TYPE: Final = "String"


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An envelope in the form of SQS."""

    body: str
    attributes: dict[str, str]

    def size(self) -> int:
        """Size in bytes, as SQS counts it."""
        attributes = self.attributes.items()
        return len(self.body.encode()) + sum(
            len(name) + len(TYPE) + len(value.encode()) for name, value in attributes
        )


def message_of(envelope: Envelope) -> OutgoingMessage:
    """Raises `TooLarge` for a message that SQS would refuse."""
    body, encoding = text_of(envelope.body)
    own = {ID: envelope.id} | ({ENCODING: encoding} if encoding else {})
    message = OutgoingMessage(body=body, attributes=attributes_of({**envelope.headers, **own}))
    if message.size() > LETTER_BYTES_MAX:
        raise TooLarge(
            f"message {envelope.id} has {message.size()} bytes with its headers; SQS takes"
            f" {LETTER_BYTES_MAX}, so keep large data elsewhere and send where it is"
        )
    return message


def text_of(body: bytes) -> tuple[str, str]:
    """The body as text, and its encoding; "" if it is text already."""
    if not body:
        return "-", "empty"  # SQS accepts no message without a body
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = ""
    if TEXT_FORM.fullmatch(text):
        return text, ""
    return base64.b64encode(body).decode(), "base64"


def attributes_of(headers: Mapping[str, str]) -> dict[str, str]:
    if len(headers) <= ATTRIBUTES_MAX and all(may_stand_alone(*pair) for pair in headers.items()):
        return dict(headers)
    return {HEADERS: json.dumps(headers)}


def may_stand_alone(name: str, value: str) -> bool:
    named = len(name) <= NAME_CHARS_MAX and NAME_FORM.fullmatch(name) and name != HEADERS
    return bool(named and TEXT_FORM.fullmatch(value))


def batches_of_ten(messages: Iterable[OutgoingMessage]) -> Iterator[list[OutgoingMessage]]:
    """Batches that SQS accepts in one call."""
    batch: list[OutgoingMessage] = []
    room = LETTER_BYTES_MAX
    for message in messages:
        if batch and (len(batch) == BATCH_MAX or message.size() > room):
            yield batch
            batch, room = [], LETTER_BYTES_MAX
        batch.append(message)
        room -= message.size()
    if batch:
        yield batch


def delivery_of(message: "MessageTypeDef") -> Delivery:
    """The delivery, as far as it is readable: other clients may have sent it."""
    headers = headers_of(message)
    encoding = headers.get(ENCODING, "")
    return Delivery(
        body=body_of(message.get("Body", ""), encoding),
        headers={name: value for name, value in headers.items() if name not in OWN},
        receipt=message.get("ReceiptHandle", ""),
        id=headers.get(ID) or message.get("MessageId", ""),
    )


def headers_of(message: "MessageTypeDef") -> dict[str, str]:
    attributes = message.get("MessageAttributes", {})
    texts = {name: value.get("StringValue") for name, value in attributes.items()}
    headers = {name: text for name, text in texts.items() if text is not None}
    return parse_headers(headers.get(HEADERS, "{}")) | headers


def parse_headers(text: str) -> dict[str, str]:
    try:
        packed: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(packed, dict):
        return {}
    pairs = cast("dict[str, Any]", packed).items()
    return {name: value for name, value in pairs if isinstance(value, str)}


def body_of(text: str, encoding: str) -> bytes:
    if encoding == "empty":
        return b""
    if encoding != "base64":
        return text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text.encode()
