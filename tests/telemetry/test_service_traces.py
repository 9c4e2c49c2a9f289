"""Traces and metrics of `onbeat up` as a collector gets them."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_trace_id

from conditions import eventually_here
from interfaces.up import Up, up
from onbeat import Onbeat
from onbeat.ports.tracing import ACTIVE
from onbeat.telemetry.tracing import OtelTracing
from telemetry.collector import Collector, Span, collecting, receiving

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE, CALLER_SPAN = CALLER.split("-")[1:3]
CANARY = "canary-argument"
ARGUMENTS = ("app.py", "--store", "memory://")

PROGRAM = """
import logging
from opentelemetry import trace
from onbeat import Context, Onbeat, Retry, http

beat = Onbeat("memory://")
log = logging.getLogger("program")

@beat.task("double")
def double(context: Context, n: int) -> int:
    context.log.warning("from the handler")
    with trace.get_tracer("program").start_as_current_span("within the handler"):
        log.warning("from within")
    return 2 * n

@beat.task("fail", retry=Retry(attempts_max=2, delay=0))
async def fail(word: str) -> None:
    raise ValueError(f"cannot do {word}")

@beat.task("sender")
async def sender(url: str) -> None:
    await beat.asend(http("POST", url))

@beat.task("apart", isolation="process")
def apart(context: Context) -> str:
    span = trace.get_current_span().get_span_context()
    return format(span.trace_id, "032x")
