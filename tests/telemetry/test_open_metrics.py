"""The second format of the metrics, read by the parser of its own client library."""

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from onbeat.model.outcome import Succeeded
from onbeat.telemetry.counters import Counters
from onbeat.telemetry.metrics import Metrics
from onbeat.telemetry.open_metrics import prefers_open_metrics
from telemetry.jobs import a_job

OPEN = "application/openmetrics-text"
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED = f"00-{TRACE}-00f067aa0ba902b7-01"
UNSAMPLED = f"00-{TRACE}-00f067aa0ba902b7-00"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (OPEN, True),
        (f"{OPEN.upper()}; version=1.0.0", True),
        (PROMETHEUS, True),
        (f"text/plain, {OPEN}", True),
        (f"text/plain, {OPEN};q=0.9", False),
        (f"{OPEN};q=0", False),
        (f"{OPEN};q=nonsense", True),
        ("text/plain", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_which_scraper_gets_it(accept: str, expected: bool) -> None:
    assert prefers_open_metrics(accept) is expected


@pytest.fixture
def counts() -> Counters:
    return Counters(seconds=lambda: 1234.5)


def samples(counts: Counters, accept: str = OPEN) -> Iterator[Any]:
    body, content_type = Metrics(counts, monotonic=lambda: 0.0).exposition(accept)
    assert content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    text = body.decode()
    assert text.endswith("# EOF\n")
    for family in text_string_to_metric_families(text):
        yield from family.samples


def test_it_is_whole_and_has_the_same_counters(counts: Counters) -> None:
    counts.started(a_job(queue="mail"), 0.2)
    found = {sample.name: sample.value for sample in samples(counts) if "queue" in sample.labels}
    assert found["onbeat_job_starts_total"] == 1
    assert found["onbeat_job_lateness_seconds_sum"] == 0.2


def test_the_older_format_is_the_default(counts: Counters) -> None:
    counts.ended(a_job(traceparent=SAMPLED), Succeeded(), 0.6)
    body, content_type = Metrics(counts).exposition("text/plain")
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert b"trace_id" not in body
    assert b"# EOF" not in body


def test_the_newest_sampled_trace_of_a_bucket_is_its_exemplar(counts: Counters) -> None:
    other = SAMPLED.replace("4bf9", "ffff")
    for trace, seconds in ((other, 0.6), (SAMPLED, 0.67), (None, 0.7), (UNSAMPLED, 0.8)):
        counts.started(a_job(traceparent=trace), 2)
        counts.ended(a_job(traceparent=trace), Succeeded(), seconds)
    exemplars = {
        (sample.name, sample.labels["le"]): sample.exemplar
        for sample in samples(counts)
        if sample.exemplar is not None
    }
    assert exemplars.keys() == {
        ("onbeat_job_duration_seconds_bucket", "1.0"),
        ("onbeat_job_lateness_seconds_bucket", "5.0"),
    }
    exemplar = exemplars["onbeat_job_duration_seconds_bucket", "1.0"]
    assert exemplar.labels == {"trace_id": TRACE}
    assert (exemplar.value, float(exemplar.timestamp)) == (0.67, 1234.5)
