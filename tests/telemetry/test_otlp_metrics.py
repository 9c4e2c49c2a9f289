"""The metrics in the form of OTLP against the page that Prometheus reads."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.resources import Resource

from onbeat.model.outcome import Failed, Succeeded
from onbeat.model.pulse import DURATION_BOUNDS, LATENESS_BOUNDS
from onbeat.telemetry.counters import Counters
from onbeat.telemetry.metrics import Metrics
from onbeat.telemetry.otlp_metrics import metrics_data
from telemetry.jobs import a_job

SINCE, NOW = 1_000, 2_000


def exported(counts: Counters) -> dict[str, Any]:
    data = metrics_data(Metrics(counts).collect(), Resource({}), SINCE, NOW)
    request = encode_metrics(data)
    (scope,) = request.resource_metrics[0].scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def labels_of(point: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in point.attributes}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 10_000)), max_size=30))
def test_every_attempt_is_in_one_bucket(attempts: list[tuple[str, float]]) -> None:
    counts = Counters(lambda: 0.0)
    for task, seconds in attempts:
        counts.started(a_job(task), seconds)
        counts.ended(a_job(task), Succeeded(), seconds)
    metrics = exported(counts)
    for name, bounds in (("lateness", LATENESS_BOUNDS), ("duration", DURATION_BOUNDS)):
        histogram = metrics[f"onbeat_job_{name}_seconds"].histogram
        assert len(histogram.data_points) == len({task for task, _ in attempts})
        for point in histogram.data_points:
            ran = [seconds for task, seconds in attempts if task == labels_of(point)["task"]]
            assert tuple(point.explicit_bounds) == bounds
            assert point.count == sum(point.bucket_counts) == len(ran)
            assert abs(point.sum - sum(ran)) < 1e-3
            below = sum(round(seconds, 6) <= bounds[0] for seconds in ran)
            assert point.bucket_counts[0] == below


def test_a_counter_is_a_sum_that_only_rises_and_has_its_start() -> None:
    counts = Counters(lambda: 7.0)
    counts.ended(a_job("a", queue="q"), Failed("no"), 1)
    counts.loop_beat("planner")
    metrics = exported(counts)
    outcomes = metrics["onbeat_job_outcomes"].sum
    assert (outcomes.is_monotonic, outcomes.aggregation_temporality) == (True, 2)
    found = {labels_of(point)["outcome"]: point.as_double for point in outcomes.data_points}
    assert (found["failed"], found["succeeded"]) == (1, 0)
    point = outcomes.data_points[0]
    assert (point.start_time_unix_nano, point.time_unix_nano) == (SINCE, NOW)
    gauge = metrics["onbeat_loop_last_round_timestamp_seconds"]
    (beat,) = gauge.gauge.data_points
    assert (gauge.unit, beat.as_double, labels_of(beat)) == ("s", 7.0, {"loop": "planner"})
    assert metrics["onbeat_api_connections"].unit == ""
