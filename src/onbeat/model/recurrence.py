"""The record of a recurrence: stored, sent and compared instead of the compiled rule.

`onbeat.recurrence.compile_spec` compiles it.
"""

from typing import Literal

import msgspec

Kind = Literal["rrule", "cron", "every", "once", "function", "union", "excluding", "on", "event"]
DstGap = Literal["shift", "skip", "end"]
DstFold = Literal["first", "last", "both"]
Roll = Literal["skip", "following", "preceding", "modified"]


class CalendarSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """Business days: every day but weekends and holidays, in ISO dates.

    `name` says where the holidays came from; they are stored here, never looked up when firing.
    """

    weekend: tuple[int, ...] = (5, 6)
    holidays: tuple[str, ...] = ()
    name: str = ""


class RecurrenceSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recurrence as stored.

    `text` is canonical. `anchor` is an RFC 3339 instant. With `anchored` it is the reference point
    of a rule without a start, and not itself an occurrence; without it, it is the start. `members`
    are the recurrences combined by a union or exclusion. The kind `event` has no occurrences: its
    schedule reacts to events of the types in `text`.
    """

    kind: Kind
    text: str
    tz: str | None = None
    anchor: str | None = None
    anchored: bool = False
    dst_gap: DstGap = "shift"
    dst_fold: DstFold = "first"
    key: str = ""
    members: "tuple[RecurrenceSpec, ...]" = ()
    calendar: CalendarSpec | None = None
    roll: Roll = "skip"
