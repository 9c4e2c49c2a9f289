"""Where instants lie on a timeline, and the times on it: all hours are equal, as clocks are not."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from markupsafe import Markup

from onbeat.dashboard.drawing.svg import element, joined, percent
from onbeat.model.timeline import TimelineSpan
from onbeat.wire.timeline import ClockChangeAnswer

HOUR: Final = timedelta(hours=1)
LABEL_HOURS: Final = {TimelineSpan.HOURS: 1, TimelineSpan.DAY: 3, TimelineSpan.WEEK: 24}
DAY_MINUTES: Final = 24 * 60
HEAD_HEIGHT: Final = 34
LABEL_AT: Final = 12
CHANGE_AT: Final = 28
CLOSE: Final = 0.08
CLOSE_ON_PHONES: Final = 0.22
"""Labels nearer to now than these shares of the width would be written over its time."""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """The axis of one drawing, in the zone of its times."""

    first: datetime
    last: datetime
    now: datetime
    zone: ZoneInfo
    span: TimelineSpan
    changes: Sequence[ClockChangeAnswer] = ()

    def share(self, at: datetime) -> float:
        """From 0 to 1, also for what lies outside."""
        place = (at - self.first) / (self.last - self.first)
        if place <= 0.0:
            return 0.0
        return min(place, 1.0)

    def x(self, at: datetime) -> str:
        return percent(self.share(at))

    @property
    def has_now(self) -> bool:
        return self.first < self.now < self.last

    def wall(self, at: datetime) -> datetime:
        return at.astimezone(self.zone)


def ticks(scale: Scale) -> Iterator[datetime]:
    """The instants of full hours at which there is a line and a label."""
    step, at = LABEL_HOURS[scale.span], scale.first.astimezone(UTC)
    wall = scale.wall(at)
    minutes = timedelta(minutes=wall.minute, seconds=wall.second, microseconds=wall.microsecond)
    at += (HOUR - minutes) if minutes else timedelta()
    while at < scale.last:
        if scale.wall(at).hour % step == 0 and scale.wall(at).minute == 0:
            yield at
        at += HOUR


def label(scale: Scale, at: datetime) -> str:
    """The time of day, with a letter in an hour that comes twice."""
    wall = scale.wall(at)
    if scale.span is TimelineSpan.WEEK:
        return f"{wall:%a} {wall.day}"
    other = scale.wall(at + HOUR), scale.wall(at - HOUR)
    if other[0].hour == wall.hour:
        return f"{wall:%H:%M} A"
    return f"{wall:%H:%M} B" if other[1].hour == wall.hour else f"{wall:%H:%M}"


def sentence(change: ClockChangeAnswer) -> str:
    what = "does not exist" if change.kind == "gap" else "comes twice"
    return f"{change.first} to {change.last} {what}"


def head(scale: Scale) -> Markup:
    """The times above the lanes."""
    parts: list[Markup] = []
    for place, at in enumerate(ticks(scale)):
        away = abs(scale.share(at) - scale.share(scale.now)) if scale.has_now else 1.0
        if away < CLOSE:
            continue
        kind = "tick odd" if place % 2 or away < CLOSE_ON_PHONES else "tick"
        title = element("title", scale.wall(at).isoformat())
        parts.append(
            element("text", label(scale, at), title, class_=kind, x=scale.x(at), y=LABEL_AT)
        )
    if scale.has_now:
        text = f"{scale.wall(scale.now):%H:%M} now"
        x = scale.x(scale.now)
        parts.append(element("text", text, class_="now", text_anchor="middle", x=x, y=LABEL_AT))
    for change in scale.changes:
        anchor = "end" if scale.share(change.at) > 0.7 else "start"
        text = sentence(change)
        x = scale.x(change.at)
        parts.append(element("text", text, class_="turn", text_anchor=anchor, x=x, y=CHANGE_AT))
    return element("svg", joined(parts), class_="axis", width="100%", height=HEAD_HEIGHT)


def ground(scale: Scale, kept_since: datetime | None = None) -> Markup:
    """What lies under all lanes: the future, hours that come twice, lines, and now.

    Before `kept_since` runs are no longer kept, which is hatched.
    """
    parts = [hatch("hatched"), hatch("pruned")]
    if kept_since is not None:
        parts.append(band("pruned", 0.0, scale.share(kept_since), fill="url(#pruned)"))
    if scale.now < scale.last:
        begin = scale.share(max(scale.now, scale.first))
        parts.append(band("future", begin, 1.0))
    for change in scale.changes:
        parts += turned(scale, change)
    for at in ticks(scale):
        parts.append(upright("grid", scale.x(at)))
    if scale.has_now:
        parts.append(upright("now", scale.x(scale.now)))
    return element(
        "svg",
        joined(parts),
        class_="ground",
        width="100%",
        height="100%",
        aria_hidden="true",
        data_first=milliseconds(scale.first),
        data_last=milliseconds(scale.last),
        data_now=milliseconds(scale.now),
        data_zone=scale.zone.key,
    )


def hatch(name: str) -> Markup:
    """The pattern of lanes that are paused, or of a time whose runs are no longer kept."""
    path = "M-2 10L10 -2" if name == "hatched" else "M-2 -2L10 10"
    line = element("path", class_=f"hatch {name}", d=path)
    units = "userSpaceOnUse"
    pattern = element("pattern", line, id=name, width=8, height=8, patternUnits=units)
    return element("defs", pattern)


def turned(scale: Scale, change: ClockChangeAnswer) -> list[Markup]:
    """Two thin lines where an hour is missing; the second of two equal hours is tinted."""
    at = scale.share(change.at)
    if change.kind == "gap":
        return [upright("turn", percent(at)), upright("turn", percent(at + 0.005))]
    length = (minutes(change.last) - minutes(change.first)) % DAY_MINUTES
    return [band("twice", at, scale.share(change.at + timedelta(minutes=length)))]


def minutes(text: str) -> int:
    """Of the day, from `02:30`."""
    hour, minute = text.split(":")
    return int(hour) * 60 + int(minute)


def band(kind: str, first: float, last: float, fill: str | None = None) -> Markup:
    width, x = percent(last - first), percent(first)
    return element("rect", class_=kind, fill=fill, x=x, y=0, width=width, height="100%")


def upright(kind: str, x: str) -> Markup:
    return element("line", class_=kind, x1=x, x2=x, y1="0", y2="100%")


def milliseconds(at: datetime) -> str:
    """Since 1970, exact to the microsecond."""
    text = f"{int(at.timestamp())}{at.microsecond // 1000:03}.{at.microsecond % 1000:03}"
    return text.removesuffix(".000")