"""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("traced")
    (folder / "app.py").write_text(PROGRAM)
    with up(folder, *ARGUMENTS, open_files=None, **exporting_to(collector.url)) as service:
        yield service


def exporting_to(url: str) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        "OTEL_METRIC_EXPORT_INTERVAL": "50",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "5",
    }


def enqueue(service: Up, job: Any, **headers: str) -> Any:
    status, answer = service.ask("/api/jobs", job, **headers)
    assert status == 201, answer
    return answer


def spans_of(collector: Collector, job: str, name: str, count: int = 1) -> list[Span]:
    """The spans of that name that are of the job, once there are so many."""

    def found() -> list[Span] | None:
        spans = [
            one
            for one in collector.named(name)
            if one.attributes.get("messaging.message.id") == job
        ]
        return spans if len(spans) >= count else None

    return eventually_here(found, f"{count} times {name} of {job}; there are {names(collector)}")


def names(collector: Collector) -> list[str]:
    return [span.name for span in collector.spans]


def child_of(collector: Collector, parent: Span) -> Span:
    def found() -> Span | None:
        return next((one for one in list(collector.spans) if one.parent == parent.id), None)

    return eventually_here(found, f"a span within {parent.name}")


def test_one_trace_goes_from_the_request_to_the_callback(service: Up, collector: Collector) -> None:
    with receiving() as (url, received):
        job = {"target": {"http": {"url": f"{url}/secret-path", "method": "POST"}}}
        id = enqueue(service, job, traceparent=CALLER)["id"]
        eventually_here(lambda: received, "the callback")
    (send,) = spans_of(collector, id, "send @http")
    (process,) = spans_of(collector, id, "process @http")
    call = child_of(collector, process)
    assert (send.kind, process.kind, call.kind) == ("PRODUCER", "CONSUMER", "CLIENT")
    assert {send.trace, process.trace, call.trace} == {TRACE}
    assert send.parent == CALLER_SPAN
    assert process.parent == send.id
    assert process.links == [(TRACE, send.id)]
    assert received[0]["traceparent"] == f"00-{TRACE}-{call.id}-01"
    assert process.attributes["messaging.system"] == "onbeat"
    assert process.attributes["messaging.destination.name"] == "default"
    assert process.attributes["onbeat.attempt"] == 1
    assert process.attributes["onbeat.outcome"] == "succeeded"
    assert process.attributes["onbeat.lateness_seconds"] >= 0
    assert process.resource["service.name"] == "onbeat"
    assert call.name == "POST"
    assert call.attributes["http.response.status_code"] == 204
    assert not any(b"secret-path" in body for body in collector.bodies)


def test_a_request_without_a_trace_begins_one(service: Up, collector: Collector) -> None:
    id = enqueue(service, {"task": "double", "args": [2]})["id"]
    (send,) = spans_of(collector, id, "send double")
    (process,) = spans_of(collector, id, "process double")
    assert send.parent == ""
    assert process.trace == send.trace


@pytest.mark.parametrize("malformed", ["no", CALLER + "-more", CALLER.replace("00-", "ff-"), ""])
def test_a_malformed_trace_is_as_none(service: Up, collector: Collector, malformed: str) -> None:
    id = enqueue(service, {"task": "double", "args": [2]}, traceparent=malformed)["id"]
    (send,) = spans_of(collector, id, "send double")
    assert (send.parent, send.trace != TRACE) == ("", True)


def test_each_attempt_that_fails_says_where_and_not_on_what(
    service: Up, collector: Collector
) -> None:
    id = enqueue(service, {"task": "fail", "args": [CANARY]}, traceparent=CALLER)["id"]
    attempts = spans_of(collector, id, "process fail", 2)
    assert [one.attributes["onbeat.attempt"] for one in attempts] == [1, 2]
    assert {one.trace for one in attempts} == {TRACE}
    for one in attempts:
        assert one.is_error
        assert one.attributes["error.type"] == "ValueError"
        ((name, exception),) = one.events
        assert (name, exception["exception.type"]) == ("exception", "ValueError")
        assert ", in fail" in exception["exception.stacktrace"]
    assert not any(CANARY.encode() in body for body in collector.bodies)
    lines = eventually_here(
        lambda: [line for line in service.events("job.failed") if line["job"] == id], "its line"
    )
    assert lines[0]["trace_id"] == TRACE


def test_a_batch_has_one_span_for_its_sending(service: Up, collector: Collector) -> None:
    jobs = [{"task": "double", "args": [n]} for n in range(3)]
    ids = enqueue(service, {"jobs": jobs}, traceparent=CALLER)["ids"]
    attempts = [spans_of(collector, id, "process double")[0] for id in ids]
    (sent,) = {one.links[0] for one in attempts}
    (send,) = eventually_here(
        lambda: [one for one in collector.spans if one.id == sent[1]], "the span of the sending"
    )
    assert send.attributes["messaging.batch.message_count"] == 3


def test_what_a_handler_sends_continues_its_trace(service: Up, collector: Collector) -> None:
    with receiving() as (url, received):
        id = enqueue(service, {"task": "sender", "args": [url]}, traceparent=CALLER)["id"]
        eventually_here(lambda: received, "the callback")
    (process,) = spans_of(collector, id, "process sender")
    assert child_of(collector, process).name == "send @http"
    assert received[0]["traceparent"].split("-")[1] == TRACE


def test_spans_and_lines_of_a_handler_belong_to_its_attempt(
    service: Up, collector: Collector
) -> None:
    id = enqueue(service, {"task": "double", "args": [4]}, traceparent=CALLER)["id"]
    (process,) = spans_of(collector, id, "process double")
    inner = child_of(collector, process)
    assert inner.name == "within the handler"

    def line(event: str, span: Span) -> bool:
        return any(
            (one.get("trace_id"), one.get("span_id")) == (TRACE, span.id)
            for one in service.events(event)
        )

    eventually_here(lambda: line("from the handler", process), "the line of the job")
    eventually_here(lambda: line("from within", inner), "the line of the program")


def test_a_process_of_its_own_has_the_span_too(service: Up, collector: Collector) -> None:
    id = enqueue(service, {"task": "apart"}, traceparent=CALLER)["id"]
    spans_of(collector, id, "process apart")
    job = eventually_here(lambda: finished(service, id), "the job has ended")
    assert job["result"] == TRACE


def finished(service: Up, id: str) -> Any:
    _, job = service.ask(f"/api/jobs/{id}")
    return job if job["state"] == "succeeded" else None


def test_a_call_of_rpc_is_traced(service: Up, collector: Collector) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "submit:double", "params": [3]}
    _, answer = service.ask("/rpc", call, traceparent=CALLER)
    (process,) = spans_of(collector, answer["result"]["id"], "process double")
    assert process.trace == TRACE


def test_a_trigger_is_a_sender_and_an_occurrence_is_none(service: Up, collector: Collector) -> None:
    schedule = {
        "name": "often", "rrule": "FREQ=SECONDLY;COUNT=3", "target": {"task": "double", "args": [1]}
    }  # fmt: skip
    status, made = service.ask("/api/schedules", schedule)
    assert status == 201, made
    id = made["id"]
    status, answer = service.ask(f"/api/schedules/{id}/trigger", {}, traceparent=CALLER)
    assert status == 200, answer
    (process,) = spans_of(collector, answer["job_id"], "process double")
    assert (process.trace, process.attributes["onbeat.schedule_id"]) == (TRACE, id)

    def planned() -> Span | None:
        runs = [
            one for one in collector.named("process double")
            if one.attributes.get("onbeat.schedule_id") == id and one.trace != TRACE
        ]  # fmt: skip
        return runs[0] if runs else None

    run = eventually_here(planned, "an occurrence of the schedule")
    service.ask(f"/api/schedules/{id}", method="DELETE")
    assert (run.parent, run.links) == ("", [])


def test_a_program_that_sends_to_a_service_is_in_one_trace_with_it(
    service: Up, collector: Collector
) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    client = Onbeat("http://{}:{}".format(*service.address))
    client.backend.tracing = OtelTracing(provider)

    @client.task("double")
    def double(n: int) -> int: ...

    try:
        with provider.get_tracer("client").start_as_current_span("request") as request:
            job = double.send(4)
    finally:
        ACTIVE.read = None
        client.close()
    (process,) = spans_of(collector, job.id, "process double")
    assert process.trace == format_trace_id(request.get_span_context().trace_id)


def test_the_metrics_are_those_of_the_page(service: Up, collector: Collector) -> None:
    id = enqueue(service, {"task": "double", "args": [5], "queue": "counted"})["id"]
    spans_of(collector, id, "process double")
    key = ("counted", "double")
    eventually_here(
        lambda: collector.values("onbeat_job_starts").get(key) == 1, "the start is counted"
    )

    def histogram() -> Any:
        points = collector.metrics["onbeat_job_duration_seconds"].histogram.data_points
        return next(
            (one for one in points if one.attributes[0].value.string_value == "counted"), None
        )

    duration = eventually_here(lambda: (one := histogram()) and one.count and one, "the end")
    assert sum(duration.bucket_counts) == 1
    assert len(duration.bucket_counts) == len(duration.explicit_bounds) + 1
    assert collector.metrics["onbeat_job_duration_seconds"].unit == "s"
    _, page = service.ask("/metrics")
    shown = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE onbeat_")}
    eventually_here(
        lambda: {name.removesuffix("_total") for name in shown} <= {*collector.metrics},
        "all metrics of the page",
    )


def test_the_last_spans_and_counts_are_sent_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    with collecting() as collector:
        never = exporting_to(collector.url) | {
            "OTEL_BSP_SCHEDULE_DELAY": "3600000",
            "OTEL_METRIC_EXPORT_INTERVAL": "3600000",
        }
        with up(tmp_path, *ARGUMENTS, open_files=None, **never) as service:
            id = enqueue(service, {"task": "double", "args": [5]})["id"]
            eventually_here(lambda: finished(service, id), "the job has ended")
            assert collector.spans == []
        assert sorted(names(collector)) == ["process double", "send double", "within the handler"]
        assert collector.values("onbeat_job_starts") == {("default", "double"): 1}


@pytest.mark.parametrize("is_there", [True, False], ids=["silent", "closed"])
def test_a_collector_that_is_away_holds_up_no_job_and_no_end(
    tmp_path: Path, is_there: bool
) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    with collecting(silent=True) as collector:
        url = collector.url if is_there else "http://127.0.0.1:1"
        hour = {"OTEL_EXPORTER_OTLP_TIMEOUT": "3600"}
        with up(tmp_path, *ARGUMENTS, open_files=None, **(exporting_to(url) | hour)) as service:
            if is_there:
                ask_until(service, lambda: collector.asked)
            for n in range(20):
                id = enqueue(service, {"task": "double", "args": [n]})["id"]
                eventually_here(partial(finished, service, id), "the job has ended")
        assert service.process.returncode == 0
        assert service.events("drained")


def ask_until(service: Up, condition: Callable[[], object]) -> None:
    enqueue(service, {"task": "double", "args": [0]})
    eventually_here(condition, "the service has called the collector")
