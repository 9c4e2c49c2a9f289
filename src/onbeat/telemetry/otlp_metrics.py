"""The metrics of the service in the form of OTLP: the same families as on `/metrics`.

The counters are read, not counted again. OpenTelemetry has no instrument that reports a histogram
which was counted elsewhere, so the families are put into its records directly.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
SECONDS: Final = "_seconds"
SCHEMA: Final = ""
NOT_KNOWN: Final[Any] = None  # allowed by the format, though not by the type of the record
Labels = tuple[tuple[str, str], ...]


def metrics_data(
    families: Iterable[Family], resource: Resource, since: int, now: int
) -> MetricsData:
    """All families as one request. `since` is when counting began; both in Unix nanoseconds."""
    metrics = [metric_of(family, since, now) for family in families]
    scope = ScopeMetrics(InstrumentationScope("onbeat"), metrics, SCHEMA)
    return MetricsData([ResourceMetrics(resource, [scope], SCHEMA)])


def metric_of(family: Family, since: int, now: int) -> Metric:
    unit = "s" if family.name.endswith(SECONDS) else ""
    return Metric(family.name, family.documentation, unit, points_of(family, since, now))


def points_of(family: Family, since: int, now: int) -> Sum | Gauge | Histogram:
    match family.type:
        case "counter":
            points = [number(sample, since, now) for sample in family.samples]
            return Sum(points, CUMULATIVE, is_monotonic=True)
        case "histogram":
            return Histogram(list(histogram_points(family, since, now)), CUMULATIVE)
        case _:
            return Gauge([number(sample, 0, now) for sample in family.samples])


def number(sample: Sample, since: int, now: int) -> NumberDataPoint:
    return NumberDataPoint(sample.labels, since, now, float(sample.value))


def histogram_points(family: Family, since: int, now: int) -> Iterator[HistogramDataPoint]:
    """A point for each set of labels: buckets there are cumulated, and here they are not."""
    buckets: dict[Labels, dict[float, float]] = {}
    sums: dict[Labels, float] = {}
    for sample in family.samples:
        labels = {name: text for name, text in sample.labels.items() if name != "le"}
        key = tuple(sorted(labels.items()))
        if sample.name.endswith("_bucket"):
            buckets.setdefault(key, {})[float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_sum"):
            sums[key] = sample.value
    for key, counts in buckets.items():
        yield histogram_point(dict(key), counts, sums.get(key, 0.0), since, now)


def histogram_point(
    labels: Mapping[str, str], cumulated: Mapping[float, float], total: float, since: int, now: int
) -> HistogramDataPoint:
    bounds = sorted(cumulated)
    counts: list[int] = []
    before = 0
    for bound in bounds:
        counts.append(int(cumulated[bound]) - before)
        before = int(cumulated[bound])
    return HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=since,
        time_unix_nano=now,
        count=before,
        sum=total,
        bucket_counts=counts,
        explicit_bounds=[bound for bound in bounds if not math.isinf(bound)],
        min=NOT_KNOWN,
        max=NOT_KNOWN,
    )
