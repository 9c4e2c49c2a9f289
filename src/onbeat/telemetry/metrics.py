"""Counters and store gauges in the formats of Prometheus."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any, Final, Protocol, cast

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.openmetrics import exposition as open_metrics_exposition
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from onbeat.model.errors import OnbeatError
from onbeat.model.limits import UNKNOWN_TASKS_MAX
from onbeat.model.pulse import DURATION_BOUNDS, LATENESS_BOUNDS, OUTCOMES, Gauges
from onbeat.model.queue import Queue
from onbeat.model.transition import Stats
from onbeat.rules.pulses import FINEST, WHOLE, sampled_ended, sampled_live
from onbeat.telemetry.counters import (
    OTHER,
    QUEUES_MAX,
    ConnectionCounts,
    Counters,
    TracedValue,
)
from onbeat.telemetry.open_metrics import CONTENT_TYPE as OPEN_METRICS_CONTENT_TYPE
from onbeat.telemetry.open_metrics import exemplar_of, prefers_open_metrics

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# Scrapes come every 10 to 60 seconds; several scrapers share one reading.
FRESH_SECONDS: Final = 5.0
READ_SECONDS_MAX: Final = 5.0

JOB_LABELS: Final = ("queue", "task")

# The library gives it no types.
generate_open_metrics: Final[Callable[[CollectorRegistry], bytes]] = cast(
    "Any", open_metrics_exposition
).generate_latest

Bucket = tuple[str, float] | tuple[str, float, Exemplar]


class Measured(Protocol):
    """The source of the gauges: a store."""

    async def queues(self, now: datetime, sampled: Gauges | None = None) -> Sequence[Queue]: ...

    async def newest_sample(self, resolution: int) -> Gauges | None: ...

    async def stats(
        self,
        now: datetime,
        ended: Mapping[str, int] | None = None,
        sampled: Gauges | None = None,
    ) -> Stats: ...


class StoreFigures:
    """The figures of the store from the last reading."""

    def __init__(self, now: datetime, queues: Sequence[Queue], stats: Stats) -> None:
        self.now = now
        self.queues = queues
        self.stats = stats


class Metrics(Collector):
    """A collector with its own registry, separate from other metrics of the process."""

    def __init__(self, counts: Counters, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._counts = counts
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._read_at: float | None = None
        self._figures: StoreFigures | None = None
        self._store_up = True
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)

    async def refresh(self, store: Measured, now: datetime) -> None:
        """Read the gauges from the store, unless they are fresh.

        If the store does not answer, the previous figures stay and `onbeat_store_up` shows it.
        """
        async with self._lock:
            at = self._monotonic()
            if self._read_at is not None and at - self._read_at < FRESH_SECONDS:
                return
            self._read_at = at
            try:
                async with asyncio.timeout(READ_SECONDS_MAX):
                    sampled = sampled_live(await store.newest_sample(WHOLE), now)
                    queues = await store.queues(now, sampled)
                    ended = sampled_ended(await store.newest_sample(FINEST), now)
                    counts = None if ended is None else ended.jobs
                    stats = await store.stats(now, counts, sampled)
            except (OnbeatError, TimeoutError):
                self._store_up = False
                return
            self._store_up = True
            self._figures = StoreFigures(now, top_queues(queues), stats)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """The body of `GET /metrics` and its content type, for the `Accept` of the request."""
        if prefers_open_metrics(accept):
            return generate_open_metrics(self.registry), OPEN_METRICS_CONTENT_TYPE
        return generate_latest(self.registry), CONTENT_TYPE

    def collect(self) -> Iterator[Metric]:
        yield from job_metrics(self._counts)
        yield from loop_metrics(self._counts)
        yield from connection_metrics(self._counts.connections)
        yield gauge("store_up", "1 while the store answers.", float(self._store_up))
        if self._figures:
            yield from queue_metrics(self._figures)
            yield from stats_metrics(self._figures.stats)


def top_queues(queues: Sequence[Queue]) -> Sequence[Queue]:
    """The queues with most jobs by name, and the others combined."""
    if len(queues) <= QUEUES_MAX:
        return queues
    fullest = sorted(queues, key=lambda queue: queue.waiting + queue.running, reverse=True)
    rest = fullest[QUEUES_MAX:]
    due_ats = [queue.oldest_due_at for queue in rest if queue.oldest_due_at]
    together = Queue(
        name=OTHER,
        waiting=sum(queue.waiting for queue in rest),
        due=sum(queue.due for queue in rest),
        running=sum(queue.running for queue in rest),
        oldest_due_at=min(due_ats, default=None),
    )
    return [*fullest[:QUEUES_MAX], together]


def counter(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(f"onbeat_{name}", meaning, value=value)


def labelled_counter(name: str, meaning: str, label: str, counts: Mapping[str, int]) -> Metric:
    """Other threads may add to the counts meanwhile."""
    family = CounterMetricFamily(f"onbeat_{name}", meaning, labels=(label,))
    for value, count in dict(counts).items():
        family.add_metric((value,), count)
    return family


def gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"onbeat_{name}", meaning, value=value)


def labelled_gauge(
    name: str, meaning: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    family = GaugeMetricFamily(f"onbeat_{name}", meaning, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def job_metrics(counts: Counters) -> Iterator[Metric]:
    starts = CounterMetricFamily("onbeat_job_starts", "Attempts begun.", labels=JOB_LABELS)
    outcomes = CounterMetricFamily(
        "onbeat_job_outcomes", "Attempts ended, by outcome.", labels=(*JOB_LABELS, "outcome")
    )
    lateness = HistogramMetricFamily(
        "onbeat_job_lateness_seconds", "From due to the start of the attempt.", labels=JOB_LABELS
    )
    duration = HistogramMetricFamily(
        "onbeat_job_duration_seconds", "From start to end of an attempt.", labels=JOB_LABELS
    )
    for labels, series in counts.series.copy().items():
        starts.add_metric(labels, series.starts)
        for name, count in zip(OUTCOMES, series.outcomes, strict=True):
            outcomes.add_metric((*labels, name), count)
        buckets = cumulate(LATENESS_BOUNDS, series.lateness, series.lateness_traced)
        lateness.add_metric(labels, buckets, series.lateness_sum)
        buckets = cumulate(DURATION_BOUNDS, series.duration, series.duration_traced)
        duration.add_metric(labels, buckets, series.duration_sum)
    yield from (starts, outcomes, lateness, duration)


def cumulate(
    bounds: Sequence[float], counts: Sequence[int], traced: Mapping[int, TracedValue]
) -> list[Bucket]:
    """The buckets, each with a trace as its exemplar where there is one."""
    names = [*map(str, bounds), "+Inf"]
    return [
        (name, count, exemplar_of(traced[place])) if place in traced else (name, count)
        for place, (name, count) in enumerate(zip(names, accumulate(counts), strict=True))
    ]


def loop_metrics(counts: Counters) -> Iterator[Metric]:
    yield counter("planned_jobs", "Jobs made by the planner.", counts.planned_jobs)
    yield counter(
        "skipped_occurrences", "Occurrences that got no job, by policy.", counts.skipped_occurrences
    )
    yield counter(
        "unplannable_schedules", "Plans that failed by their rule.", counts.unplannable_schedules
    )
    yield counter("events_routed", "Events decided on by the router.", counts.events_routed)
    yield counter("event_jobs", "Jobs made for events.", counts.event_jobs)
    yield counter(
        "routes_refused", "Decisions of the router that were out of date.", counts.routes_refused
    )
    yield counter("leases_lost", "Results refused as too late.", counts.leases_lost)
    yield counter("jobs_rescued", "Jobs taken back from dead workers.", counts.rescued_jobs)
    yield counter("jobs_pruned", "Ended jobs deleted.", counts.pruned_jobs)
    yield counter("clock_steps", "Times the clock was set by over a second.", counts.clock_steps)
    yield counter("keys_refused", "Requests with a wrong key or none.", counts.keys_refused)
    yield labelled_counter("dead_letters", "Dead letters.", "source", counts.dead_letters)
    yield labelled_counter("jobs_sent", "Jobs added by senders.", "source", counts.sent_jobs)
    meaning = "Submissions that added no job."
    yield labelled_counter("duplicate_submissions", meaning, "source", counts.duplicates)
    meaning = "Requests with an idempotency key that was known."
    yield labelled_counter("repeated_requests", meaning, "operation", counts.repeats)
    yield counter("breakers_opened", "Endpoints that seemed to be down.", counts.breakers_opened)
    yield gauge("breakers_open", "Endpoints that are not called now.", counts.breakers_open)
    meaning = "Attempts put off for want of something of this machine."
    yield labelled_counter("shortages", meaning, "means", counts.shortages)
    yield labelled_counter("loop_failures", "Failed rounds.", "loop", counts.loop_failures)
    beats = [((loop,), at) for loop, at in counts.loop_beats.copy().items()]
    meaning = "When a loop last went round, in Unix time."
    yield labelled_gauge("loop_last_round_timestamp_seconds", meaning, ("loop",), beats)


def connection_metrics(counts: ConnectionCounts) -> Iterator[Metric]:
    yield gauge("api_connections", "Open connections to the API.", counts.open)
    yield gauge("api_connections_max", "Most connections that may be open.", counts.limit)
    meaning = "Connections and requests refused before a key was looked at."
    yield labelled_counter("api_refused", meaning, "reason", counts.refused)


def queue_metrics(reading: StoreFigures) -> Iterator[Metric]:
    depth = GaugeMetricFamily(
        "onbeat_queue_depth",
        "Jobs in a queue; those that are due are among the waiting.",
        labels=("queue", "state"),
    )
    oldest = GaugeMetricFamily(
        "onbeat_queue_oldest_due_seconds",
        "For how long the longest-waiting due job has been due.",
        labels=("queue",),
    )
    for queue in reading.queues:
        depth.add_metric((queue.name, "waiting"), queue.waiting)
        depth.add_metric((queue.name, "due"), queue.due)
        depth.add_metric((queue.name, "running"), queue.running)
        oldest.add_metric((queue.name,), due_seconds(queue, reading.now))
    paused = [((queue.name,), float(queue.paused)) for queue in reading.queues]
    yield from (depth, oldest)
    yield labelled_gauge("queue_paused", "1 while the queue is paused.", ("queue",), paused)


def due_seconds(queue: Queue, now: datetime) -> float:
    if queue.oldest_due_at is None:
        return 0.0
    return max(0.0, (now - queue.oldest_due_at).total_seconds())


def stats_metrics(stats: Stats) -> Iterator[Metric]:
    jobs = [((state,), count) for state, count in stats.jobs.items()]
    yield labelled_gauge("jobs", "Jobs kept, by state.", ("state",), jobs)
    schedules = [((status,), count) for status, count in stats.schedules.items()]
    yield labelled_gauge("schedules", "Schedules, by status.", ("status",), schedules)
    yield gauge("workers", "Workers that are alive.", stats.workers)
    unknown = [((task,), count) for task, count in stats.unknown_tasks.items()]
    meaning = "Due jobs of tasks that no worker knows."
    yield labelled_gauge("unknown_task_jobs", meaning, ("task",), unknown[:UNKNOWN_TASKS_MAX])
