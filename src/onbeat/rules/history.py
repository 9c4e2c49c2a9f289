"""The history as plots show it: points and gaps, parts, and round axes."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from onbeat.model.limits import PULSES_HELD_MAX
from onbeat.model.pulse import Depth, Gauges, Pulse, Totals
from onbeat.rules.pulses import FINEST, folded_gauges, pause_after_sample, slot, together

SpanName = Literal["hour", "day", "week"]


class PlotSpan(msgspec.Struct, frozen=True):
    """How far a plot looks back: `points` steps of `step` seconds."""

    step: int
    points: int

    @property
    def length(self) -> timedelta:
        return timedelta(seconds=self.step * self.points)


SPANS: Final[Mapping[SpanName, PlotSpan]] = {
    "hour": PlotSpan(10, 360),
    "day": PlotSpan(300, 288),
    "week": PlotSpan(1_800, 336),
}


SETTLING: Final = 2 * timedelta(seconds=FINEST * PULSES_HELD_MAX)
"""After it no row comes late: a process holds only so many while its store is away."""


class HistoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The `seconds` from `at` on. None where nothing was measured: that is not zero."""

    at: datetime
    seconds: float
    totals: Totals | None
    gauges: Gauges | None


def measured_until(now: datetime) -> datetime:
    """The end of the last slot that every process has written."""
    return slot(now - timedelta(seconds=FINEST), FINEST)


def settled(points: Sequence[HistoryPoint], now: datetime) -> Sequence[HistoryPoint]:
    """Those at the beginning that no row changes any more, however rows are folded."""
    end = now - SETTLING
    return [one for one in points if one.at + timedelta(seconds=one.seconds) <= end]


def unknown_from(span: PlotSpan, now: datetime, known: Sequence[HistoryPoint]) -> datetime:
    """The instant from which on rows are needed, where some points are known."""
    if known:
        return known[-1].at + timedelta(seconds=span.step)
    return now - span.length - 2 * timedelta(seconds=span.step)


def points_of(
    span: PlotSpan,
    now: datetime,
    pulses: Iterable[Pulse],
    samples: Iterable[Gauges],
    known: Sequence[HistoryPoint] = (),
) -> list[HistoryPoint]:
    """All points of the span, the oldest first. The last one may not be over yet.

    `known` are settled points of an earlier answer: what is behind them needs no rows.
    """
    end = measured_until(now)
    last = slot(end - timedelta(microseconds=1), span.step)
    first = last - (span.points - 1) * timedelta(seconds=span.step)
    counts: dict[datetime, list[Totals]] = {}
    for pulse in pulses:
        counts.setdefault(slot(pulse.at, span.step), []).append(pulse.totals)
    depths = {slot(one.at, span.step): one for one in folded_gauges(samples, span.step)}
    points = [point for point in known if point.at >= first]
    newest = points[-1].gauges if points else None
    for number in range(len(points), span.points):
        at = first + number * timedelta(seconds=span.step)
        newest = depths.get(at) or newest
        sample = newest if newest is not None and covers(newest, at) else None
        found = counts.get(at, () if sample is not None else None)
        seconds = min(float(span.step), (end - at).total_seconds())
        totals = None if found is None else together(found)
        points.append(HistoryPoint(at=at, seconds=seconds, totals=totals, gauges=sample))
    return points


def starts_by_queue(
    now: datetime, pulses: Sequence[Pulse], samples: Iterable[Gauges]
) -> dict[str, tuple[int | None, ...]]:
    """How many attempts of each queue began in each minute of the last hour, the newest last."""
    points = points_of(SPANS["hour"], now, pulses, samples)
    minutes = [points[at : at + 6] for at in range(0, len(points), 6)]
    measured = [any(point.totals is not None for point in minute) for minute in minutes]
    first = points[0].at
    starts: dict[str, list[int]] = {}
    for pulse in pulses:
        place = (pulse.at - first) // timedelta(minutes=1)
        if 0 <= place < len(minutes):
            for one in pulse.series:
                of_queue = starts.setdefault(one.queue, [0] * len(minutes))
                of_queue[place] += one.totals.starts
    return {
        queue: tuple(n if known else None for n, known in zip(counts, measured, strict=True))
        for queue, counts in starts.items()
    }


def covers(sample: Gauges, at: datetime) -> bool:
    """Whether no newer sample was due before `at`."""
    return at - sample.at <= timedelta(seconds=pause_after_sample(sample.took) + FINEST)


def sample_of(sample: Gauges, queue: str | None) -> Gauges:
    """What points of all queues, or of one, need of a sample."""
    depths = {name: depth for name, depth in sample.queues.items() if name == queue}
    return msgspec.structs.replace(sample, queues=depths, unknown_tasks={}, ended=None)


def depth_of(sample: Gauges, queue: str | None) -> Depth | None:
    """The depth of all queues or of one; None where it was not among the deepest."""
    if queue is None:
        return sample.total
    missing = None if sample.queues_more else Depth()
    return sample.queues.get(queue, missing)


def axis_maximum(value: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is not below `value`; 1 for nothing."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    steps = (power * step for step in (1, 2, 5, 10) if power * step >= value)
    return next(steps, power * 20)


DAY_SECONDS: Final = 86_400.0
ROUND_SPANS: Final = (
    60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0, 21_600.0, 43_200.0,
    DAY_SECONDS,
)  # fmt: skip
"""From a minute on: they and their halves are spans that people count in."""


def axis_maximum_of_seconds(value: float) -> float:
    """The least span that people count in and that is not below `value`, in seconds."""
    if value <= ROUND_SPANS[0] / 2:
        return axis_maximum(value)
    if value > DAY_SECONDS:
        return DAY_SECONDS * axis_maximum(value / DAY_SECONDS)
    return next(span for span in ROUND_SPANS if span >= value)
