"""A slow second opinion: RFC 5545 by looking at every day, zones by asking zoneinfo.

Nothing here is shared with the engine, and nothing is clever: periods are walked one by one from
DTSTART, each day of a period is tested against the table of 3.3.10, and walls are turned into
instants by `datetime`.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

CODES = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
UNIT = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}


def parts_of(text: str) -> dict[str, Any]:
    return dict(part.split("=") for part in text.split(";"))


def numbers(rule: dict[str, Any], name: str) -> list[int]:
    return [int(item) for item in rule[name].split(",")] if name in rule else []


def by_days(rule: dict[str, Any]) -> list[tuple[int, int]]:
    items = rule["BYDAY"].split(",") if "BYDAY" in rule else []
    return [(int(item[:-2] or 0), CODES.index(item[-2:])) for item in items]


def year_length(year: int) -> int:
    return (date(year + 1, 1, 1) - date(year, 1, 1)).days


def month_length(year: int, month: int) -> int:
    following = date(year + month // 12, month % 12 + 1, 1)
    return (following - date(year, month, 1)).days


def week_of(day: date, week_start: int) -> tuple[int, int]:
    """Year and number of the week, by the day in its middle: the week is in that day's year."""
    first = day - timedelta((day.weekday() - week_start) % 7)
    middle = first + timedelta(3)
    return middle.year, (middle.timetuple().tm_yday - 1) // 7 + 1


def weeks_in(year: int, week_start: int) -> int:
    return max(
        week_of(date(year, 12, 31 - back), week_start)[1]
        for back in range(7)
        if week_of(date(year, 12, 31 - back), week_start)[0] == year
    )


def nth_fits(n: int, weekday: int, day: date, in_year: bool) -> bool:
    if day.weekday() != weekday:
        return False
    if n == 0:
        return True
    if in_year:
        index, length = day.timetuple().tm_yday, year_length(day.year)
    else:
        index, length = day.day, month_length(day.year, day.month)
    return n == (index - 1) // 7 + 1 or n == -((length - index) // 7 + 1)


def day_fits(rule: dict[str, Any], day: date, start: datetime) -> bool:  # noqa: C901  one test after another, as the table has them
    """All BY parts that speak of days, with what is left open taken from the start."""
    freq, week_start = rule["FREQ"], CODES.index(rule.get("WKST", "MO"))
    months, month_days = numbers(rule, "BYMONTH"), numbers(rule, "BYMONTHDAY")
    year_days, weeks, days = numbers(rule, "BYYEARDAY"), numbers(rule, "BYWEEKNO"), by_days(rule)
    if not (month_days or year_days or weeks or days):
        if freq == "WEEKLY":
            days = [(0, start.weekday())]
        elif freq == "MONTHLY":
            month_days = [start.day]
        elif freq == "YEARLY":
            month_days = [start.day]
            months = months or [start.month]
    if months and day.month not in months:
        return False
    length = month_length(day.year, day.month)
    if month_days and not {day.day, day.day - length - 1} & set(month_days):
        return False
    index = day.timetuple().tm_yday
    if year_days and not {index, index - year_length(day.year) - 1} & set(year_days):
        return False
    if weeks:
        owner, week = week_of(day, week_start)
        if not {week, week - weeks_in(owner, week_start) - 1} & set(weeks):
            return False
    in_year = freq == "YEARLY" and "BYMONTH" not in rule
    return not days or any(nth_fits(n, weekday, day, in_year) for n, weekday in days)


def period_days(rule: dict[str, Any], start: datetime, index: int) -> list[date]:
    """The days of the index-th period, counted in steps of INTERVAL."""
    step = index * int(rule.get("INTERVAL", "1"))
    week_start = CODES.index(rule.get("WKST", "MO"))
    match rule["FREQ"]:
        case "YEARLY":
            year = start.year + step
            days = [date(year - 1, 12, 22) + timedelta(i) for i in range(366 + 20)]
            if "BYWEEKNO" in rule:
                return [day for day in days if week_of(day, week_start)[0] == year]
            return [day for day in days if day.year == year]
        case "MONTHLY":
            month = start.year * 12 + start.month - 1 + step
            year, month = divmod(month, 12)
            return [date(year, month + 1, day + 1) for day in range(month_length(year, month + 1))]
        case "WEEKLY":
            first = start.date() - timedelta((start.weekday() - week_start) % 7)
            return [first + timedelta(7 * step + i) for i in range(7)]
        case _:
            return [start.date() + timedelta(step)]


def times(rule: dict[str, Any], start: datetime) -> list[timedelta]:
    hours = numbers(rule, "BYHOUR") or [start.hour]
    minutes = numbers(rule, "BYMINUTE") or [start.minute]
    seconds = numbers(rule, "BYSECOND") or [start.second]
    return sorted(
        {
            timedelta(hours=h, minutes=m, seconds=min(s, 59))
            for h in hours
            for m in minutes
            for s in seconds
        }
    )


