"""Reads TZif files (RFC 9636) as two lists: the instants of changes, and the offsets after them."""

import calendar
import re
import struct
from collections.abc import Callable, Iterator
from datetime import date
from typing import NamedTuple

DAY = 86400
EPOCH_ORDINAL = 719163
"""`date.toordinal` of 1970-01-01."""

BEGINNING = -(1 << 40)
"""An instant before every other, in seconds; about 35,000 years ago."""


class OffsetTable(NamedTuple):
    """`offsets[i]` holds from `starts[i]` until `starts[i + 1]`; all in seconds."""

    starts: list[int]
    offsets: list[int]
    footer: str


def read_tzif(data: bytes) -> OffsetTable:
    """The 64-bit part of a TZif file, or the 32-bit part of a version 1 file."""
    header, size = block_header(data, 0), 4
    at = 44
    if data[4:5] >= b"2":
        at += block_length(header, 4)
        header, size = block_header(data, at), 8
        at += 44
    starts, offsets = block_table(data, at, header, size)
    footer = data[at + block_length(header, 8) :].strip(b"\n") if size == 8 else b""
    return OffsetTable(starts, offsets, footer.decode("ascii"))


class BlockHeader(NamedTuple):
    isut: int
    isstd: int
    leap: int
    times: int
    types: int
    chars: int


def block_header(data: bytes, at: int) -> BlockHeader:
    if data[at : at + 4] != b"TZif":
        raise ValueError("not a TZif file")
    return BlockHeader(*struct.unpack_from(">6l", data, at + 20))


def block_length(header: BlockHeader, size: int) -> int:
    changes = header.times * (size + 1) + header.types * 6 + header.chars
    return changes + header.leap * (size + 4) + header.isstd + header.isut


def block_table(
    data: bytes, at: int, header: BlockHeader, size: int
) -> tuple[list[int], list[int]]:
    letter = "q" if size == 8 else "l"
    instants = struct.unpack_from(f">{header.times}{letter}", data, at)
    at += header.times * size
    kinds = data[at : at + header.times]
    at += header.times
    kind_offsets = [struct.unpack_from(">l", data, at + 6 * i)[0] for i in range(header.types)]
    is_dst = [data[at + 6 * i + 4] for i in range(header.types)]
    # Before the first change the first standard-time type applies, as in zoneinfo.
    first = kind_offsets[is_dst.index(0)] if 0 in is_dst else kind_offsets[0]
    starts, offsets = [BEGINNING], [first]
    for instant, kind in zip(instants, kinds, strict=True):
        append_change(starts, offsets, instant, kind_offsets[kind])
    return starts, offsets


def append_change(starts: list[int], offsets: list[int], instant: int, offset: int) -> None:
    """Add a change, unless only the zone's abbreviation changed."""
    if offset != offsets[-1]:
        starts.append(instant)
        offsets.append(offset)


class YearlyRule(NamedTuple):
    """The footer of a TZif file: two changes every year, or none."""

    standard: int
    daylight: int | None
    begins: Callable[[int], int]
    ends: Callable[[int], int]

    def changes(self, years: range) -> Iterator[tuple[int, int]]:
        """Pairs of instant and new offset, in order."""
        if self.daylight is None:
            return
        for year in years:
            both = [
                (self.begins(year) - self.standard, self.daylight),
                (self.ends(year) - self.daylight, self.standard),
            ]
            yield from sorted(both)


FOOTER = re.compile(
    r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]+>)(?P<std>[+-]?\d{1,2}(?::\d\d){0,2})"
    r"(?:(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]+>)(?P<dst>[+-]?\d{1,2}(?::\d\d){0,2})?"
    r",(?P<begins>[^,]+),(?P<ends>[^,]+))?"
)


def read_footer(text: str) -> YearlyRule | None:
    """The POSIX rule at the end of the file; None if the file has none."""
    match = FOOTER.fullmatch(text)
    if not match:
        return None
    standard = -clock_seconds(match["std"])
    if not match["begins"]:
        return YearlyRule(standard, None, never_changes, never_changes)
    daylight = -clock_seconds(match["dst"]) if match["dst"] else standard + 3600
    return YearlyRule(standard, daylight, change_day(match["begins"]), change_day(match["ends"]))


def never_changes(year: int) -> int:
    return year


def clock_seconds(text: str) -> int:
    """`[+-]hh[:mm[:ss]]` in seconds; POSIX counts hours west of Greenwich, the caller negates."""
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = ([int(part) for part in text.lstrip("+-").split(":")] + [0, 0])[:3]
    return sign * (hours * 3600 + minutes * 60 + seconds)


def change_day(text: str) -> Callable[[int], int]:
    """A function from the year to the wall-clock second of the change; parses all three forms."""
    day, _, clock = text.partition("/")
    second = clock_seconds(clock) if clock else 7200
    if day.startswith("M"):
        month, week, weekday = (int(part) for part in day[1:].split("."))
        return lambda year: weekday_of_month(year, month, week, weekday) * DAY + second
    if day.startswith("J"):
        # J counts days from 1 and never counts 29 February.
        number = int(day[1:])
        return lambda year: (
            (jan1(year) + number - 1 + (calendar.isleap(year) and number > 59)) * DAY + second
        )
    return lambda year: (jan1(year) + int(day)) * DAY + second


def weekday_of_month(year: int, month: int, week: int, weekday: int) -> int:
    """Day number of the `week`-th (5 = last) `weekday` (0 = Sunday) of a month."""
    first_weekday, length = calendar.monthrange(year, month)
    day = (weekday - 1 - first_weekday) % 7 + 7 * (week - 1)
    while day >= length:
        day -= 7
    return date(year, month, 1).toordinal() - EPOCH_ORDINAL + day


def jan1(year: int) -> int:
    """Day number of 1 January, days since 1970-01-01."""
    past = year - 1
    return past * 365 + past // 4 - past // 100 + past // 400 + 1 - EPOCH_ORDINAL
