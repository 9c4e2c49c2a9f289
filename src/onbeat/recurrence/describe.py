"""Describes a recurrence as an English sentence."""

from datetime import datetime, timedelta

from onbeat.recurrence.compile import parse_block, parse_cron
from onbeat.recurrence.describe_cron import describe_cron
from onbeat.recurrence.durations import read_duration
from onbeat.recurrence.instants import EPOCH, read_instant
from onbeat.recurrence.rrule_text import Block, Moment, RuleParts
from onbeat.recurrence.spec import RecurrenceSpec
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.words import (
    MONTHS,
    NAMED_MAX,
    WEEKDAYS,
    by_day_words,
    clock_words,
    join_words,
    ordinal,
    spans_of,
)
from onbeat.recurrence.year_masks import month_of, weekday_of
from onbeat.recurrence.zones import zone_named

SHORT = {"HOURLY": ("minute", "second"), "MINUTELY": ("second",), "SECONDLY": ()}
"""Frequencies of elapsed time, and the fields of the clock that their periods keep."""

PERIODS = {
    "YEARLY": "year",
    "MONTHLY": "month",
    "WEEKLY": "week",
    "DAILY": "day",
    "HOURLY": "hour",
    "MINUTELY": "minute",
    "SECONDLY": "second",
}


def describe(spec: RecurrenceSpec) -> str:
    match spec.kind:
        case "rrule":
            return in_zone(describe_block(parse_block(spec.text), spec), spec.tz)
        case "cron":
            return in_zone(describe_cron(parse_cron(spec.text, spec.key)), spec.tz)
        case "every":
            return describe_every(spec)
        case "once":
            return f"Once, at {instant_words(spec.text)}"
        case "function":
            return f"Whenever {spec.text} says"
        case "event":
            return f"On event {spec.text.replace(', ', ' or ')}"
        case _:
            return describe_combined(spec)


def describe_combined(spec: RecurrenceSpec) -> str:
    base, *others = [describe(member) for member in spec.members]
    if spec.kind == "union":
        return "; and ".join([base, *others])
    if spec.kind == "excluding":
        return f"{base}; but not: {others[0]}"
    return f"{base}; {roll_words(spec)}"


def in_zone(sentence: str, zone: str | None) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]} ({zone or 'UTC'})"


def roll_words(spec: RecurrenceSpec) -> str:
    words = {
        "skip": "left out",
        "following": "moved to the next one",
        "preceding": "moved to the one before",
        "modified": "moved to the next one, or back if that is in another month",
    }
    return f"an occurrence that is not on a business day is {words[spec.roll]}"


def describe_every(spec: RecurrenceSpec) -> str:
    span = read_duration(spec.text)
    words = several(span.months, "month") if span.months else elapsed_words(span.microseconds)
    begin = "" if spec.anchor is None else f", from {instant_words(spec.anchor)}"
    text = f"Every {words}{begin}"
    return in_zone(text, spec.tz) if span.months and spec.tz else text


def elapsed_words(microseconds: int) -> str:
    rest, words = microseconds, list[str]()
    for unit, size in (("day", DAY), ("hour", 3600), ("minute", 60)):
        count, rest = divmod(rest, size * 1_000_000)
        words += [f"{count} {unit}{'s' if count > 1 else ''}"] if count else []
    if rest:
        words.append(f"{rest / 1_000_000:g} second{'' if rest == 1_000_000 else 's'}")
    text = join_words(words)
    return text.removeprefix("1 ") if len(words) == 1 else text


def several(count: int, unit: str) -> str:
    return unit if count == 1 else f"{count} {unit}s"


def instant_words(text: str) -> str:
    return moment_words(read_instant(text))


def moment_words(instant: datetime) -> str:
    seconds = f":{instant.second:02}" if instant.second or instant.microsecond else ""
    fraction = f".{instant.microsecond:06}".rstrip("0") if instant.microsecond else ""
    zone = " UTC" if instant.tzinfo else ""
    return (
        f"{instant.day} {MONTHS[instant.month - 1]} {instant.year} at"
        f" {instant:%H:%M}{seconds}{fraction}{zone}"
    )


def wall_words(moment: Moment) -> str:
    instant = EPOCH + timedelta(seconds=moment.wall)
    if moment.form == "date":
        return f"{instant.day} {MONTHS[instant.month - 1]} {instant.year}"
    return moment_words(instant if moment.form == "utc" else instant.replace(tzinfo=None))


def describe_block(block: Block, spec: RecurrenceSpec) -> str:
    sentences = [describe_rule(parts, block.start, spec) for parts in block.rules]
    if not block.rules and block.start:
        sentences.append(f"on {wall_words(block.start)}")
    if block.dates:
        sentences.append(dates_words(block.dates))
    sentence = "; and ".join(sentences)
    for parts in block.excluded_rules:
        sentence += f"; but not {describe_rule(parts, block.start, spec)}"
    if block.excluded_dates:
        sentence += f"; but not {dates_words(block.excluded_dates)}"
    return sentence


def dates_words(moments: tuple[Moment, ...]) -> str:
    if len(moments) > NAMED_MAX:
        return f"on {len(moments)} dates"
    return "on " + join_words([wall_words(moment) for moment in moments])