def choose(rule: dict[str, Any], values: list[datetime]) -> list[datetime]:
    positions = numbers(rule, "BYSETPOS")
    if not positions:
        return values
    return [
        value
        for i, value in enumerate(values)
        if i + 1 in positions or i - len(values) in positions
    ]


def walls(rule: dict[str, Any], start: datetime, end: datetime) -> list[datetime]:
    """Naive datetimes of a rule of days or longer, before `end`."""
    candidates, clock, index = [], times(rule, start), 0
    if "BYWEEKNO" in rule and int(rule.get("INTERVAL", "1")) == 1:
        index = -1
    while True:
        days = period_days(rule, start, index)
        if datetime.combine(days[0], datetime.min.time()) > end:
            break
        values = [
            datetime.combine(day, datetime.min.time()) + at
            for day in days
            if day_fits(rule, day, start)
            for at in clock
        ]
        candidates += [wall for wall in choose(rule, values) if start <= wall < end]
        index += 1
    return candidates[: int(rule["COUNT"])] if "COUNT" in rule else candidates


def instants_of_wall(
    wall: datetime, zone: ZoneInfo, gap: str = "shift", fold: str = "first"
) -> list[datetime]:
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    second = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if first.astimezone(zone).replace(tzinfo=None) != wall:  # in a gap
        if gap == "shift":
            return [first]
        return [] if gap == "skip" else [gap_end(second, first, zone)]
    return {"first": [first], "last": [second], "both": sorted({first, second})}[fold]


def gap_end(low: Any, high: Any, zone: Any) -> Any:
    """The first instant after the change, by halving."""
    low, high = int(low.timestamp()) - 90_000, int(high.timestamp())
    after = datetime.fromtimestamp(high, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == after:
            high = middle
        else:
            low = middle
    return datetime.fromtimestamp(high, UTC)


def elapsed(rule: dict[str, Any], start: datetime, zone: ZoneInfo, end: datetime) -> list[datetime]:
    """Instants of a rule of hours, minutes or seconds, by looking at every second of a period."""
    unit, interval = UNIT[rule["FREQ"]], int(rule.get("INTERVAL", "1"))
    begin = start.replace(tzinfo=zone).astimezone(UTC)
    base = begin - timedelta(seconds=(start.minute * 60 + start.second) % unit)
    candidates, index = [], 0
    while True:
        first = base + timedelta(seconds=index * unit * interval)
        if first >= end:
            break
        values = [first + timedelta(seconds=s) for s in seconds_of(rule, start, first, zone)]
        candidates += [at for at in choose(rule, values) if begin <= at < end]
        index += 1
    return candidates[: int(rule["COUNT"])] if "COUNT" in rule else candidates


def seconds_of(
    rule: dict[str, Any], start: datetime, first: datetime, zone: ZoneInfo
) -> Iterator[int]:
    unit = UNIT[rule["FREQ"]]
    minutes, seconds = numbers(rule, "BYMINUTE"), numbers(rule, "BYSECOND")
    own = (start.minute * 60 + start.second) % unit
    plain = not (seconds or (minutes and unit == 3600))
    for second in [own] if plain else range(unit):
        if not (minutes and unit == 3600) and second // 60 != own // 60:
            continue
        if not (minutes or seconds) and second != own:
            continue
        local = (first + timedelta(seconds=second)).astimezone(zone).replace(tzinfo=None)
        if minutes and local.minute not in minutes:
            continue
        clock_seconds = [min(s, 59) for s in seconds] or ([] if plain else [start.second])
        if clock_seconds and local.second not in clock_seconds:
            continue
        hours = numbers(rule, "BYHOUR")
        if hours and local.hour not in hours:
            continue
        if day_fits(rule, local.date(), start):
            yield second


def instants(
    text: str, start: datetime, name: str, end: datetime, gap: str = "shift", fold: str = "first"
) -> list[datetime]:
    """All occurrences from `start`, a naive wall time in the zone, before the instant `end`."""
    rule, zone = parts_of(text), ZoneInfo(name)
    if rule["FREQ"] in UNIT:
        candidate = elapsed(rule, start, zone, end)
    else:
        far = end.replace(tzinfo=None) + timedelta(3)
        candidate = [
            at for wall in walls(rule, start, far) for at in instants_of_wall(wall, zone, gap, fold)
        ]
    if "UNTIL" in rule:
        until = datetime.strptime(rule["UNTIL"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        candidate = [at for at in candidate if at <= until]
    return sorted({at for at in candidate if at < end})
