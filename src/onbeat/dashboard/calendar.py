"""Eight weeks of a schedule, a cell a day, by the worst that became of its occurrences."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from onbeat.model.occurrence import OccurrenceOutcome
from onbeat.rules.outcomes import worst
from onbeat.wire.outcomes import OccurrenceAnswer

WEEKS: Final = 8
DAYS: Final = 7 * WEEKS
DAY: Final = timedelta(days=1)


class CalendarDay(NamedTuple):
    """`is_read` says whether all of it was looked at; `hours` are 23 or 25 where clocks change."""

    day: date
    outcome: OccurrenceOutcome | None
    words: str
    hours: float
    is_read: bool
    is_today: bool

    @property
    def is_odd(self) -> bool:
        return self.hours != DAY / timedelta(hours=1)


def first_day(now: datetime, zone: ZoneInfo) -> date:
    """The Monday with which the weeks begin that end with the present one."""
    today = now.astimezone(zone).date()
    return today - timedelta(days=today.weekday() + 7 * (WEEKS - 1))


def start_of(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)


def calendar_days(
    occurrences: Iterable[OccurrenceAnswer],
    now: datetime,
    zone: ZoneInfo,
    read_from: datetime | None = None,
) -> list[CalendarDay]:
    """The days in order. Occurrences before `read_from` were not read; None if all were."""
    first = first_day(now, zone)
    counts = counts_of(occurrences, first, zone)
    return [day_of(first + number * DAY, counts, now, zone, read_from) for number in range(DAYS)]


def counts_of(
    occurrences: Iterable[OccurrenceAnswer], first: date, zone: ZoneInfo
) -> dict[date, Counter[OccurrenceOutcome]]:
    """A run of skips counts once for each day that it touches."""
    last = first + (DAYS - 1) * DAY
    counts: dict[date, Counter[OccurrenceOutcome]] = {}
    for one in occurrences:
        end = one.at if not isinstance(one.until, datetime) else one.until
        day = max(first, one.at.astimezone(zone).date())
        until = min(last, end.astimezone(zone).date())
        while day <= until:
            counts.setdefault(day, Counter())[one.disposition] += 1
            day += DAY
    return counts


def day_of(
    day: date,
    counts: Mapping[date, Counter[OccurrenceOutcome]],
    now: datetime,
    zone: ZoneInfo,
    read_from: datetime | None,
) -> CalendarDay:
    begin, end = start_of(day, zone), start_of(day + DAY, zone)
    found = counts.get(day, Counter[OccurrenceOutcome]())
    is_read = read_from is None or begin >= read_from
    words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.items()))
    hours = (end - begin) / timedelta(hours=1)
    notes = [words or ("none" if is_read else "not looked at")]
    if hours != DAY / timedelta(hours=1):
        notes.append(f"a day of {hours:g} hours")
    return CalendarDay(
        day=day,
        outcome=worst(list(found)) if found else None,
        words="; ".join(notes),
        hours=hours,
        is_read=is_read,
        is_today=day == now.astimezone(zone).date(),
    )
