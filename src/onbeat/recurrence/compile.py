"""Compiles a stored recurrence (spec) to an engine that computes instants."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache

import msgspec

from onbeat.model.errors import BadRecurrence, TooCostly
from onbeat.recurrence.aws_text import read_any_cron
from onbeat.recurrence.budget import COMPILE_STEPS_MAX, FIRST_STEPS_MAX, Budget
from onbeat.recurrence.business import RolledDays
from onbeat.recurrence.cron import cron_core
from onbeat.recurrence.cron_text import CronParts
from onbeat.recurrence.durations import read_duration
from onbeat.recurrence.instants import read_instant, to_us, write_us
from onbeat.recurrence.interval import Interval
from onbeat.recurrence.rrule import block_core, block_zone, named_zones
from onbeat.recurrence.rrule_text import Block, RuleParts, read_block
from onbeat.recurrence.sets import Core, Dates, Excluding, Union
from onbeat.recurrence.spec import RecurrenceSpec
from onbeat.recurrence.start import start_anchored, start_at
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.year_masks import month_of
from onbeat.recurrence.zoned_rule import SECOND, DstRule
from onbeat.recurrence.zones import zone_named

BEFORE_ALL = -(1 << 60)
"""Microseconds; before every instant that `datetime` can express."""

SHORT_CHARS_MAX = 2_000
"""Up to this many characters, thousands of compiled rules are cached; of longer ones a hundred."""

MEMBERS_MAX = 100
"""Recurrences in one union: each one is queried at every step."""


def needs_anchor(spec: RecurrenceSpec) -> bool:
    """Whether the rule depends on when it begins, and has no start."""
    if spec.anchor is not None:
        return False
    match spec.kind:
        case "every":
            return True
        case "rrule":
            block = parse_block(spec.text)
            return block.start is None and bool(block.rules)
        case "union" | "excluding" | "on":
            return any(needs_anchor(member) for member in spec.members)
        case _:
            return False


def depends_on_zone(spec: RecurrenceSpec) -> bool:
    """Whether the rule's instants depend on the data of a time zone other than UTC."""
    if any(depends_on_zone(member) for member in spec.members):
        return True
    zone = spec.tz if reads_clock(spec) else None
    if spec.kind == "rrule":
        zone = block_zone(parse_block(spec.text), spec.tz)
    return zone not in {None, "UTC", "Etc/UTC"}


def zones_named_in(spec: RecurrenceSpec) -> list[str]:
    """All zones that the rule names, in itself or in a member."""
    names = {name for member in spec.members for name in zones_named_in(member)}
    if spec.tz is not None:
        names.add(spec.tz)
    if spec.kind == "rrule":
        names |= named_zones(parse_block(spec.text))
    return sorted(names)


def reads_clock(spec: RecurrenceSpec) -> bool:
    """Whether the rule itself counts by a wall clock; elapsed time and one instant do not.

    The zone of those that do not is kept for the next rule of their schedule.
    """
    if spec.kind == "every":
        return bool(read_duration(spec.text).months)
    return spec.kind != "once"


def without_idle_zone(spec: RecurrenceSpec) -> RecurrenceSpec:
    """The rule without time zones that do not change when it fires.

    Two rules fire at the same instants if this is equal for both.
    """
    members = tuple(map(without_idle_zone, spec.members))
    if reads_clock(spec):
        return msgspec.structs.replace(spec, members=members) if members else spec
    return msgspec.structs.replace(spec, tz=None, dst_gap="shift", dst_fold="first")


def anchor(spec: RecurrenceSpec, at: datetime, budget: Budget | None = None) -> RecurrenceSpec:
    """The spec with a reference point, if it needs one: `at`, truncated to the second.

    The first occurrence is the first match after it, and COUNT counts from there. Raises
    BadRecurrence if the rule, starting there, can never fire.
    """
    anchored = anchored_spec(spec, to_us(at))
    if anchored != spec:
        core_of(anchored, budget)
    return anchored


