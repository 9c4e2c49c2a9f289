"""A dead letter: a message that could not be understood or used."""

from datetime import datetime

import msgspec

from onbeat.model.ids import DeadLetterId


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """The message as received, where it came from (`source`), and why it could not be processed."""

    id: DeadLetterId
    at: datetime
    source: str
    reason: str
    body: bytes
    headers: dict[str, str] = {}
