"""Spans by OpenTelemetry. With `otlp.py` the only module that imports it; loaded where it is on.

The names follow the semantic conventions for messaging and for HTTP clients. A span has names,
numbers and kinds of errors, never an argument, a header, a body or the message of an error.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import Token
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    NoOpTracerProvider,
    ProxyTracerProvider,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
    TraceState,
    format_span_id,
    format_trace_id,
)

from onbeat.model.job import Job
from onbeat.model.outcome import Failed, Outcome
from onbeat.model.pulse import OUTCOMES
from onbeat.model.target import lane_of
from onbeat.model.trace_context import (
    TraceContext,
    ids_of,
    is_sampled,
    read_tracestate,
    trace_context,
    traceparent,
)
from onbeat.ports.tracing import ACTIVE
from onbeat.telemetry.counters import OUTCOME_PLACE
from onbeat.telemetry.span_errors import error_of

SCOPE: Final = "onbeat"
SYSTEM: Final = {"messaging.system": "onbeat"}
SEND: Final = SYSTEM | {"messaging.operation.name": "send", "messaging.operation.type": "send"}
PROCESS: Final = SYSTEM | {
    "messaging.operation.name": "process",
    "messaging.operation.type": "process",
}
OUTCOME: Final = "onbeat.outcome"
STOPPED: Final = "stopped"
ERROR_TYPE: Final = "error.type"
ERRORS_FROM: Final = 400  # the first status of an answer that an HTTP client counts as an error


class OtelTracing:
    """Implements `onbeat.ports.tracing.Tracing` by a tracer."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider
        self.tracer: Tracer = provider.get_tracer(SCOPE)
        follow_spans()

    def send(self, parent: TraceContext | None) -> "SendBlock":
        context = None if parent is None or read_active() else context_of(parent)
        return SendBlock(self.tracer.start_span("send", context, SpanKind.PRODUCER, SEND))

    def attempt(self, job: Job, lateness: timedelta) -> "AttemptBlock":
        # Without a sender the trace begins here, whatever span the loops were started in.
        context, links = Context(), list[Link]()
        sender = trace_context(job.traceparent, job.tracestate)
        if sender is not None:
            context, links = context_of(sender), [Link(span_context(sender))]
        lane = lane_of(job.target)
        named: dict[str, str | int | float] = {
            **PROCESS,
            "messaging.destination.name": job.queue,
            "messaging.message.id": job.id,
            "onbeat.task": lane,
            "onbeat.attempt": job.attempt,
            "onbeat.lateness_seconds": lateness.total_seconds(),
        }
        if job.worker is not None:
            named["messaging.client.id"] = job.worker
        if job.schedule_id is not None:
            named["onbeat.schedule_id"] = job.schedule_id
        span = self.tracer.start_span(f"process {lane}", context, SpanKind.CONSUMER, named, links)
        return AttemptBlock(span)

    def request(self, method: str, scheme: str, host: str, port: int | None) -> "RequestBlock":
        """Without the path, which may hold a secret."""
        named: dict[str, str | int] = {
            "http.request.method": method,
            "url.scheme": scheme,
            "server.address": host,
        }
        if port is not None:
            named["server.port"] = port
        span = self.tracer.start_span(method, None, SpanKind.CLIENT, named)
        return RequestBlock(span)