def anchored_spec(spec: RecurrenceSpec, instant: int) -> RecurrenceSpec:
    if not needs_anchor(spec):
        return spec
    if spec.members:
        members = tuple(anchored_spec(member, instant) for member in spec.members)
        return msgspec.structs.replace(spec, members=members)
    text = write_us(instant // SECOND * SECOND)
    return msgspec.structs.replace(spec, anchor=text, anchored=True)


def core_of(spec: RecurrenceSpec, budget: Budget | None = None) -> Core:
    """The engine of a spec that needs no anchor. Raises BadRecurrence."""
    return build_core(spec, Budget(COMPILE_STEPS_MAX, budget))


def build_core(spec: RecurrenceSpec, budget: Budget) -> Core:
    core = KINDS[spec.kind](spec, budget)
    if spec.kind in {"rrule", "cron", "excluding", "on"} and first_of(core, budget) is None:
        raise BadRecurrence(
            "this can never fire: no date in the years 1 to 9999 fits all of it", spec.text
        )
    return core


def first_of(core: Core, budget: Budget) -> int | None:
    return core.after_us(BEFORE_ALL, Budget(FIRST_STEPS_MAX, budget))


def rrule_core(spec: RecurrenceSpec, budget: Budget) -> Core:
    block = parse_block(spec.text)
    dst = DstRule(spec.dst_gap, spec.dst_fold)
    zone = zone_named(block_zone(block, spec.tz))
    if block.start is not None:
        start = start_at(block.start, zone, dst)
    else:
        instant = to_us(read_instant(spec.anchor)) // SECOND if spec.anchor else 0
        start = start_anchored(instant, zone, dst, counts=not spec.anchored)
    return block_core(block, start, budget)


def cron_core_of(spec: RecurrenceSpec, _budget: Budget) -> Core:
    parts = parse_cron(spec.text, spec.key)
    return cron_core(parts, zone_named(spec.tz), spec.dst_gap, spec.dst_fold)


def every_core(spec: RecurrenceSpec, budget: Budget) -> Core:
    span = read_duration(spec.text)
    assert spec.anchor is not None
    start = to_us(read_instant(spec.anchor))
    if not span.months:
        return Interval(start, span.microseconds, int(spec.anchored))
    whole, fraction = divmod(start, SECOND)
    dst = DstRule(spec.dst_gap, spec.dst_fold)
    begin = start_anchored(whole, zone_named(spec.tz), dst, counts=not spec.anchored)
    # A month later is the same day, or the last day of a shorter month.
    day = month_of(begin.wall // DAY)[2]
    parts = RuleParts("MONTHLY", span.months, by_month_day=(day,), skip="BACKWARD")
    core = block_core(Block(rules=(parts,)), begin, budget)
    return Shifted(core, fraction) if fraction else core


class Shifted:
    """The occurrences of another recurrence, a fraction of a second later."""

    __slots__ = ("by", "core")

    def __init__(self, core: Core, by: int) -> None:
        self.core = core
        self.by = by

    def after_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        candidate = self.core.after_us(instant - self.by, budget)
        return None if candidate is None else candidate + self.by

    def before_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        candidate = self.core.before_us(instant - self.by, budget)
        return None if candidate is None else candidate + self.by


def once_core(spec: RecurrenceSpec, _budget: Budget) -> Core:
    return Dates([to_us(read_instant(spec.text))])


def union_core(spec: RecurrenceSpec, budget: Budget) -> Core:
    return Union([build_core(member, budget) for member in spec.members])


def excluding_core(spec: RecurrenceSpec, budget: Budget) -> Core:
    base, excluded = map(without_idle_zone, spec.members)
    members = base.members if base.kind == "union" else (base,)
    # An excluded member is left out here; a search would look for what it keeps to no end.
    kept = [build_core(member, budget) for member in members if member != excluded]
    if not kept:
        raise BadRecurrence("this can never fire: all of it is excluded", spec.text)
    return Excluding(kept[0] if len(kept) == 1 else Union(kept), build_core(excluded, budget))


def on_core(spec: RecurrenceSpec, budget: Budget) -> Core:
    assert spec.calendar is not None
    (member,) = spec.members
    zones = {spec.tz} if spec.tz else zones_of(member)
    zone = zone_named(zones.pop() if len(zones) == 1 else None)
    base = build_core(member, budget)
    if spec.roll == "skip" or zone.is_fixed:
        return RolledDays(base, spec.calendar, spec.roll, zone)
    return RolledDays(base, spec.calendar, spec.roll, zone, outside_gaps(member, budget))


def zones_of(spec: RecurrenceSpec) -> set[str]:
    """The zones whose days the rule counts; elapsed time has none."""
    if spec.tz is not None and reads_clock(spec):
        return {spec.tz}
    members = spec.members[:1] if spec.kind == "excluding" else spec.members
    return {zone for member in members for zone in zones_of(member)}


def outside_gaps(spec: RecurrenceSpec, budget: Budget) -> Core:
    """The rule without the occurrences that a clock change displaces."""
    try:
        return build_core(skipping_gaps(spec), budget)
    except TooCostly:
        raise
    except BadRecurrence:  # for then it never fires
        return Dates([])


def skipping_gaps(spec: RecurrenceSpec) -> RecurrenceSpec:
    members = tuple(map(skipping_gaps, spec.members))
    return msgspec.structs.replace(spec, dst_gap="skip", members=members)


def function_core(spec: RecurrenceSpec, _budget: Budget) -> Core:
    raise BadRecurrence(
        f"the function {spec.text} lives in the program that made it, not in the store", spec.text
    )


def event_core(_spec: RecurrenceSpec, _budget: Budget) -> Core:
    return Dates([])


KINDS: dict[str, Callable[[RecurrenceSpec, Budget], Core]] = {
    "rrule": rrule_core,
    "cron": cron_core_of,
    "every": every_core,
    "once": once_core,
    "union": union_core,
    "excluding": excluding_core,
    "on": on_core,
    "function": function_core,
    "event": event_core,
}


def parse_block(text: str) -> Block:
    """Cached if the text is short: long texts are rare, and caching many would take much memory."""
    return block_of_few(text) if len(text) > SHORT_CHARS_MAX else block_of_many(text)


@lru_cache(maxsize=10_000)
def block_of_many(text: str) -> Block:
    return read_block(text)


@lru_cache(maxsize=100)
def block_of_few(text: str) -> Block:
    return read_block(text)


@lru_cache(maxsize=1_000)
def parse_cron(text: str, key: str) -> CronParts:
    return read_any_cron(text, key).parts
