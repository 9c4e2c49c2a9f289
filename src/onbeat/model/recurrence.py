"""The record that says what a recurrence is: stored, sent and compared in place of the value.

`onbeat.recurrence.compile_spec` gives it life.
"""

from typing import Literal

import msgspec

Kind = Literal["rrule", "cron", "every", "once", "function", "union", "excluding", "on"]
DstGap = Literal["shift", "skip", "end"]
DstFold = Literal["first", "last", "both"]
Roll = Literal["skip", "following", "preceding", "modified"]


class CalendarSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """Days on which business is done: every day but weekends and holidays, in ISO dates.

    `name` says where the holidays came from; they are kept here, never looked up when firing.
    """

    weekend: tuple[int, ...] = (5, 6)
    holidays: tuple[str, ...] = ()
    name: str = ""


class RecurrenceSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a store keeps of a recurrence.

    `text` is canonical. `anchor` is an RFC 3339 instant: with `anchored` a reference point that
    was given to a rule without a start, and not itself an occurrence; without it, the start.
    `members` are the recurrences that a union or exclusion is made of.
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
