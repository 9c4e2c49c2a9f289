"""Describes a cron expression in English."""

from onbeat.recurrence.cron_text import CronParts
from onbeat.recurrence.words import (
    MONTHS,
    WEEKDAYS,
    by_day_words,
    clock_words,
    join_words,
    ordinal,
    spans_of,
)


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
