"""What may surprise in a rule: said when it is made or shown, never an error."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from onbeat.recurrence import masks
from onbeat.recurrence.compiling import core_of, parsed_block
from onbeat.recurrence.describe import MONTHS
from onbeat.recurrence.instants import EPOCH, from_us
from onbeat.recurrence.rrule import block_zone, start_at
from onbeat.recurrence.rrule_text import Block, RuleParts
from onbeat.recurrence.sets import Core, Excluding, Union
from onbeat.recurrence.spec import RecurrenceSpec
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.zoned import SECOND, DstRule, ZonedWalls
from onbeat.recurrence.zones import Zone, zone_named

NoteKind = Literal["start", "missing", "reading", "until", "zone", "gap", "fold", "end"]

NOTES_MAX = 100
"""Notes on one rule; nobody reads more, and a rule of every second meets many changes."""


class Note(NamedTuple):
    """`kind` is for programs, `text` for people; `instant` is None for the rule as a whole."""

    kind: NoteKind
    text: str
    instant: datetime | None = None


def notes_on(spec: RecurrenceSpec, core: Core, instant: int, count: int) -> list[Note]:
    """About the rule, then about the changes of clocks among its next `count` occurrences."""
    found = list(rule_notes(spec))
    end, left = last_of(core, instant, count)
    if not left:
        found.append(Note("end", "nothing is left after these"))
    for part in wall_parts(core):
        found += change_notes(part, instant // SECOND, end // SECOND)
    return found[:NOTES_MAX]


def last_of(core: Core, instant: int, count: int) -> tuple[int, bool]:
    """The last of the occurrences asked for, and whether there are more."""
    at = instant
    for _ in range(count):
        following = core.after_us(at)
        if following is None:
            return at, False
        at = following
    return at, core.after_us(at) is not None


def rule_notes(spec: RecurrenceSpec) -> Iterator[Note]:
    for member in spec.members:
        yield from rule_notes(member)
    if spec.kind != "rrule":
        return
    block = parsed_block(spec.text)
    yield from start_notes(block, spec)
    for parts in block.rules:
        yield from parts_notes(parts, block)


def start_notes(block: Block, spec: RecurrenceSpec) -> Iterator[Note]:
    if block.start is None or not block.rules or block.start.wall < DAY:
        # A start on the first day there is stands for none: `daily` and the like have it.
        return
    zone = zone_named(block_zone(block, spec.tz))
    start = start_at(block.start, zone, DstRule(spec.dst_gap, spec.dst_fold))
    first = core_of(spec).after_us(start.instant * SECOND - 1)
    if first != start.instant * SECOND:
        yield Note(
            "start",
            "DTSTART does not fit the rule, so it is not an occurrence itself",
            from_us(start.instant * SECOND),
        )


def parts_notes(parts: RuleParts, block: Block) -> Iterator[Note]:
    if (
        parts.until
        and parts.until.form == "date"
        and not (block.start and block.start.form == "date")
    ):
        yield Note("until", "UNTIL is a date; the whole of that day is included")
    if parts.freq == "YEARLY" and parts.by_month_day and not parts.by_month:
        yield Note("reading", "BYMONTHDAY without BYMONTH means that day of every month")
    if parts.freq == "YEARLY" and parts.by_week and not parts.by_day:
        yield Note("reading", "BYWEEKNO without BYDAY means every day of that week")
    if parts.freq in {"MONTHLY", "YEARLY"} and parts.skip == "OMIT":
        yield from missing_notes(parts, block)


def missing_notes(parts: RuleParts, block: Block) -> Iterator[Note]:
    """Months that the rule looks at and never, or only in leap years, finds a day in."""
    days = parts.by_month_day
    if not (days or parts.by_day or parts.by_year_day or parts.by_week) and block.start:
        days = (masks.month_of(block.start.wall // DAY)[2],)
    if not days or (parts.freq == "YEARLY" and not parts.by_month_day):
        return
    never = [month for month in parts.by_month or range(1, 13) if not has_day(month, days, 1)]
    if never:
        yield Note("missing", f"never in {', '.join(MONTHS[month - 1] for month in never)}")
    leap = 2 in (parts.by_month or range(1, 13)) and has_day(2, days, 1)
    if leap and not has_day(2, days, 0):
        yield Note("missing", "in February only in leap years")


def has_day(month: int, days: tuple[int, ...], leap: int) -> bool:
    return any(abs(day) <= masks.MONTH_LENGTHS[leap][month - 1] for day in days)


def wall_parts(core: Core) -> Iterator[ZonedWalls]:
    """The parts of a recurrence that go by the clock on the wall."""
    match core:
        case ZonedWalls():
            yield core
        case Union():
            for member in core.members:
                yield from wall_parts(member)
        case Excluding():
            yield from wall_parts(core.base)
        case _:
            return


def change_notes(part: ZonedWalls, first: int, last: int) -> Iterator[Note]:
    """What happens at each change of clocks between two instants, where the rule has a wall."""
    zone = part.zone
    segment = zone.segment(first)
    while segment + 2 < len(zone.starts) and zone.starts[segment + 1] <= last:
        segment += 1
        change = zone.starts[segment]
        before, after = zone.offsets[segment - 1], zone.offsets[segment]
        low, high = change + min(before, after), change + max(before, after)
        wall = part.walls.next(low - 1)
        while wall is not None and wall < high:
            yield gap_note(part, wall, change) if after > before else fold_note(part, wall, zone)
            wall = part.walls.next(wall + (high - low) // 4)


def gap_note(part: ZonedWalls, wall: int, change: int) -> Note:
    segment = part.zone.segment(change)
    size = part.zone.offsets[segment] - part.zone.offsets[segment - 1]
    gap = part.rule.gap_of(size)
    missing = f"{wall_text(wall)} does not exist in {part.zone.name}"
    if gap == "skip":
        return Note("gap", f"{missing}; it is left out", from_us(change * SECOND))
    instant = part.zone.instants(wall, gap, "first")[0]
    moved = wall_text(instant + part.zone.offset(instant))[-8:].removesuffix(":00")
    return Note("gap", f"{missing}; it comes at {moved}", from_us(instant * SECOND))


def fold_note(part: ZonedWalls, wall: int, zone: Zone) -> Note:
    both = zone.instants(wall, "shift", "both")
    fold = part.rule.fold_of(both[-1] - both[0])
    way = {"first": "the first time", "last": "the second time", "both": "both times"}[fold]
    instant = both[-1] if fold == "last" else both[0]
    text = f"{wall_text(wall)} comes twice in {zone.name}; it runs {way}"
    return Note("fold", text, from_us(instant * SECOND))


def wall_text(wall: int) -> str:
    return f"{EPOCH + timedelta(seconds=wall):%Y-%m-%d %H:%M:%S}"
