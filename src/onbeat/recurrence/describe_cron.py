"""Describes a cron expression in English."""

from onbeat.recurrence.cron_text import CronParts
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

EVERY_DAY = "every day"
ON_THE_HOUR = ", on the hour"

LISTED_MAX = 4
"""Times of day that are listed although they come at equal distances."""


def describe_cron(parts: CronParts) -> str:
    round_clock = round_clock_words(parts)
    words = [round_clock or clock_words_of(parts), *cron_day_words(parts)]
    if round_clock and words[1:] == [EVERY_DAY]:
        words = words[:1]
    if len(parts.months) < 12:
        words.append(f"in {join_words([MONTHS[month - 1] for month in sorted(parts.months)])}")
    if parts.years:
        words.append(f"in {join_words(spans_of(tuple(sorted(parts.years))))}")
    if words[0].endswith(ON_THE_HOUR) and words[1:]:
        words[0] += ","
    return " ".join(words)


def round_clock_words(parts: CronParts) -> str | None:
    """The times of a day that come all day long; None where they do not, or are few."""
    if len(parts.hours) == 24:
        return within_hour_words(parts) or f"every hour {minute_words(parts)}"
    step = step_of(parts.hours, 24)
    is_one_time = len(parts.minutes) == len(parts.seconds) == 1
    if step is None or not is_one_time or len(parts.hours) <= LISTED_MAX:
        return None
    first = clock_words(parts.hours[:1], parts.minutes, parts.seconds).removeprefix("at ")
    return f"every {step} hours" + (ON_THE_HOUR if first == "00:00" else f" from {first}")


def clock_words_of(parts: CronParts) -> str:
    """The times of a day that has hours without any."""
    if len(parts.hours) * len(parts.minutes) * len(parts.seconds) > NAMED_MAX:
        words = within_hour_words(parts)
        if words is not None:
            return f"{words} in hour {join_words(spans_of(parts.hours))}"
    return clock_words(parts.hours, parts.minutes, parts.seconds)


def within_hour_words(parts: CronParts) -> str | None:
    """The times of an hour where they come at equal distances all through it, else None."""
    if len(parts.minutes) == 60:
        step = pace_of(parts.seconds, 60, "second")
        return step or f"every minute{second_words(parts)}"
    pace = pace_of(parts.minutes, 60, "minute")
    return None if pace is None else pace + second_words(parts)


def minute_words(parts: CronParts) -> str:
    return f"at minute {join_words(spans_of(parts.minutes))}{second_words(parts)}"


def second_words(parts: CronParts) -> str:
    return "" if parts.seconds == (0,) else f" at second {join_words(spans_of(parts.seconds))}"


def pace_of(values: tuple[int, ...], size: int, unit: str) -> str | None:
    """`every 5 minutes`, with its first value where that is not 0."""
    step = step_of(values, size)
    if step is None or (values[0] and len(values) == 2):
        return None  # `at minute 15 and 45` is plainer
    words = f"every {step} {unit}s" if step > 1 else f"every {unit}"
    return f"{words} from {unit} {values[0]}" if values[0] else words


def step_of(values: tuple[int, ...], size: int) -> int | None:
    """The distance of several values that is the same from the last to the first of the next turn.

    So it is of no step that does not divide `size`: `*/7` begins anew at each hour.
    """
    step, rest = divmod(size, len(values))
    is_even = not rest and values == tuple(range(values[0], size, step))
    return step if is_even and len(values) > 1 else None


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
        return [month_words or week_words or EVERY_DAY]
    return [f"{month_words} {'or' if parts.either_day else 'if it is also'} {week_words}"]
