"""Parts of the history, of which each row is read once.

A row lists up to 200 series in 12 kB. Rows never change, so what a part needs of them is kept, and
the next answer reads only the rows that are new.
"""

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime, timedelta
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from onbeat.model.limits import PULSES_READ_MAX
from onbeat.model.pulse import Pulse
from onbeat.ports.store import Store
from onbeat.rules.history_parts import KnownPart, by_instant, unknown_spans
from onbeat.rules.pulses import Retention

Known = dict[datetime, KnownPart]
Reduce = Callable[[Sequence[Pulse]], Pulse]

PARTS_MAX: Final = 16
"""Parts of one store that are kept: 3,100 instants each, at most 3 MB; starts by queue 16 MB."""
ROWS_AT_ONCE: Final = 200
"""Whole rows that are read together: about 2 MB, and a tenth of a second of decoding."""


class HistoryPart(msgspec.Struct, frozen=True):
    """`name` tells it from others; `reduce` makes one of the rows of an instant."""

    name: Hashable
    reduce: Reduce


_kept: WeakKeyDictionary[Store, dict[Hashable, dict[int, Known]]] = WeakKeyDictionary()


async def parts(
    store: Store, part: HistoryPart, retention: Retention, first: datetime, last: datetime
) -> Sequence[Pulse]:
    """The part of each instant from `first` on and before `last`, the oldest first."""
    resolution = retention.resolution
    bare = await store.pulses(resolution, first, last, PULSES_READ_MAX, series=False)
    sources = {at: {row.source for row in rows} for at, rows in by_instant(bare).items()}
    known = known_of(store, part.name).setdefault(resolution, {})
    for begin, end in unknown_spans(sources, known, ROWS_AT_ONCE):
        until = end + timedelta(seconds=resolution)
        rows = by_instant(await store.pulses(resolution, begin, until, PULSES_READ_MAX))
        for at, found in rows.items():
            known[at] = KnownPart(frozenset(row.source for row in found), part.reduce(found))
    for at in [at for at in known if at < last - retention.keep or first <= at < last]:
        if at not in sources:  # it was folded
            del known[at]
    return [known[at].part for at in sources if at in known]


def known_of(store: Store, name: Hashable) -> dict[int, Known]:
    """By resolution. What was asked for longest ago makes room."""
    kept = _kept.setdefault(store, {})
    kept[name] = kept.pop(name, {})
    while len(kept) > PARTS_MAX:
        del kept[next(iter(kept))]
    return kept[name]
