"""Parts of the history: of one queue or task, or starts by queue. Rows are large, parts small."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime

import msgspec

from onbeat.model.pulse import Pulse, SeriesTotals, Totals
from onbeat.rules.pulses import bounded, together


class KnownPart(msgspec.Struct, frozen=True):
    """What the rows of one instant come to, and the processes that these are of."""

    sources: frozenset[str]
    part: Pulse


def part_of(rows: Sequence[Pulse], queue: str | None, task: str | None) -> Pulse:
    """The rows of one instant as one, of one queue, of one task, or of both."""
    chosen = [
        one.totals
        for row in rows
        for one in row.series
        if queue in (None, one.queue) and task in (None, one.task)
    ]
    return merged(rows, together(chosen), ())


def starts_of(rows: Sequence[Pulse]) -> Pulse:
    """The rows of one instant as one, whose series are the starts of each queue.

    It has the bounds of a row, however many processes have counted different queues.
    """
    starts: dict[str, int] = {}
    for row in rows:
        for one in row.series:
            starts[one.queue] = starts.get(one.queue, 0) + one.totals.starts
    series = bounded({(queue, ""): Totals(count) for queue, count in starts.items()})
    return merged(rows, together(row.totals for row in rows), series)


def merged(rows: Sequence[Pulse], totals: Totals, series: tuple[SeriesTotals, ...]) -> Pulse:
    return Pulse(resolution=rows[0].resolution, at=rows[0].at, totals=totals, series=series)


def by_instant(rows: Iterable[Pulse]) -> dict[datetime, list[Pulse]]:
    """The rows of each instant, the oldest first."""
    found: dict[datetime, list[Pulse]] = {}
    for row in rows:
        found.setdefault(row.at, []).append(row)
    return dict(sorted(found.items()))


def unknown_spans(
    sources: Mapping[datetime, AbstractSet[str]], known: Mapping[datetime, KnownPart], rows_max: int
) -> Iterator[tuple[datetime, datetime]]:
    """First and last instants of neighbours that are not known, or not of the same processes.

    `sources` are in order. A span has at most `rows_max` rows, or those of one instant.
    """
    span: list[datetime] = []
    rows = 0
    for at, of_instant in sources.items():
        is_known = at in known and known[at].sources == of_instant
        if span and (is_known or rows + len(of_instant) > rows_max):
            yield span[0], span[-1]
            span, rows = [], 0
        if not is_known:
            span.append(at)
            rows += len(of_instant)
    if span:
        yield span[0], span[-1]
