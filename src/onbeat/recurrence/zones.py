"""Time zones as sorted tables, so that wall clock and instant are one bisection apart.

`zoneinfo` gives the same answers, but not the list of changes that the engine needs. Files are
looked up as in `zoneinfo`: the system's first, then those of the package `tzdata`.
"""

import contextlib
import difflib
import importlib
import pkgutil
import re
import zoneinfo
from bisect import bisect_right
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.tzif import (
    BEGINNING,
    DAY,
    YearlyRule,
    append_change,
    jan1,
    read_footer,
    read_tzif,
)

NEAR_YEAR = 2100
"""Zones are computed up to this year at once; later years on demand."""

FAR_YEAR = 10_000
"""`datetime` ends with 9999; one more year keeps the last change inside the table."""

END = 1 << 40
"""An instant after every other, in seconds."""

REAL_TIME_SHIFT = 3 * 3600
"""Debian's cron treats a change of three hours or more as a corrected clock."""

ZONE_NAME_MAX = 100
"""The longest name in the database has about 32 characters."""

GOOD_NAME = "use an IANA name such as Europe/Berlin"

DstGap = Literal["shift", "skip", "end"]
DstFold = Literal["first", "last", "both"]


class Zone:
    """A zone's table of offsets. `starts` ends with `END`, so segment i + 1 always exists.

    From `calm_from[i]` until `calm_until[i]` wall clock and instant rise together: no wall time in
    a gap or fold at either end of the segment lies between.

    The table grows once, from NEAR_YEAR to FAR_YEAR, by replacing its lists; entries never change.
    """

    __slots__ = ("calm_from", "calm_until", "edge", "name", "offsets", "rule", "starts")

    def __init__(
        self, name: str, starts: list[int], offsets: list[int], rule: YearlyRule | None
    ) -> None:
        self.name = name
        self.rule = rule
        self.starts = starts
        self.offsets = offsets
        changes_for_ever = rule is not None and rule.daylight is not None
        self.grow(NEAR_YEAR, (jan1(NEAR_YEAR) - 2) * DAY if changes_for_ever else END)

    def grow(self, year_end: int, edge: int) -> None:
        """Append the footer's changes up to `year_end`, and the closing entry."""
        starts = [start for start in self.starts if start != END]
        offsets = self.offsets[: len(starts)]
        year = 1970 + max(0, starts[-1]) // (365 * DAY + DAY // 4)
        changes = self.rule.changes(range(year - 1, year_end)) if self.rule else ()
        last = starts[-1]
        for instant, offset in changes:
            if instant > last:
                append_change(starts, offsets, instant, offset)
        # The offset past the end is never used; it saves a bounds check in every reader.
        starts, offsets = [*starts, END], [*offsets, offsets[-1]]
        shifts = [abs(new - old) for old, new in pairwise(offsets)]
        self.calm_from = [
            starts[0],
            *(start + by for start, by in zip(starts[1:], shifts, strict=True)),
        ]
        self.calm_until = [start - by for start, by in zip(starts[1:], shifts, strict=True)]
        self.calm_until[-1] = edge
        # Readers in other threads use `starts` first, so it is replaced last.
        self.offsets = offsets
        self.starts = starts
        self.edge = edge

    def grow_far(self) -> None:
        if self.edge != END:
            self.grow(FAR_YEAR, END)

    def segment(self, instant: int) -> int:
        """Index of the offset in force at `instant`, in seconds."""
        if instant >= self.edge:
            self.grow_far()
        return bisect_right(self.starts, instant) - 1

    def offset(self, instant: int) -> int:
        # Find the segment first, as this can grow the table.
        segment = self.segment(instant)
        return self.offsets[segment]

    @property
    def is_fixed(self) -> bool:
        """Whether the offset has never changed and never will."""
        return len(self.starts) == 2

    def segment_of_wall(self, wall: int) -> int:
        """The segment in which `wall` first occurs; in a gap, the segment before the gap."""
        self.segment(wall + DAY)
        index = max(self.segment(wall - DAY) - 1, 0)
        while self.starts[index + 1] + self.offsets[index] <= wall:
            if self.starts[index + 1] + self.offsets[index + 1] > wall:
                return index  # in the gap between both segments
            index += 1
        return index

    def instants(self, wall: int, gap: DstGap, fold: DstFold) -> tuple[int, ...]:
        """The instants of a wall-clock second: none, one, or two in a fold."""
        index = self.segment_of_wall(wall)
        offset, change = self.offsets[index], self.starts[index + 1]
        if wall >= change + offset:
            return {"shift": (wall - offset,), "skip": (), "end": (change,)}[gap]
        later = self.offsets[index + 1]
        if later >= offset or wall < change + later:
            return (wall - offset,)
        both = (wall - offset, wall - later)
        return {"first": both[:1], "last": both[1:], "both": both}[fold]


