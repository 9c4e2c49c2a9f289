"""The plots of a page, made of the history's points."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from onbeat.dashboard.drawing.axis import TimeAxis
from onbeat.dashboard.drawing.plot import Plot, PlotLine, PlotMark, plot
from onbeat.dashboard.formats import duration, moment, number, rate
from onbeat.dashboard.renderer import figure
from onbeat.dashboard.viewer import Viewer
from onbeat.rules.history import axis_maximum_of_seconds
from onbeat.wire.pulses import PointAnswer

TABLE_ROWS: Final = 12
STARTS_MARKED: Final = 10
"""Starts of processes that a plot marks, the newest."""
TOGETHER: Final = 60
"""Places of a plot at which starts are told apart: each is six pixels wide on a phone."""
MINUTE: Final = 60.0

Measure = Callable[[PointAnswer], int | None]


@dataclass(frozen=True)
class TableRow:
    """Several points together. None where nothing was measured."""

    at: datetime
    started: int | None
    succeeded: int | None
    failed: int | None
    lateness: float | None
    due: int | None = None


@dataclass(frozen=True)
class DrawnPlot:
    """A plot with its text for the page."""

    plot: Plot
    text: str


@dataclass(frozen=True)
class Drawing:
    """What was drawn of these very points: they change every ten seconds, however many look."""

    points: Sequence[PointAnswer]
    started: Sequence[datetime]
    plots: Sequence[DrawnPlot]
    rows: Sequence[TableRow]
    rates: "Rates | None"


DRAWINGS_KEPT: Final = 24
"""One for each span and zone that is looked at, each of about 100 kB."""
_drawings: dict[tuple[str, int], Drawing] = {}


@dataclass(frozen=True)
class Rates:
    """Per second in the last minute; `change` is against the mean of all points, in percent."""

    started: float | None
    failed: float | None
    change: int | None


def drawing_of(
    viewer: Viewer, points: Sequence[PointAnswer], started: Sequence[datetime] = ()
) -> Drawing:
    """The drawing of the points, made once for all who look."""
    key = viewer.zone.key, len(points)
    known = _drawings.get(key)
    if known is not None and known.points is points and known.started == started:
        return known
    rates = rates_of(points) if points[0].seconds <= MINUTE else None
    plots = [DrawnPlot(one, figure(one)) for one in plots_of(viewer, points, started)]
    drawn = Drawing(points, started, plots, table_of(points), rates)
    if len(_drawings) >= DRAWINGS_KEPT:
        _drawings.clear()
    _drawings[key] = drawn
    return drawn


def plots_of(
    viewer: Viewer, points: Sequence[PointAnswer], started: Sequence[datetime] = ()
) -> Sequence[Plot]:
    """How many ended per second, how late they started, and how many stood in the queues.

    `started` are the starts of processes, which the plots mark.
    """
    last = points[-1]
    axis = TimeAxis(points[0].at, last.at + timedelta(seconds=last.seconds), viewer.zone)
    events = starts_of(axis, started, viewer.now)
    times = [moment(point.at, viewer.zone, viewer.now) for point in points]
    measured = [None if point.started is None else 1.0 for point in points]
    ended = [
        PlotLine("succeeded", per_second(points, lambda point: point.succeeded), "ok", "area"),
        PlotLine("failed", per_second(points, lambda point: point.failed), "fail"),
    ]
    late = [
        PlotLine("p95", [quiet(point, point.lateness_p95) for point in points], "run"),
        PlotLine("median", [quiet(point, point.lateness_p50) for point in points], "wait"),
    ]
    deep = [
        PlotLine("waiting", [point.waiting for point in points], "wait"),
        PlotLine("due", [point.due for point in points], "run", "area"),
    ]
    sampled = [point.due for point in points]
    return [
        plot("Ended per second", axis, ended, times, measured, write=rate, events=events),
        plot(
            "Lateness",
            axis,
            late,
            times,
            measured,
            write=duration,
            events=events,
            maximum=axis_maximum_of_seconds,
        ),
        plot("Jobs in the queues", axis, deep, times, sampled, write=number, events=events),
    ]


def starts_of(axis: TimeAxis, started: Sequence[datetime], now: datetime) -> list[PlotMark]:
    """The newest starts within the axis; those that lie side by side are one."""
    size = (axis.last - axis.first) / TOGETHER
    groups: list[list[datetime]] = []
    for at in sorted(started):
        if not axis.first <= at < axis.last:
            continue
        if groups and at - groups[-1][0] < size:
            groups[-1].append(at)
        else:
            groups.append([at])
    return [
        PlotMark(axis.x(group[0]), words_of_starts(group, axis, now))
        for group in groups[-STARTS_MARKED:]
    ]


def words_of_starts(starts: Sequence[datetime], axis: TimeAxis, now: datetime) -> str:
    """`A new process started at 02:51.`"""
    at = starts[0].astimezone(axis.zone)
    is_today = at.date() == now.astimezone(axis.zone).date()
    when = f"{at:%H:%M}" if is_today else f"{at:%H:%M} on {at.day} {at:%b}"
    if len(starts) == 1:
        return f"A new process started at {when}."
    return f"{len(starts):,} new processes started from {when} on."


def quiet(point: PointAnswer, value: float | None) -> float | None:
    """Where nothing started there is no lateness, which is a gap too."""
    return value if point.started else None


def per_second(points: Sequence[PointAnswer], measure: Measure) -> list[float | None]:
    counts = [(measure(point), point.seconds) for point in points]
    return [None if count is None else count / seconds for count, seconds in counts]


def table_of(points: Sequence[PointAnswer]) -> Sequence[TableRow]:
    """The newest first."""
    size = -(-len(points) // TABLE_ROWS)
    groups = [points[at : at + size] for at in range(0, len(points), size)]
    return [
        TableRow(
            at=group[0].at,
            started=total(group, lambda point: point.started),
            succeeded=total(group, lambda point: point.succeeded),
            failed=total(group, lambda point: point.failed),
            lateness=max(filter(None, (point.lateness_p95 for point in group)), default=None),
            due=max((point.due for point in group if point.due is not None), default=None),
        )
        for group in reversed(groups)
    ]


def total(
    points: Sequence[PointAnswer], measure: Callable[[PointAnswer], int | None]
) -> int | None:
    counts = [count for point in points if (count := measure(point)) is not None]
    return sum(counts) if counts else None


def rates_of(points: Sequence[PointAnswer]) -> Rates:
    """`points` are those of an hour."""
    minute = minutes_of(points)[-1]
    started, mean = mean_rate(minute, started_of), mean_rate(points, started_of)
    change = None if started is None or not mean else round(100 * (started / mean - 1))
    failed = mean_rate(minute, lambda point: point.failed)
    return Rates(started=started, failed=failed, change=change)


def started_of(point: PointAnswer) -> int | None:
    return point.started


def minutes_of(points: Sequence[PointAnswer]) -> list[Sequence[PointAnswer]]:
    """Whole minutes back from the end."""
    size = round(MINUTE / points[0].seconds)
    return [points[end - size : end] for end in range(len(points), size - 1, -size)][::-1]


def mean_rate(points: Sequence[PointAnswer], measure: Measure) -> float | None:
    """Per second, of the points that were measured."""
    count = total(points, measure)
    seconds = sum(point.seconds for point in points if measure(point) is not None)
    return None if count is None else count / seconds
