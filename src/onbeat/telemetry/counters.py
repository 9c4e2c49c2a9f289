"""Counters of the engine: plain numbers, because they change many thousand times per second."""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

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
from onbeat.model.trace_context import is_sampled
from onbeat.ports.store import SucceededAttempt
from onbeat.rules.pulses import counted
from onbeat.rules.quantiles import LATE_PLACE, rough

# Names come from callers; each pair of queue and task adds about forty lines per scrape.
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


SUCCEEDED_PLACE: Final = OUTCOME_PLACE[Succeeded]


class TracedValue(NamedTuple):
    """A value of a histogram with the trace it belongs to; `at` is in Unix time."""

    traceparent: str
    value: float
    at: float


class Series:
    """The counters of one queue and task. The last bucket of each histogram has no upper bound.

    `latest` is the greatest lateness since it was last read for the history.
    `duration_traced` and `lateness_traced` have the newest traced value of a bucket, by its place.
    """

    __slots__ = (
        "duration",
        "duration_sum",
        "duration_traced",
        "lateness",
        "lateness_sum",
        "lateness_traced",
        "latest",
        "outcomes",
        "starts",
    )

    def __init__(self) -> None:
        self.starts = 0
        self.outcomes = [0] * len(OUTCOMES)
        self.lateness = [0] * (len(LATENESS_BOUNDS) + 1)
        self.lateness_sum = 0.0
        self.latest = 0.0
        self.lateness_traced: dict[int, TracedValue] = {}
        self.duration = [0] * (len(DURATION_BOUNDS) + 1)
        self.duration_sum = 0.0
        self.duration_traced: dict[int, TracedValue] = {}

    def totals(self) -> Totals:
        return Totals(
            self.starts,
            counted(self.outcomes),
            counted(rough(self.lateness)),
            counted(self.duration),
            counted(self.lateness[LATE_PLACE:]),
            round(self.latest, 6),
        )


class ConnectionCounts:
    """Open API connections, and refusals before authentication by reason."""

    __slots__ = ("limit", "open", "refused")

    def __init__(self) -> None:
        self.open = 0
        self.limit = 0
        self.refused: dict[str, int] = {}


class Counters:
    """A `Telemetry` that counts. One event loop writes, and any thread what was sent; any reads."""

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
        self.last_series: tuple[str, str, Series] | None = None
        self.dead_letters: dict[str, int] = {}
        self.sent_jobs: dict[str, int] = {}
        self.duplicates: dict[str, int] = {}
        self.repeats: dict[str, int] = {}
        self.sending = threading.Lock()
        self.clock_steps = 0
        self.keys_refused = 0
        self.breakers_open = 0
        self.breakers_opened = 0
        self.shortages: dict[str, int] = {}
        self.loop_failures: dict[str, int] = {}
        self.loop_beats: dict[str, float] = {}
        self.connections = ConnectionCounts()

    def started(self, job: Job, late: float) -> None:
        series = self.series_of(job)
        series.starts += 1
        bucket = bisect_left(LATENESS_BOUNDS, late)
        series.lateness[bucket] += 1
        series.lateness_sum += late
        series.latest = max(series.latest, late)
        if job.traceparent is not None and is_sampled(job.traceparent):
            series.lateness_traced[bucket] = self.traced(job.traceparent, late)

    def ended(self, job: Job, outcome: Outcome, seconds: float) -> None:
        series = self.series_of(job)
        series.outcomes[OUTCOME_PLACE[type(outcome)]] += 1
        bucket = bisect_left(DURATION_BOUNDS, seconds)
        series.duration[bucket] += 1
        series.duration_sum += seconds
        if job.traceparent is not None and is_sampled(job.traceparent):
            series.duration_traced[bucket] = self.traced(job.traceparent, seconds)

    def succeeded(self, ended: Sequence[SucceededAttempt]) -> None:
        for success in ended:
            job, seconds = success.job, success.seconds
            series = self.series_of(job)
            series.outcomes[SUCCEEDED_PLACE] += 1
            bucket = bisect_left(DURATION_BOUNDS, seconds)
            series.duration[bucket] += 1
            series.duration_sum += seconds
            if job.traceparent is not None and is_sampled(job.traceparent):
                series.duration_traced[bucket] = self.traced(job.traceparent, seconds)

    def traced(self, traceparent: str, value: float) -> TracedValue:
        return TracedValue(traceparent, value, self._seconds())

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

    def sent(self, jobs: int, source: str) -> None:
        with self.sending:
            self.sent_jobs[source] = self.sent_jobs.get(source, 0) + jobs

    def duplicated(self, task: str, job: JobId, source: str) -> None:
        with self.sending:
            self.duplicates[source] = self.duplicates.get(source, 0) + 1

    def repeated(self, operation: str, id: str | None) -> None:
        self.repeats[operation] = self.repeats.get(operation, 0) + 1

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

    def take_state(self) -> CounterState:
        """All series as they are now, with the greatest lateness since the last call.

        For the history alone, which needs the greatest of each of its slots.
        """
        state: dict[SeriesKey, Totals] = {}
        for key, series in self.series.copy().items():
            state[key] = series.totals()
            series.latest = 0.0
        return state

    def silences(self) -> dict[str, float]:
        """Seconds since the last round of each loop."""
        now = self._seconds()
        return {loop: now - at for loop, at in self.loop_beats.copy().items()}

    def series_of(self, job: Job) -> Series:
        """Its series. Jobs of one series mostly come together, so the last one is kept at hand."""
        queue, lane = job.queue, lane_of(job.target)
        last = self.last_series
        if last is not None and last[0] == queue and last[1] == lane:
            return last[2]
        series = self.series.get((queue, lane)) or self.new_series(queue, lane)
        self.last_series = (queue, lane, series)
        return series

    def new_series(self, queue: str, task: str) -> Series:
        """A new series while there is room, otherwise the shared series for the rest."""
        if queue not in self.queues and len(self.queues) >= QUEUES_MAX:
            queue = OTHER
        if len(self.series) >= SERIES_MAX:
            task = OTHER
        self.queues.add(queue)
        return self.series.setdefault((queue, task), Series())