UTC_ZONE = Zone("UTC", [BEGINNING], [0], None)


def zone_named(name: str | None) -> Zone:
    """The zone of an IANA name; None is UTC. Raises BadRecurrence for an unknown one."""
    if name is None or name in {"UTC", "Etc/UTC"}:
        return UTC_ZONE
    return load_zone(name)


def chosen_zone(name: str | None) -> Zone:
    """As `zone_named`, for a name that somebody gives now. Raises for one of doubt, too.

    What is stored with such a name is still read: it would not run at all otherwise.
    """
    zone = zone_named(name)
    if name is not None and (doubt := doubt_of(name)):
        raise BadRecurrence(doubt, name, 0)
    return zone


def doubt_of(name: str) -> str | None:
    """Why there are data for the name, and yet it is no zone for a rule, with what to use."""
    folder, _, place = name.partition("/")
    match folder.lower(), place:
        case "right", _:
            return f"{name!r} counts leap seconds, so its times are seconds late; use {place}"
        case "posix", _:
            return f"{name!r} is not known to every machine; use {place}, which is the same"
        case "localtime", "":
            return f"{name!r} is another zone on another machine; {GOOD_NAME}"
        case (("posixrules" | "factory"), ""):
            return f"{name!r} is no place; {GOOD_NAME}"
        case _:
            return None


@lru_cache(maxsize=1000)
def load_zone(name: str) -> Zone:
    data = zone_data(name)
    if data is None:
        raise BadRecurrence(unknown_zone(name), name, 0)
    table = read_tzif(data)
    return Zone(name, table.starts, table.offsets, read_footer(table.footer))


def zone_data(name: str) -> bytes | None:
    if len(name) > ZONE_NAME_MAX or not re.fullmatch(r"[A-Za-z][\w+-]*(/[\w+-]+)*", name, re.ASCII):
        return None
    for folder in zoneinfo.TZPATH:
        with contextlib.suppress(OSError), open(f"{folder}/{name}", "rb") as file:  # noqa: PTH123  pathlib would import os
            return tzif_only(file.read())
    with contextlib.suppress(OSError, ImportError):
        return tzif_only(pkgutil.get_data("tzdata", f"zoneinfo/{name}") or b"")
    return None


def tzif_only(data: bytes) -> bytes | None:
    """The data, unless it is one of the other files that lie beside the zones."""
    return data if data.startswith(b"TZif") else None


def unknown_zone(name: str) -> str:
    close = difflib.get_close_matches(name[:ZONE_NAME_MAX], known_zones(), n=1)
    hint = f"did you mean {close[0]}?" if close else GOOD_NAME
    return f"unknown time zone {name[:ZONE_NAME_MAX]!r}; {hint}"


@lru_cache(maxsize=1)
def known_zones() -> tuple[str, ...]:
    """The names that a rule may have."""
    return tuple(sorted(name for name in zoneinfo.available_timezones() if not doubt_of(name)))


@lru_cache(maxsize=1)
def tzdata_version() -> str:
    """The version of the zone data in use, such as 2026a; "unknown" if it cannot be found."""
    for folder in zoneinfo.TZPATH:
        with contextlib.suppress(OSError), open(f"{folder}/tzdata.zi", encoding="ascii") as file:  # noqa: PTH123  pathlib would import os
            match = re.match(r"# version (\S+)", file.readline())
            return match[1] if match else "unknown"
    return packaged_tzdata_version() or "unknown"


def packaged_tzdata_version() -> str | None:
    """That of the package tzdata, which is used where the system has no zone files."""
    with contextlib.suppress(ImportError):
        return str(importlib.import_module("tzdata").IANA_VERSION)
    return None
