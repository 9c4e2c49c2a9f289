"""Counters of the engine: plain numbers, because they change many thousand times per second."""

import time
from bisect import bisect_left
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from onbeat.model.attempt import OutcomeName
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import Job
from onbeat.model.limits import SERIES_MAX
from onbeat.model.outcome import (
    Cancelled,
    Failed,
    Lost,
    Outcome,
    Released,
    Snoozed,
    Succeeded,
)
from onbeat.model.pulse import (
    DURATION_BOUNDS,
    LATENESS_BOUNDS,
    OUTCOMES,
    CounterState,
    SeriesKey,
    Totals,
)
from onbeat.model.schedule import Schedule
from onbeat.model.target import lane_of
from onbeat.rules.pulses import counted

# Names come from callers; each pair of queue and task adds about thirty lines per scrape.
QUEUES_MAX: Final = 50
OTHER: Final = "other"

OUTCOME_PLACE: Final[dict[type[Outcome], int]] = {
    Succeeded: OUTCOMES.index(OutcomeName.SUCCEEDED),
    Failed: OUTCOMES.index(OutcomeName.FAILED),
    Snoozed: OUTCOMES.index(OutcomeName.SNOOZED),
    Cancelled: OUTCOMES.index(OutcomeName.CANCELLED),
    Lost: OUTCOMES.index(OutcomeName.LOST),
    Released: OUTCOMES.index(OutcomeName.RELEASED),
}


class Series:
    """The counters of one queue and task. The last bucket of each histogram has no upper bound."""

    __slots__ = (
        "duration",
        "duration_sum",
        "lateness",
        "lateness_sum",
        "outcomes",
        "starts",
    )

    def __init__(self) -> None:
        self.starts = 0
        self.outcomes = [0] * len(OUTCOMES)
        self.lateness = [0] * (len(LATENESS_BOUNDS) + 1)
        self.lateness_sum = 0.0
        self.duration = [0] * (len(DURATION_BOUNDS) + 1)
        self.duration_sum = 0.0

    def totals(self) -> Totals:
        return Totals(
            self.starts, counted(self.outcomes), counted(self.lateness), counted(self.duration)
        )


class ConnectionCounts:
    """Open API connections, and refusals before authentication by reason."""

    __slots__ = ("limit", "open", "refused")

    def __init__(self) -> None:
        self.open = 0
        self.limit = 0
        self.refused: dict[str, int] = {}


class Counters:
    """A `Telemetry` that counts. One event loop writes; any thread may read."""

    def __init__(self, seconds: Callable[[], float] = time.time) -> None:
        self._seconds = seconds
        self.series: dict[SeriesKey, Series] = {}
        self.queues: set[str] = set()
        self.planned_jobs = 0
        self.skipped_occurrences = 0
        self.unplannable_schedules = 0
        self.events_routed = 0
        self.event_jobs = 0
        self.routes_refused = 0
        self.leases_lost = 0
        self.rescued_jobs = 0
        self.pruned_jobs = 0
        self.dead_letters: dict[str, int] = {}
        self.duplicates: dict[str, int] = {}
        self.clock_steps = 0
        self.keys_refused = 0
        self.breakers_open = 0
        self.breakers_opened = 0
        self.shortages: dict[str, int] = {}
        self.loop_failures: dict[str, int] = {}
        self.loop_beats: dict[str, float] = {}
        self.connections = ConnectionCounts()

    def started(self, job: Job, lateness: timedelta) -> None:
        series = self.series_of(job)
        seconds = lateness.total_seconds()
        series.starts += 1
        series.lateness[bisect_left(LATENESS_BOUNDS, seconds)] += 1
        series.lateness_sum += seconds

    def ended(self, job: Job, outcome: Outcome, duration: timedelta) -> None:
        series = self.series_of(job)
        seconds = duration.total_seconds()
        series.outcomes[OUTCOME_PLACE[type(outcome)]] += 1
        series.duration[bisect_left(DURATION_BOUNDS, seconds)] += 1
        series.duration_sum += seconds

    def lease_lost(self, job: Job) -> None:
        self.leases_lost += 1

    def planned(self, jobs: int, skipped: int) -> None:
        self.planned_jobs += jobs
        self.skipped_occurrences += skipped

    def unplannable(self, schedule: Schedule, error: BaseException) -> None:
        self.unplannable_schedules += 1

    def routed(self, events: int, jobs: int) -> None:
        self.events_routed += events
        self.event_jobs += jobs

    def route_refused(self, events: int) -> None:
        self.routes_refused += 1

    def rescued(self, job: Job, worker: WorkerId) -> None:
        self.rescued_jobs += 1

    def pruned(self, jobs: int) -> None:
        self.pruned_jobs += jobs

    def dead_lettered(self, dead_letter: DeadLetter) -> None:
        self.dead_letters[dead_letter.source] = self.dead_letters.get(dead_letter.source, 0) + 1

    def duplicated(self, task: str, job: JobId, source: str) -> None:
        self.duplicates[source] = self.duplicates.get(source, 0) + 1

    def key_refused(self) -> None:
        self.keys_refused += 1

    def clock_stepped(self, seconds: float) -> None:
        self.clock_steps += 1

    def breaker_changed(self, endpoint: str, is_open: bool) -> None:  # noqa: FBT001  a state
        self.breakers_open += 1 if is_open else -1
        self.breakers_opened += is_open

    def ran_short(self, means: str) -> None:
        self.shortages[means] = self.shortages.get(means, 0) + 1

    def loop_failed(self, loop: str, error: BaseException) -> None:
        self.loop_failures[loop] = self.loop_failures.get(loop, 0) + 1

    def loop_beat(self, loop: str) -> None:
        self.loop_beats[loop] = self._seconds()

    def state(self) -> CounterState:
        """All series as they are now."""
        return {key: series.totals() for key, series in self.series.copy().items()}

    def silences(self) -> dict[str, float]:
        """Seconds since the last round of each loop."""
        now = self._seconds()
        return {loop: now - at for loop, at in self.loop_beats.copy().items()}

    def series_of(self, job: Job) -> Series:
        key = (job.queue, lane_of(job.target))
        return self.series.get(key) or self.new_series(*key)

    def new_series(self, queue: str, task: str) -> Series:
        """A new series while there is room, otherwise the shared series for the rest."""
        if queue not in self.queues and len(self.queues) >= QUEUES_MAX:
            queue = OTHER
        if len(self.series) >= SERIES_MAX:
            task = OTHER
        self.queues.add(queue)
        return self.series.setdefault((queue, task), Series())
