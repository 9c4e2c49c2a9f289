"""Describes a recurrence as an English sentence."""

from datetime import datetime, timedelta

from onbeat.recurrence.compile import parse_block, parse_cron
from onbeat.recurrence.cron_text import CronParts
from onbeat.recurrence.durations import read_duration
from onbeat.recurrence.instants import EPOCH, read_instant
from onbeat.recurrence.rrule_text import Block, Moment, RuleParts
from onbeat.recurrence.spec import RecurrenceSpec
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.year_masks import month_of, weekday_of

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PERIODS = {
    "YEARLY": "year",
    "MONTHLY": "month",
    "WEEKLY": "week",
    "DAILY": "day",
    "HOURLY": "hour",
    "MINUTELY": "minute",
    "SECONDLY": "second",
}
NAMED_MAX = 8
"""Values that are listed one by one; longer lists are summarized by their count."""


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
    if spec.anchor is None:
        return f"Every {words}"
    return f"Every {words}, from {instant_words(spec.anchor)}"


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


def join_words(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def ordinal(n: int) -> str:
    """`3rd`; from the end, `last` and `3rd last`."""
    if n == -1:
        return "last"
    size = abs(n)
    ending = "th" if 11 <= size % 100 <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(size % 10, "th")
    return f"{size}{ending}{' last' if n < 0 else ''}"


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
    words += time_words(parts, wall, date_only=start is not None and start.form == "date")
    sentence = " ".join(words)
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
    # The sentence names only days and times, and those in UTC would be wrong in another zone.
    return None if spec.tz not in {None, "UTC"} else int(read_instant(spec.anchor).timestamp())


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
    if not words and wall is not None:
        words += own_day_words(parts, wall // DAY)
    if parts.by_month:
        words.append(f"in {join_words([MONTHS[month - 1] for month in parts.by_month])}")
    if parts.skip != "OMIT":
        way = "before" if parts.skip == "BACKWARD" else "after"
        words.append(f"(or the day {way}, where a month has no such day)")
    return words


def weekday_words(parts: RuleParts) -> list[str]:
    words = [f"on {join_words([by_day_words(n, weekday) for n, weekday in parts.by_day])}"]
    if any(n for n, _ in parts.by_day) and parts.freq == "YEARLY" and not parts.by_month:
        words.append("of the year")
    return words


def by_day_words(n: int, weekday: int) -> str:
    return f"the {ordinal(n)} {WEEKDAYS[weekday]}" if n else WEEKDAYS[weekday]


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


def time_words(parts: RuleParts, wall: int | None, *, date_only: bool) -> list[str]:
    if date_only:
        return []
    if parts.freq in {"HOURLY", "MINUTELY", "SECONDLY"}:
        return clock_limit_words(parts)
    if wall is None and not (parts.by_hour and parts.by_minute):
        return clock_limit_words(parts)
    clock = (wall or 0) % DAY
    return [
        clock_words(
            parts.by_hour or (clock // 3600,),
            parts.by_minute or (clock // 60 % 60,),
            parts.by_second or (clock % 60,),
        )
    ]


def clock_limit_words(parts: RuleParts) -> list[str]:
    named = {"hour": parts.by_hour, "minute": parts.by_minute, "second": parts.by_second}
    return [f"in {unit} {join_words(spans_of(values))}" for unit, values in named.items() if values]


def clock_words(hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> str:
    ending = [f":{second:02}" if second else "" for second in seconds]
    if len(hours) * len(minutes) * len(seconds) <= NAMED_MAX:
        times = [f"{h:02}:{m:02}{end}" for h in hours for m in minutes for end in ending]
        return f"at {join_words(times)}"
    words = f"in hour {join_words(spans_of(hours))} at minute {join_words(spans_of(minutes))}"
    return words if seconds == (0,) else f"{words} at second {join_words(spans_of(seconds))}"


def spans_of(values: tuple[int, ...]) -> list[str]:
    """`0 to 5`, `every 15th`, or the values one by one."""
    if len(values) > 2:
        step = values[1] - values[0]
        if all(value == values[0] + index * step for index, value in enumerate(values)):
            by = "" if step == 1 else f" in steps of {step}"
            return [f"{values[0]} to {values[-1]}{by}"]
    return [str(value) for value in values]


def describe_cron(parts: CronParts) -> str:
    words = [cron_clock_words(parts), *cron_day_words(parts)]
    if len(parts.months) < 12:
        words.append(f"in {join_words([MONTHS[month - 1] for month in sorted(parts.months)])}")
    if parts.years:
        words.append(f"in {join_words(spans_of(tuple(sorted(parts.years))))}")
    return " ".join(words)


def cron_clock_words(parts: CronParts) -> str:
    seconds = "" if parts.seconds == (0,) else f" at second {join_words(spans_of(parts.seconds))}"
    if len(parts.hours) == 24 and len(parts.minutes) == 60:
        return "every second" if len(parts.seconds) == 60 else f"every minute{seconds}"
    if len(parts.hours) == 24:
        return f"every hour at minute {join_words(spans_of(parts.minutes))}{seconds}"
    if len(parts.minutes) == 60:
        return f"every minute{seconds} in hour {join_words(spans_of(parts.hours))}"
    return clock_words(parts.hours, parts.minutes, parts.seconds)


def cron_day_words(parts: CronParts) -> list[str]:
    days = [f"the {ordinal(day)}" for day in sorted(parts.month_days)]
    days += [f"the {ordinal(-1 - back)} day" for back in sorted(parts.last_days)]
    days += [
        f"the weekday nearest to the {ordinal(day)}" if day else "the last weekday"
        for day in sorted(parts.near_days)
    ]
    weekdays = [WEEKDAYS[weekday] for weekday in sorted(parts.weekdays)]
    weekdays += [by_day_words(n, weekday) for n, weekday in sorted(parts.nth_weekdays)]
    month_words = f"on {join_words(days)} of the month" if len(parts.month_days) < 31 else ""
    week_words = f"on {join_words(weekdays)}" if len(parts.weekdays) < 7 else ""
    if not month_words or not week_words:
        return [month_words or week_words or "every day"]
    return [f"{month_words} {'or' if parts.either_day else 'if it is also'} {week_words}"]
