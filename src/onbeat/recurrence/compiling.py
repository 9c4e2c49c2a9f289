"""From spec to engine: what a stored recurrence needs to be asked for instants."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache

import msgspec

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.business import on_business_days
from onbeat.recurrence.cron import cron_core
from onbeat.recurrence.cron_text import CronParts, read_cron
from onbeat.recurrence.instants import read_instant, to_us, write_us
from onbeat.recurrence.interval import Interval
from onbeat.recurrence.rrule import anchored_at, block_core, block_zone, start_at
from onbeat.recurrence.rrule_text import Block, RuleParts, read_block
from onbeat.recurrence.sets import EXCLUDED_AT_FIRST_MAX, Core, Dates, Excluding, Union
from onbeat.recurrence.spans import read_span
from onbeat.recurrence.spec import RecurrenceSpec
from onbeat.recurrence.zoned import SECOND, DstRule
from onbeat.recurrence.zones import zone_named

BEFORE_ALL = -(1 << 60)
"""Microseconds; before every instant that `datetime` can say."""

MEMBERS_MAX = 100
"""Recurrences in one union: each one is asked at every step."""


def needs_anchor(spec: RecurrenceSpec) -> bool:
    """Whether the rule depends on when it begins and nobody said when."""
    if spec.anchor is not None:
        return False
    match spec.kind:
        case "every":
            return True
        case "rrule":
            block = parsed_block(spec.text)
            return block.start is None and bool(block.rules)
        case "union" | "excluding" | "on":
            return any(needs_anchor(member) for member in spec.members)
        case _:
            return False


def depends_on_zone(spec: RecurrenceSpec) -> bool:
    """Whether the rule's instants follow from the data of some time zone but UTC."""
    if any(depends_on_zone(member) for member in spec.members):
        return True
    zone = spec.tz
    if spec.kind == "rrule":
        zone = block_zone(parsed_block(spec.text), spec.tz)
    return zone not in {None, "UTC", "Etc/UTC"}


def anchor(spec: RecurrenceSpec, at: datetime) -> RecurrenceSpec:
    """The spec with a reference point, where it needs one: `at`, cut to the whole second.

    The first occurrence is the first match after it, and COUNT counts from there. Raises
    BadRecurrence when the rule, begun there, can never fire.
    """
    anchored = anchored_spec(spec, to_us(at))
    if anchored != spec:
        core_of(anchored)
    return anchored


def anchored_spec(spec: RecurrenceSpec, instant: int) -> RecurrenceSpec:
    if not needs_anchor(spec):
        return spec
    if spec.members:
        members = tuple(anchored_spec(member, instant) for member in spec.members)
        return msgspec.structs.replace(spec, members=members)
    text = write_us(instant // SECOND * SECOND)
    return msgspec.structs.replace(spec, anchor=text, anchored=True)


def core_of(spec: RecurrenceSpec) -> Core:
    """The engine of a spec that needs no anchor. Raises BadRecurrence."""
    core = KINDS[spec.kind](spec)
    if spec.kind in {"rrule", "cron", "excluding", "on"} and first_of(core) is None:
        raise BadRecurrence(
            "this can never fire: no date in the years 1 to 9999 fits all of it", spec.text
        )
    return core


def first_of(core: Core) -> int | None:
    if isinstance(core, Excluding):
        return core.first_kept(core.base.after_us, BEFORE_ALL, EXCLUDED_AT_FIRST_MAX)
    return core.after_us(BEFORE_ALL)


def rrule_core(spec: RecurrenceSpec) -> Core:
    block = parsed_block(spec.text)
    dst = DstRule(spec.dst_gap, spec.dst_fold)
    zone = zone_named(block_zone(block, spec.tz))
    if block.start is not None:
        start = start_at(block.start, zone, dst)
    else:
        instant = to_us(read_instant(spec.anchor)) // SECOND if spec.anchor else 0
        start = anchored_at(instant, zone, dst, counts=not spec.anchored)
    return block_core(block, start)


def cron_core_of(spec: RecurrenceSpec) -> Core:
    parts = parsed_cron(spec.text, spec.key)
    return cron_core(parts, zone_named(spec.tz), spec.dst_gap, spec.dst_fold)


def every_core(spec: RecurrenceSpec) -> Core:
    span = read_span(spec.text)
    assert spec.anchor is not None
    start = to_us(read_instant(spec.anchor))
    if not span.months:
        return Interval(start, span.microseconds, int(spec.anchored))
    # A month later is the same day, or the last one of a month that is too short.
    day = (read_instant(spec.anchor)).day
    parts = RuleParts("MONTHLY", span.months, by_month_day=(day,), skip="BACKWARD")
    whole, fraction = divmod(start, SECOND)
    begin = anchored_at(whole, zone_named(spec.tz), DstRule(), counts=not spec.anchored)
    core = block_core(Block(rules=(parts,)), begin)
    return Shifted(core, fraction) if fraction else core


class Shifted:
    """The occurrences of another recurrence, a fraction of a second later."""

    __slots__ = ("by", "core")

    def __init__(self, core: Core, by: int) -> None:
        self.core = core
        self.by = by

    def after_us(self, instant: int) -> int | None:
        found = self.core.after_us(instant - self.by)
        return None if found is None else found + self.by

    def before_us(self, instant: int) -> int | None:
        found = self.core.before_us(instant - self.by)
        return None if found is None else found + self.by


def once_core(spec: RecurrenceSpec) -> Core:
    return Dates([to_us(read_instant(spec.text))])


def union_core(spec: RecurrenceSpec) -> Core:
    return Union([core_of(member) for member in spec.members])


def excluding_core(spec: RecurrenceSpec) -> Core:
    base, excluded = spec.members
    return Excluding(core_of(base), core_of(excluded))


def on_core(spec: RecurrenceSpec) -> Core:
    assert spec.calendar is not None
    return on_business_days(core_of(spec.members[0]), spec.calendar, spec.roll, zone_named(spec.tz))


def function_core(spec: RecurrenceSpec) -> Core:
    raise BadRecurrence(
        f"the function {spec.text} lives in the program that made it, not in the store", spec.text
    )


KINDS: dict[str, Callable[[RecurrenceSpec], Core]] = {
    "rrule": rrule_core,
    "cron": cron_core_of,
    "every": every_core,
    "once": once_core,
    "union": union_core,
    "excluding": excluding_core,
    "on": on_core,
    "function": function_core,
}


@lru_cache(maxsize=10_000)
def parsed_block(text: str) -> Block:
    return read_block(text)


@lru_cache(maxsize=10_000)
def parsed_cron(text: str, key: str) -> CronParts:
    return read_cron(text, key).parts
