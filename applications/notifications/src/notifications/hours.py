"""Hours of a week in which a recipient wants notices: windows, less quiet times.

Pure arithmetic on minutes of the week, Monday 00:00 being 0. Onbeat reads the windows that come
out; it has windows that are added to each other, and nothing that is taken away.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

DAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
DAY: Final = 24 * 60
WEEK: Final = 7 * DAY
TIME: Final = re.compile(
    r"(?:(?P<days>[A-Z,-]{3,60}) +)?(?P<begin>[0-9]{2}:[0-9]{2})-(?P<end>[0-9]{2}:[0-9]{2})",
    re.ASCII | re.IGNORECASE,
)


def open_hours(windows: Sequence[set[int]], quiet: Sequence[set[int]]) -> tuple[str, ...]:
    """The windows (any time where there is none) without the quiet times; empty if none is left."""
    given = windows or [set(range(WEEK))]
    return tuple(written(set[int]().union(*given).difference(*quiet)))


def minutes_of(time: str) -> set[int]:
    """The minutes of the week of a time such as `MON-FRI 08:00-20:00`.

    One that ends at or before its begin ends on the next day. Raises `ValueError`.
    """
    match = TIME.fullmatch(time.strip())
    if match is None:
        raise ValueError(f"{time[:100]!r} is no time such as MON-FRI 08:00-20:00")
    begin, end = clock(match["begin"]), clock(match["end"])
    if begin == DAY:
        raise ValueError("a time begins before 24:00")
    last = end if end > begin else end + DAY
    return {
        (day * DAY + minute) % WEEK
        for day in days_of(match["days"] or "MON-SUN")
        for minute in range(begin, last)
    }


def clock(text: str) -> int:
    """Minutes after midnight, up to 24:00."""
    hours, minutes = map(int, text.split(":"))
    result = hours * 60 + minutes
    if minutes >= 60 or result > DAY:
        raise ValueError(f"{text} is no time of day from 00:00 to 24:00")
    return result


def days_of(text: str) -> set[int]:
    """Of `MON-FRI` or `MON,WED,SAT-SUN`; `FRI-MON` goes over the end of the week."""
    result = set[int]()
    for part in text.upper().split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise ValueError(f"{text!r} are no days such as MON-FRI or MON,WED,SAT-SUN")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        result.update(day % 7 for day in range(begin, end + 1 + (7 if end < begin else 0)))
    return result


def written(minutes: set[int]) -> Iterator[str]:
    """Windows of these minutes: those of one day's part, with all days that have the same part."""
    days: dict[tuple[int, int], list[int]] = {}
    for day in range(7):
        for part in parts_of([minute in minutes for minute in range(day * DAY, (day + 1) * DAY)]):
            days.setdefault(part, []).append(day)
    for (begin, end), those in sorted(days.items()):
        hours = f"{shown(begin)}-{shown(end)}"
        yield hours if len(those) == 7 else f"{','.join(DAYS[day] for day in those)} {hours}"


def parts_of(day: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Where each run of true minutes begins and ends."""
    begin = None
    for minute, is_open in enumerate([*day, False]):
        if is_open and begin is None:
            begin = minute
        elif not is_open and begin is not None:
            yield begin, minute
            begin = None


def shown(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
