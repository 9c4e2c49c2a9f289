"""What was started and ended in a span of time, and how many jobs stood in the queues."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from onbeat.model.attempt import OutcomeName

ROUGH_LATENESS_BOUNDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0,
)  # fmt: skip
"""Those of stored pulses since the first version: programs of each read and fold the same rows."""
LATE_FROM: Final = 30.0
LATE_BOUNDS: Final = (
    60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 21600.0, 86400.0,
)  # fmt: skip
"""Those above `LATE_FROM`. All rough ones there are among them, so that both fit together."""
LATENESS_BOUNDS: Final = (
    *(bound for bound in ROUGH_LATENESS_BOUNDS if bound <= LATE_FROM),
    *LATE_BOUNDS,
)
DURATION_BOUNDS: Final = (
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0,
)  # fmt: skip
"""Upper bounds of the buckets of histograms, in seconds; one more bucket has no upper bound."""

OUTCOMES: Final = tuple(OutcomeName)

Counts = tuple[int, ...]
"""Counts by place, without zeros at the end: most histograms use few buckets."""


class Totals(msgspec.Struct, frozen=True, array_like=True):
    """Attempts that began and that ended.

    `outcomes` are in the order of `OUTCOMES`, the histograms in that of their bounds: `lateness`
    in that of the rough ones, `late` in that of `LATE_BOUNDS`. `latest` is the greatest lateness.
    Rows of older versions have neither: some of what `lateness` counts may be missing in `late`,
    and `latest` is None.
    """

    starts: int = 0
    outcomes: Counts = ()
    lateness: Counts = ()
    duration: Counts = ()
    late: Counts = ()
    latest: float | None = None

    def ended(self, outcome: OutcomeName) -> int:
        """How many attempts ended in this way."""
        place = OUTCOMES.index(outcome)
        return self.outcomes[place] if place < len(self.outcomes) else 0


NOTHING: Final = Totals()

SeriesKey = tuple[str, str]
"""A queue and a lane."""
CounterState = Mapping[SeriesKey, Totals]
"""What a process has counted since its start."""


class SeriesTotals(msgspec.Struct, frozen=True, array_like=True):
    """The part of one queue and lane."""

    queue: str
    task: str
    totals: Totals


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in the `resolution` seconds from `at` on.

    `source` is the process that counted it, "" for all of them together. `series` are the parts
    with most attempts, and one of the others.
    """

    resolution: int
    at: datetime
    source: str = ""
    totals: Totals = NOTHING
    series: tuple[SeriesTotals, ...] = ()


class Depth(msgspec.Struct, frozen=True):
    """Jobs of a queue, or of all; `oldest_due_at` is the due time of the oldest due one."""

    waiting: int = 0
    due: int = 0
    running: int = 0
    blocked: int = 0
    oldest_due_at: datetime | None = None


class EndedCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Ended jobs by state. `took` is how many seconds the count has needed."""

    at: datetime
    took: float
    jobs: Mapping[str, int]


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """How many of what there were at one instant; `took` is how long the count has needed.

    `queues` are the deepest by name, `queues_more` the number of others, `total` is of all.
    `unknown_tasks` counts waiting jobs of tasks that no worker knows. `dead_letters` stops at
    `COUNTED_MAX`. `ended` is counted more seldom, and is then that of an earlier sample.
    """

    at: datetime
    took: float = 0.0
    total: Depth = Depth()
    queues: Mapping[str, Depth] = {}
    queues_more: int = 0
    unknown_tasks: Mapping[str, int] = {}
    dead_letters: int = 0
    workers: int = 0
    slots: int = 0
    ended: EndedCounts | None = None
