"""How a schedule reacts to events: which ones, by what key, and how many at once."""

from datetime import timedelta
from enum import StrEnum

import msgspec

from onbeat.model.recurrence import RecurrenceSpec


class EventPattern(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events of a `type` and `source`, exact or with a `*` at the end.

    `condition` filters them and `by` gives their key; both are CEL.
    """

    type: str
    source: str = "*"
    condition: str | None = msgspec.field(default=None, name="if")
    by: str | None = None


class Keep(StrEnum):
    """Which of the gathered events the target gets."""

    ALL = "all"
    FIRST = "first"
    LAST = "last"


class Gather(msgspec.Struct, frozen=True, omit_defaults=True):
    """Many events for one job, which is due `span` after the first, or at the next instant `until`.

    With `quiet` it is due once so much time passed without a further event, and at the latest after
    `span`. With `keep` first, and no `quiet`, the job is due at once, and the events of the `span`
    after it are counted. A job takes at most `most` events; the next one opens another.
    """

    span: timedelta | None = msgspec.field(default=None, name="for")
    until: RecurrenceSpec | None = None
    quiet: timedelta | None = None
    keep: Keep = Keep.ALL
    most: int = 1_000
    by: str | None = None
