"""A recurrence as written and stored; `onbeat.recurrence.compile_spec` gives it life."""

import msgspec


class RecurrenceSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rule as text, with all that its meaning depends on.

    `anchor` stands in for a missing DTSTART or start, as RFC 3339 text. With `anchored` it is only
    a point of reference (the instant of creation), not itself an occurrence.
    """

    kind: str
    text: str
    tz: str | None = None
    anchor: str | None = None
    anchored: bool = False
    dst_gap: str = "shift"
    dst_fold: str = "first"
    key: str = ""
