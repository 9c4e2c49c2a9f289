"""What the history of rates and depths keeps: differences of counters, folds, and samples."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Final

import msgspec

from onbeat.model.limits import COUNTED_MAX, SERIES_BYTES_MAX, SERIES_MAX
from onbeat.model.pulse import (
    NOTHING,
    CounterState,
    Counts,
    EndedCounts,
    Gauges,
    Pulse,
    SeriesKey,
    SeriesTotals,
    Totals,
)
from onbeat.rules.quantiles import latest_of

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
OTHER: Final = "other"

FINEST: Final = 10
"""Seconds of what one process writes at once, and between two samples of depths."""
SAMPLE_SHARE: Final = 50
"""The pause after a sample, in times of its own duration: it takes at most 2 % of a connection."""
ENDED_SECONDS_MIN: Final = 60.0
WHOLE: Final = 1
"""The resolution of samples with all queues, of which only the newest ones are kept."""
WHOLE_KEPT: Final = timedelta(minutes=1)


class Retention(msgspec.Struct, frozen=True):
    """Rows of `resolution` seconds are kept for `keep`, then folded to those of `into` seconds."""

    resolution: int
    keep: timedelta
    into: int | None


RETENTIONS: Final = (
    Retention(FINEST, timedelta(minutes=62), 60),
    Retention(60, timedelta(hours=25), 600),
    Retention(600, timedelta(days=8), 3_600),
    Retention(3_600, timedelta(days=90), None),
)


def counted(counts: Iterable[int]) -> Counts:
    """The counts without the zeros at their end."""
    result = list(counts)
    while result and not result[-1]:
        result.pop()
    return tuple(result)


def difference(before: Totals, after: Totals) -> Totals:
    """What was counted between two states of the same counters, the later one read next."""
    lateness = subtracted(before.lateness, after.lateness)
    return Totals(
        after.starts - before.starts,
        subtracted(before.outcomes, after.outcomes),
        lateness,
        subtracted(before.duration, after.duration),
        subtracted(before.late, after.late),
        after.latest if lateness else None,
    )


def subtracted(before: Counts, after: Counts) -> Counts:
    return counted(new - old for old, new in zip_longest(before, after, fillvalue=0))


def together(totals: Iterable[Totals]) -> Totals:
    """The sum."""
    parts = list(totals)
    return Totals(
        sum(one.starts for one in parts),
        added([one.outcomes for one in parts]),
        added([one.lateness for one in parts]),
        added([one.duration for one in parts]),
        added([one.late for one in parts]),
        latest_of(parts),
    )


def added(counts: Sequence[Counts]) -> Counts:
    return counted(sum(places) for places in zip_longest(*counts, fillvalue=0))


def pulse_between(
    before: CounterState, after: CounterState, at: datetime, source: str
) -> Pulse | None:
    """What a process has counted since `before`; None where nothing moved."""
    moved = {
        key: totals
        for key, state in after.items()
        if (totals := difference(before.get(key, NOTHING), state)) != NOTHING
    }
    return pulse_of(moved, FINEST, at, source) if moved else None


def pulse_of(
    series: Mapping[SeriesKey, Totals], resolution: int, at: datetime, source: str = ""
) -> Pulse:
    totals = together(series.values())
    return Pulse(resolution=resolution, at=at, source=source, totals=totals, series=bounded(series))


def bounded(series: Mapping[SeriesKey, Totals]) -> tuple[SeriesTotals, ...]:
    """The busiest first, within the bounds of a row; the others are one series."""
    order = sorted(
        series.items(), key=lambda item: (item[0] == (OTHER, OTHER), -activity(item[1]), item[0])
    )
    kept: list[SeriesTotals] = []
    rest: list[Totals] = []
    room = SERIES_BYTES_MAX - 1_000  # for the series of the others, and the brackets
    for (queue, task), totals in order:
        one = SeriesTotals(queue, task, totals)
        room -= len(msgspec.json.encode(one)) + 1
        if rest or room < 0 or len(kept) >= SERIES_MAX - 1:
            rest.append(totals)
        else:
            kept.append(one)
    return (*kept, SeriesTotals(OTHER, OTHER, together(rest))) if rest else tuple(kept)


def activity(totals: Totals) -> int:
    return totals.starts + sum(totals.outcomes)


def folded(pulses: Iterable[Pulse], resolution: int) -> list[Pulse]:
    """One for each `resolution` seconds in which there was any, of all processes together."""
    slots: dict[datetime, list[Pulse]] = {}
    for pulse in pulses:
        slots.setdefault(slot(pulse.at, resolution), []).append(pulse)
    return [merged(found, resolution, at) for at, found in sorted(slots.items())]


def merged(pulses: Sequence[Pulse], resolution: int, at: datetime) -> Pulse:
    by_key: dict[SeriesKey, list[Totals]] = {}
    for pulse in pulses:
        for one in pulse.series:
            by_key.setdefault((one.queue, one.task), []).append(one.totals)
    return Pulse(
        resolution=resolution,
        at=at,
        totals=together(pulse.totals for pulse in pulses),
        series=bounded({key: together(parts) for key, parts in by_key.items()}),
    )


def folded_gauges(samples: Iterable[Gauges], resolution: int) -> list[Gauges]:
    """The sample with most due jobs of each `resolution` seconds: a peak stays visible."""
    slots: dict[datetime, Gauges] = {}
    for sample in samples:
        at = slot(sample.at, resolution)
        slots[at] = max(slots.get(at, sample), sample, key=lambda one: one.total.due)
    return [sample for _, sample in sorted(slots.items())]


def slot(at: datetime, seconds: int) -> datetime:
    """The last multiple of so many seconds since the epoch that is not after `at`."""
    return EPOCH + (at - EPOCH) // timedelta(seconds=seconds) * timedelta(seconds=seconds)


def pause_after_sample(took: float) -> float:
    """Seconds until the next sample of depths."""
    return max(float(FINEST), SAMPLE_SHARE * took)


def must_count_ended(newest: Gauges | None, now: datetime) -> bool:
    """Whether ended jobs are to be counted anew: that reads all of them, so it is seldom."""
    if newest is None or newest.ended is None:
        return True
    pause = max(ENDED_SECONDS_MIN, SAMPLE_SHARE * newest.ended.took)
    return now - newest.ended.at >= timedelta(seconds=pause)


def deepest(sample: Gauges, most: int) -> Gauges:
    """The sample with its `most` deepest queues; the number of the others is added to `more`."""
    depths = sample.queues
    order = sorted(depths, key=lambda name: (-depths[name].due, -depths[name].waiting, name))
    kept = {name: depths[name] for name in sorted(order[:most])}
    more = sample.queues_more + len(depths) - len(kept)
    return msgspec.structs.replace(sample, queues=kept, queues_more=more)


def sampled_live(newest: Gauges | None, now: datetime) -> Gauges | None:
    """The newest sample with all queues, where live jobs are too many to be counted once more.

    None where there are few, where a queue is missing, or where nobody has counted lately.
    """
    if newest is None or newest.queues_more:
        return None
    if newest.total.waiting + newest.total.running < COUNTED_MAX:
        return None
    age_max = 2 * pause_after_sample(newest.took)
    return newest if now - newest.at <= timedelta(seconds=age_max) else None


def sampled_ended(newest: Gauges | None, now: datetime) -> EndedCounts | None:
    """The ended jobs of the newest sample, where these are too many to be counted once more.

    None where there are few, or where nobody has counted them lately.
    """
    ended = None if newest is None else newest.ended
    if ended is None or sum(ended.jobs.values()) < COUNTED_MAX:
        return None
    age_max = 2 * max(ENDED_SECONDS_MIN, SAMPLE_SHARE * ended.took)
    return ended if now - ended.at <= timedelta(seconds=age_max) else None
