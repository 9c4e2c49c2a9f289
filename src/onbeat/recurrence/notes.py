"""Warnings about a rule, shown when it is created or displayed; never an error."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal, NamedTuple

from onbeat.model.errors import TooCostly
from onbeat.recurrence import year_masks
from onbeat.recurrence.aws_text import read_any_cron
from onbeat.recurrence.budget import SEARCH_STEPS_MAX, Budget
from onbeat.recurrence.business import RolledDays
from onbeat.recurrence.compile import core_of, parse_block, zones_named_in
from onbeat.recurrence.counted import FarEnd
from onbeat.recurrence.durations import read_duration
from onbeat.recurrence.instants import EPOCH, from_us, read_instant, to_us
from onbeat.recurrence.rrule import block_zone, instants_of
from onbeat.recurrence.rrule_text import Block, RuleParts
from onbeat.recurrence.sets import Core, Dates, Excluding, Union
from onbeat.recurrence.spec import RecurrenceSpec
from onbeat.recurrence.start import start_at
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.words import MONTHS
from onbeat.recurrence.zoned_rule import SECOND, DstRule, ZonedWalls
from onbeat.recurrence.zones import Zone, doubt_of, zone_named

NoteKind = Literal["start", "missing", "reading", "until", "zone", "gap", "fold", "end"]

NOTES_MAX = 100
"""Notes on one rule; a rule of every second meets many clock changes."""


DAYS_OF_EVERY_MONTH = 28
"""Days that even the shortest month has."""

EXCLUDED_CHECKED = 10
"""Excluded dates that are looked up among the occurrences."""

NOTES_STEPS_MAX = 20_000
"""Steps of finding the notes of one rule, about 40 ms; the others are left out."""

STEPS_OF_A_NOTE = 10
"""The cost of a note, in searches of a plain rule."""


class Note(NamedTuple):
    """`kind` is for programs, `text` for people; `instant` is None for the rule as a whole.

    `is_left_out`: there is no occurrence at the instant.
    """

    kind: NoteKind
    text: str
    instant: datetime | None = None
    is_left_out: bool = False


def notes_on(
    spec: RecurrenceSpec, core: Core, instant: int, count: int, budget: Budget | None = None
) -> list[Note]:
    """Notes on the rule, then on the clock changes among its next `count` occurrences.

    Only those that are found in `NOTES_STEPS_MAX` steps of the budget: a rule that is cheap enough
    to run is never refused for its notes.
    """
    own = Budget(SEARCH_STEPS_MAX) if budget is None else Budget(NOTES_STEPS_MAX, budget)
    found: list[Note] = []
    try:
        found.extend(islice(every_note(spec, core, instant, count, own), NOTES_MAX))
    except TooCostly:
        if own.left >= 0:  # the caller's budget is used up, or cancelled
            raise
    return found


def every_note(
    spec: RecurrenceSpec, core: Core, instant: int, count: int, budget: Budget
) -> Iterator[Note]:
    yield from (Note("zone", doubt) for doubt in map(doubt_of, zones_named_in(spec)) if doubt)
    yield from rule_notes(spec, core, budget)
    end, left = last_of(core, instant, count, budget)
    if not left:
        yield Note("end", "nothing is left after these")
    for part in wall_parts(core):
        for note in change_notes(part, instant // SECOND, end // SECOND, budget):
            if part is core or happens(core, note, budget):
                yield note


def happens(core: Core, note: Note, budget: Budget) -> bool:
    """Whether the occurrence that the note is about is one of the whole recurrence."""
    if note.instant is None or note.is_left_out:
        return True
    budget.spend()
    at = to_us(note.instant)
    return core.after_us(at - 1, budget) == at


def last_of(core: Core, instant: int, count: int, budget: Budget) -> tuple[int, bool]:
    """The last of the requested occurrences, and whether there are more."""
    at = instant
    for _ in range(count):
        budget.spend()
        following = core.after_us(at, budget)
        if following is None:
            return at, False
        at = following
    budget.spend()
    return at, core.after_us(at, budget) is not None


def rule_notes(spec: RecurrenceSpec, core: Core | None, budget: Budget) -> Iterator[Note]:
    for member in spec.members:
        yield from rule_notes(member, None, budget)
    yield from text_notes(spec)
    if spec.kind != "rrule":
        return
    block = parse_block(spec.text)
    if block.rules or block.excluded_dates:
        core = core or core_of(spec, budget)
        yield from start_notes(block, core, spec, budget)
        yield from exclusion_notes(block, core, budget)
    for parts in block.rules:
        yield from parts_notes(parts, block)


def text_notes(spec: RecurrenceSpec) -> Iterator[Note]:
    """Notes on how the text was read."""
    if spec.kind == "cron":
        for text in read_any_cron(spec.text, spec.key).notes:
            yield Note("reading", text)
    if spec.kind == "every" and read_duration(spec.text).months and spec.anchor:
        instant = to_us(read_instant(spec.anchor)) // SECOND
        wall = instant + zone_named(spec.tz).offset(instant)
        day = year_masks.month_of(wall // DAY)[2]
        if day > DAYS_OF_EVERY_MONTH:
            yield Note("missing", f"a month without day {day} has its last day instead")
    if spec.kind == "rrule":
        yield from notes_on_text(spec.text)


def notes_on_text(text: str) -> list[Note]:
    """Notes on a rule as it was written, which its canonical text no longer shows."""
    if re.search(r"FREQ=[^\r\n]*;[ \t]*($|[\r\n])", text, re.IGNORECASE):
        return [Note("reading", "the semicolon at the end means nothing")]
    return []


def start_notes(block: Block, core: Core, spec: RecurrenceSpec, budget: Budget) -> Iterator[Note]:
    if block.start is None or not block.rules or block.start.wall < DAY:
        # A start on the first representable day stands for no start: `daily` and similar rules have
        # it.
        return
    zone = zone_named(block_zone(block, spec.tz))
    start = start_at(block.start, zone, DstRule(spec.dst_gap, spec.dst_fold))
    first = core.after_us(start.instant * SECOND - 1, budget)
    if first != start.instant * SECOND:
        is_excluded = start.instant * SECOND in instants_of(block.excluded_dates, start)
        why = "is excluded by EXDATE" if is_excluded else "does not fit the rule"
        yield Note(
            "start",
            f"DTSTART {why}, so it is not an occurrence itself",
            from_us(start.instant * SECOND),
        )


def exclusion_notes(block: Block, core: Core, budget: Budget) -> Iterator[Note]:
    """A note on the first EXDATE that is no occurrence."""
    if not block.excluded_dates or not isinstance(core, Excluding):
        return
    # EXDATE comes after the rules that are excluded, if there are any.
    excluded = core.excluded.members[-1] if isinstance(core.excluded, Union) else core.excluded
    instants = excluded.instants if isinstance(excluded, Dates) else []
    for at in instants[:EXCLUDED_CHECKED]:
        budget.spend()
        if core.base.after_us(at - 1, budget) != at:
            text = f"EXDATE leaves nothing out at {from_us(at):%Y-%m-%d %H:%M:%S} UTC"
            yield Note("reading", f"{text}, which is no occurrence", from_us(at))
            return


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
    """Months in which the rule finds no day, or only in leap years."""
    days, months = parts.by_month_day, parts.by_month or tuple(range(1, 13))
    if not (days or parts.by_day or parts.by_year_day or parts.by_week or parts.by_easter):
        if block.start is None:
            return
        _, month, day = year_masks.month_of(block.start.wall // DAY)
        days = (day,)
        if parts.freq == "YEARLY" and not parts.by_month:
            months = (month,)
    if not days:
        return
    never = [month for month in months if not has_day(month, days, 1)]
    if never:
        yield Note("missing", f"never in {', '.join(MONTHS[month - 1] for month in never)}")
    leap = 2 in months and has_day(2, days, 1)
    if leap and not has_day(2, days, 0):
        yield Note("missing", "in February only in leap years")


def has_day(month: int, days: tuple[int, ...], leap: int) -> bool:
    return any(abs(day) <= year_masks.MONTH_LENGTHS[leap][month - 1] for day in days)


def wall_parts(core: Core) -> Iterator[ZonedWalls]:
    """The parts of a recurrence that follow the wall clock."""
    match core:
        case ZonedWalls():
            yield core
        case Union():
            for member in core.members:
                yield from wall_parts(member)
        case Excluding():
            yield from wall_parts(core.base)
        case FarEnd():
            yield from wall_parts(core.core)
        case RolledDays():
            yield from wall_parts(core.base)
        case _:
            return


def change_notes(part: ZonedWalls, first: int, last: int, budget: Budget) -> Iterator[Note]:
    """Notes on each clock change between two instants, if the rule follows the wall clock."""
    zone = part.zone
    segment = zone.segment(first)
    while segment + 2 < len(zone.starts) and zone.starts[segment + 1] <= last:
        segment += 1
        change = zone.starts[segment]
        before, after = zone.offsets[segment - 1], zone.offsets[segment]
        low, high = change + min(before, after), change + max(before, after)
        budget.spend()
        wall = part.walls.next(low - 1, budget)
        while wall is not None and wall < high:
            budget.spend(STEPS_OF_A_NOTE)
            yield gap_note(part, wall, change) if after > before else fold_note(part, wall, zone)
            wall = part.walls.next(wall + (high - low) // 4, budget)
        if wall is None:
            return
        segment = max(segment, zone.segment_of_wall(wall))


def gap_note(part: ZonedWalls, wall: int, change: int) -> Note:
    segment = part.zone.segment(change)
    size = part.zone.offsets[segment] - part.zone.offsets[segment - 1]
    gap = part.rule.gap_of(size)
    missing = f"{wall_text(wall)} does not exist in {part.zone.name}"
    if gap == "skip":
        return Note("gap", f"{missing}; it is left out", from_us(change * SECOND), True)
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