class SpanBlock:
    """A block whose span is the active one; an error that leaves the block is the span's."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.token: Token[Context] | None = None

    def __enter__(self) -> Self:
        self.token = attach(trace.set_span_in_context(self.span))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.note_error(kind)
        # A coroutine that is closed from outside runs in another context, which has no such token.
        if self.token is not None and kind is not GeneratorExit:
            detach(self.token)
        self.span.end()

    def note_error(self, kind: type[BaseException]) -> None:
        self.set_error(kind.__qualname__)

    def set_error(self, kind: str) -> None:
        self.span.set_attribute(ERROR_TYPE, kind)
        self.span.set_status(Status(StatusCode.ERROR))


class SendBlock(SpanBlock):
    """Implements `onbeat.ports.tracing.SendSpan`."""

    def describe(self, jobs: Sequence[Job]) -> None:
        if len(jobs) != 1:
            self.span.set_attribute("messaging.batch.message_count", len(jobs))
        else:
            self.span.set_attribute("messaging.message.id", jobs[0].id)
        if len(lanes := {lane_of(job.target) for job in jobs}) == 1:
            (lane,) = lanes
            self.span.update_name(f"send {lane}")
            self.span.set_attribute("onbeat.task", lane)
        if len(queues := {job.queue for job in jobs}) == 1:
            self.span.set_attribute("messaging.destination.name", queues.pop())


class AttemptBlock(SpanBlock):
    """Implements `onbeat.ports.tracing.AttemptSpan`."""

    def __init__(self, span: Span) -> None:
        super().__init__(span)
        self.is_stopped = False

    def end_with(self, outcome: Outcome) -> None:
        self.span.set_attribute(OUTCOME, OUTCOMES[OUTCOME_PLACE[type(outcome)]])
        if isinstance(outcome, Failed):
            self.add_exception(*error_of(outcome.error))

    def add_exception(self, kind: str, frames: str = "") -> None:
        self.set_error(kind)
        event = {"exception.type": kind}
        if frames:
            event["exception.stacktrace"] = frames
        self.span.add_event("exception", event)

    def stop(self, *, timed_out: bool) -> None:
        self.is_stopped = True
        if timed_out:
            self.span.set_attribute(OUTCOME, OUTCOMES[OUTCOME_PLACE[Failed]])
            self.add_exception(TimeoutError.__name__)
        else:
            self.span.set_attribute(OUTCOME, STOPPED)

    def note_error(self, kind: type[BaseException]) -> None:
        if not self.is_stopped:
            self.add_exception(kind.__qualname__)


class RequestBlock(SpanBlock):
    """Implements `onbeat.ports.tracing.RequestSpan`."""

    def note_status(self, status: int) -> None:
        self.span.set_attribute("http.response.status_code", status)
        if status >= ERRORS_FROM:
            self.set_error(str(status))


def span_context(sender: TraceContext) -> SpanContext:
    """The sender's span, which another process may have made."""
    trace_id, span_id = ids_of(sender.parent)
    flags = TraceFlags(TraceFlags.SAMPLED if is_sampled(sender.parent) else TraceFlags.DEFAULT)
    state = None if sender.state is None else TraceState.from_header([sender.state])
    return SpanContext(int(trace_id, 16), int(span_id, 16), True, flags, state)


def context_of(sender: TraceContext) -> Context:
    return trace.set_span_in_context(NonRecordingSpan(span_context(sender)), Context())


def read_active() -> TraceContext | None:
    """The context of the active span, whoever made it."""
    active = trace.get_current_span().get_span_context()
    if not active.is_valid:
        return None
    parent = traceparent(
        format_trace_id(active.trace_id),
        format_span_id(active.span_id),
        sampled=active.trace_flags.sampled,
    )
    # A program's own sampler may have made it longer than what may be kept.
    state = read_tracestate([active.trace_state.to_header()]) if active.trace_state else None
    return TraceContext(parent, state)


def follow_spans() -> None:
    """From now on what this process sends and logs names the active span."""
    ACTIVE.read = read_active


@contextmanager
def within_span(sender: TraceContext) -> Generator[None, None, None]:
    """The span of another process is the active one here."""
    token = attach(context_of(sender))
    try:
        yield
    finally:
        detach(token)


def global_tracing() -> OtelTracing | None:
    """By the tracer provider that the program has set; None where it has set none."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, ProxyTracerProvider | NoOpTracerProvider):
        return None
    return OtelTracing(provider)
