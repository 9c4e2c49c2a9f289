"""A dead letter: a message that could not be understood or used."""

from datetime import datetime

import msgspec

from onbeat.model.ids import LetterId


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """The message as it came, where it came in (`source`), and why it was put aside."""

    id: LetterId
    at: datetime
    source: str
    reason: str
    body: bytes
    headers: dict[str, str] = {}
