"""Numbers, spans and instants as people read them. No clock, no zone of the machine."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

ID_CHARS: Final = 8  # of each end, when an id is cut in the middle
CUT_CHARS_MAX: Final = 16_384  # of any value on a page
CARET_AT: Final = 20  # characters of a line before a caret
STEPS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
CONTROLS: Final = {
    code: f"\\u{code:04x}"
    for code in (*range(9), 11, 12, *range(14, 32), *range(127, 160), 0x061C, 0x200E, 0x200F)
}
CONTROLS_OF_DIRECTION: Final = {
    code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
"""Text could be shown in another order than it is written."""


INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII)


def number(value: float) -> str:
    """1,204 and 0.3; whole numbers have no fraction."""
    is_whole = float(value).is_integer()
    return f"{int(value):,}" if is_whole else f"{value:,.1f}"


def rate(value: float) -> str:
    """286/s, 19.4/s and 0.25/s: as many digits as tell something."""
    if value >= 100:
        return f"{value:,.0f}/s"
    return f"{value:.1f}".removesuffix(".0") + "/s" if value >= 1 else f"{value:.2g}/s"


def short_number(value: int) -> str:
    """812, 1.2k, 45k, 2.0M: at most four characters up to a billion."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            count = value / size
            return f"{count:.1f}{unit}" if count < 9.95 else f"{count:.0f}{unit}"
    return str(value)


def rounded(value: int) -> str:
    """950, 12 k, 1.2 M."""
    text = short_number(value)
    return f"{text[:-1]} {text[-1]}" if text[-1].isalpha() else text


def duration(span: timedelta | float) -> str:
    """812 ms, 30.0 s, 2 h 12 min: at most two units."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    parts: list[str] = []
    for size, unit in STEPS:
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(filter(None, parts))


def moment(at: datetime, zone: ZoneInfo, now: datetime) -> str:
    """03:12:44 today, `21 Nov 22:50` this year, else with the year."""
    there, today = at.astimezone(zone), now.astimezone(zone)
    if there.date() == today.date():
        return f"{there:%H:%M:%S}"
    day = f"{there.day} {there:%b}"
    if there.year == today.year:
        return f"{day} {there:%H:%M}"
    return f"{day} {there.year} {there:%H:%M}"


def in_zone(text: str, zone: ZoneInfo, now: datetime) -> str:
    """The text with its instants, which are in UTC, on the clock of the zone that it then names."""

    def there(found: re.Match[str]) -> str:
        return f"{moment(datetime.fromisoformat(found[0]), zone, now)} {zone.key}"

    return INSTANT.sub(there, text)


def full_moment(at: datetime, zone: ZoneInfo) -> str:
    """Both clocks, to the millisecond: what hovering shows."""
    there = at.astimezone(zone)
    here = there.isoformat(sep=" ", timespec="milliseconds")
    return f"{here} {zone.key} · {machine_moment(at)}"


def machine_moment(at: datetime) -> str:
    text = at.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def distance(at: datetime, now: datetime) -> str:
    """`in 2 min` and `40 s ago`: one unit."""
    seconds = (at - now).total_seconds()
    size, unit = next((step for step in STEPS if abs(seconds) >= step[0]), STEPS[-1])
    count = f"{abs(seconds) / size:.0f} {unit}"
    return f"in {count}" if seconds > 0 else f"{count} ago"


def short_id(id: str) -> str:
    """Cut in the middle: the begin of an id tells its time, the end tells it from others."""
    if len(id) <= 2 * ID_CHARS + 1:
        return id
    return f"{id[:ID_CHARS]}…{id[-ID_CHARS // 2 :]}"


def pointed(text: str, position: int) -> str:
    """The line of the text with this place, and a caret under the place."""
    place = min(position, len(text))
    begin = text.rfind("\n", 0, place) + 1
    line = text[begin:].partition("\n")[0]
    first = max(begin, place - CARET_AT) - begin
    before = "…" if first else ""
    seen = shown(line[first : first + 2 * CARET_AT])
    caret = len(before) + len(shown(line[first : place - begin]))
    return f"{before}{seen}\n{' ' * caret}^"


def size(count: int) -> str:
    """Bytes in the largest unit of 1,000 that leaves a whole number."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            value = count / factor
            return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
    return f"{count} B"


LINE_CHARS_MAX: Final = 300


def last_line(error: str) -> str:
    """What happened, within a cell of a table; the lines before it say where."""
    lines = error.strip().splitlines()
    last = lines[-1] if lines else ""
    return last if len(last) <= LINE_CHARS_MAX else f"{last[:LINE_CHARS_MAX]}…"


def shown(text: str) -> str:
    """Bounded, with control characters as escapes."""
    kept = text[:CUT_CHARS_MAX].translate(CONTROLS | CONTROLS_OF_DIRECTION)
    left = len(text) - CUT_CHARS_MAX
    return kept if left <= 0 else f"{kept}… and {left:,} more characters"


def typed(text: str) -> str:
    """What a form had, as far as a browser gives it back: without control characters."""
    plain = text.replace("\r\n", "\n")
    return plain.translate(dict.fromkeys(CONTROLS | CONTROLS_OF_DIRECTION))


def as_text(value: object) -> str:
    """A value of an answer: a text as it is, anything else as JSON."""
    if value is None:
        return "not set"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
