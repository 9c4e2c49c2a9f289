"""The history of rates and depths."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from onbeat.model.pulse import Gauges, Pulse
from onbeat.rules.pulses import slot

PulseKey = tuple[int, datetime, str]
SampleKey = tuple[int, datetime]


class HistoryTables:
    """Rows by their keys. They are few, so that reading them all is cheap."""

    def __init__(self) -> None:
        self.pulses: dict[PulseKey, Pulse] = {}
        self.samples: dict[SampleKey, Gauges] = {}


def put_pulses(history: HistoryTables, pulses: Sequence[Pulse]) -> int:
    before = len(history.pulses)
    for pulse in pulses:
        history.pulses.setdefault((pulse.resolution, pulse.at, pulse.source), pulse)
    return len(history.pulses) - before


def pulses(
    history: HistoryTables,
    resolution: int,
    first: datetime,
    last: datetime,
    limit: int,
    *,
    series: bool,
) -> Sequence[Pulse]:
    found = [
        pulse if series else replace(pulse, series=())
        for (seconds, at, _), pulse in newest_first(history)
        if seconds == resolution and first <= at < last
    ]
    return found[:limit]


def newest_first(history: HistoryTables) -> list[tuple[PulseKey, Pulse]]:
    return sorted(history.pulses.items(), key=lambda item: item[0], reverse=True)


def oldest_history(history: HistoryTables, resolution: int) -> datetime | None:
    ats = [at for seconds, at, _ in history.pulses if seconds == resolution]
    ats += [at for seconds, at in history.samples if seconds == resolution]
    return min(ats, default=None)


def fold_history(
    history: HistoryTables,
    resolution: int,
    first: datetime,
    last: datetime,
    pulses: Sequence[Pulse],
    samples: Sequence[tuple[int, Gauges]],
) -> int:
    put_pulses(history, pulses)
    for seconds, sample in samples:
        put_sample(history, seconds, sample)
    gone = [key for key in history.pulses if key[0] == resolution and first <= key[1] < last]
    past = [key for key in history.samples if key[0] == resolution and first <= key[1] < last]
    for key in gone:
        del history.pulses[key]
    for old in past:
        del history.samples[old]
    return len(gone) + len(past)


def put_sample(history: HistoryTables, resolution: int, sample: Gauges) -> bool:
    key = resolution, slot(sample.at, resolution)
    return history.samples.setdefault(key, sample) is sample


def samples(
    history: HistoryTables, resolution: int, first: datetime, last: datetime, limit: int
) -> Sequence[Gauges]:
    newest = sorted(history.samples.items(), key=lambda item: item[0], reverse=True)
    found = (
        sample for (seconds, at), sample in newest if seconds == resolution and first <= at < last
    )
    return tuple(islice(found, limit))


def newest_sample(history: HistoryTables, resolution: int) -> Gauges | None:
    found = [sample for (step, _), sample in history.samples.items() if step == resolution]
    return max(found, key=lambda sample: sample.at, default=None)