def describe_rule(parts: RuleParts, start: Moment | None, spec: RecurrenceSpec) -> str:
    wall = start.wall if start else anchored_wall(spec)
    words = [f"every {several(parts.interval, PERIODS[parts.freq])}"]
    words += day_words(parts, wall)
    if start is None or start.form != "date":
        words += time_words(parts, wall)
    sentence = " ".join(words) + own_time_words(parts, wall, start)
    if parts.by_position:
        which = join_words([f"the {ordinal(n)}" for n in parts.by_position])
        sentence += f", of these only {which} in each {PERIODS[parts.freq]}"
    if parts.week_start and (parts.freq == "WEEKLY" or parts.by_week):
        sentence += f", weeks starting on {WEEKDAYS[parts.week_start]}"
    if start and start.wall >= DAY:
        sentence += f", from {wall_words(start)}"
    if parts.count_max:
        sentence += f", {parts.count_max} time{'s' if parts.count_max > 1 else ''}"
    if parts.until:
        sentence += f", until {wall_words(parts.until)}"
    return sentence


def anchored_wall(spec: RecurrenceSpec) -> int | None:
    """The wall-clock time of a reference point, if there is one."""
    if spec.anchor is None:
        return None
    instant = int(read_instant(spec.anchor).timestamp())
    return instant + zone_named(spec.tz).offset(instant)


def day_words(parts: RuleParts, wall: int | None) -> list[str]:
    words = weekday_words(parts) if parts.by_day else []
    if parts.by_month_day:
        words.append(f"{'if it is' if words else 'on'} {month_day_words(parts.by_month_day)}")
    if parts.by_year_day:
        words.append(
            f"on the {join_words([ordinal(n) for n in parts.by_year_day])} day of the year"
        )
    if parts.by_week:
        words.append(f"in the {join_words([ordinal(n) for n in parts.by_week])} week")
    if parts.by_easter:
        words.append(when_easter(parts.by_easter, is_condition=bool(words)))
    if not words and wall is not None:
        words += own_day_words(parts, wall // DAY)
    if parts.by_month:
        words.append(f"in {join_words([MONTHS[month - 1] for month in parts.by_month])}")
    if parts.skip != "OMIT":
        way = "before" if parts.skip == "BACKWARD" else "after"
        span = "year" if parts.by_year_day and not parts.by_month_day else "month"
        words.append(f"(or the day {way}, where a {span} has no such day)")
    return words


def weekday_words(parts: RuleParts) -> list[str]:
    words = [f"on {join_words([by_day_words(n, weekday) for n, weekday in parts.by_day])}"]
    if any(n for n, _ in parts.by_day) and parts.freq == "YEARLY" and not parts.by_month:
        words.append("of the year")
    return words


def when_easter(offsets: tuple[int, ...], *, is_condition: bool) -> str:
    words = easter_words(offsets)
    if is_condition:
        return f"if it is {words}"
    return words if offsets[0] else f"on {words}"


def easter_words(offsets: tuple[int, ...]) -> str:
    sides = [(abs(n), "before" if n < 0 else "after") for n in offsets]
    return join_words(
        [
            f"{n} day{'s' if n > 1 else ''} {side} Easter Sunday" if n else "Easter Sunday"
            for n, side in sides
        ]
    )


def month_day_words(days: tuple[int, ...]) -> str:
    named = [f"the {ordinal(day)}{' day' if day < 0 else ''}" for day in days]
    return f"{join_words(named)} of the month"


def own_day_words(parts: RuleParts, day: int) -> list[str]:
    _, month, month_day = month_of(day)
    match parts.freq:
        case "WEEKLY":
            return [f"on {WEEKDAYS[weekday_of(day)]}"]
        case "MONTHLY":
            return [f"on {month_day_words((month_day,))}"]
        case "YEARLY" if parts.by_month:
            return [f"on the {ordinal(month_day)}"]
        case "YEARLY":
            return [f"on {month_day} {MONTHS[month - 1]}"]
        case _:
            return []


def time_words(parts: RuleParts, wall: int | None) -> list[str]:
    if parts.freq in SHORT or (wall is None and not (parts.by_hour and parts.by_minute)):
        return clock_limit_words(parts)
    clock = (wall or 0) % DAY
    return [
        clock_words(
            parts.by_hour or (clock // 3600,),
            parts.by_minute or (clock // 60 % 60,),
            parts.by_second or (clock % 60,),
        )
    ]


def own_time_words(parts: RuleParts, wall: int | None, start: Moment | None) -> str:
    """Which of hour, minute and second are those of the start, where it is easily overlooked."""
    if start is not None and start.form == "date":
        return ""
    given = {"hour": parts.by_hour, "minute": parts.by_minute, "second": parts.by_second}
    if parts.freq in SHORT:
        return "" if start else own_grid_words(parts, wall)
    if not any(given.values()):
        # A start in the text is named at the end of the sentence.
        return "" if start or wall is None else ", the time of its start"
    values = clock_values(wall)
    own = [unit for unit, by in given.items() if not by and (unit == "hour" or values[unit] != 0)]
    return f", {join_words(own)} of its start" if own else ""


def own_grid_words(parts: RuleParts, wall: int | None) -> str:
    """Minute and second of a rule of hours or minutes that begins at a reference point."""
    if wall is None:
        return ""
    values = clock_values(wall)
    own = [
        f"{unit} {values[unit]}"
        for unit, by in (("minute", parts.by_minute), ("second", parts.by_second))
        if not by and values[unit] and unit in SHORT[parts.freq]
    ]
    return f" at {join_words(own)} of its start" if own else ""


def clock_values(wall: int | None) -> dict[str, int | None]:
    if wall is None:
        return {"minute": None, "second": None}
    return {"minute": wall // 60 % 60, "second": wall % 60}


def clock_limit_words(parts: RuleParts) -> list[str]:
    named = {"hour": parts.by_hour, "minute": parts.by_minute, "second": parts.by_second}
    return [f"in {unit} {join_words(spans_of(values))}" for unit, values in named.items() if values]
