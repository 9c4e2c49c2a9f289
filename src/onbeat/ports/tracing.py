"""Spans around sending, running and calling, for a tracer that the program or the service has.

Where there is no tracer, a job still passes on the trace context that it was sent with.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Final, Protocol

from onbeat.model.job import Job
from onbeat.model.outcome import Outcome
from onbeat.model.trace_context import TraceContext, ids_of


class SendSpan(Protocol):
    """Sending some jobs; what runs within is part of it."""

    def describe(self, jobs: Sequence[Job]) -> None:
        """Name the jobs, before they are stored."""
        ...


class AttemptSpan(Protocol):
    """Running one attempt."""

    def end_with(self, outcome: Outcome) -> None: ...

    def stop(self, *, timed_out: bool) -> None:
        """The attempt was stopped from outside: by its timeout, or by whoever may."""
        ...


class RequestSpan(Protocol):
    """One HTTP request to an endpoint."""

    def note_status(self, status: int) -> None: ...


class Tracing(Protocol):
    """Makes spans. Each is the active one while its block runs. Nothing in it raises or waits."""

    def send(self, parent: TraceContext | None) -> AbstractContextManager[SendSpan]:
        """Under the active span; else under `parent`, the context of a request or message."""
        ...

    def attempt(self, job: Job, lateness: timedelta) -> AbstractContextManager[AttemptSpan]:
        """Under the span that sent the job, if it has one, with a link to it."""
        ...

    def request(
        self, method: str, scheme: str, host: str, port: int | None
    ) -> AbstractContextManager[RequestSpan]: ...


class ActiveTrace:
    """How this process asks for the active span; `read` is None where nothing makes spans."""

    __slots__ = ("read",)

    def __init__(self) -> None:
        self.read: Callable[[], TraceContext | None] | None = None


ACTIVE: Final = ActiveTrace()
"""One for the process, as the active span is: it belongs to the task or thread that asks."""


class UntracedSend:
    """Implements `SendSpan` where nothing makes spans."""

    def describe(self, jobs: Sequence[Job]) -> None: ...


UNTRACED_SEND: Final = nullcontext[SendSpan](UntracedSend())


def active_trace() -> TraceContext | None:
    """The context of the active span; None without one."""
    return None if ACTIVE.read is None else ACTIVE.read()


def active_ids() -> Mapping[str, str]:
    """The `trace_id` and `span_id` of the active span, for a log line; empty without one."""
    context = active_trace()
    if context is None:
        return {}
    trace_id, span_id = ids_of(context.parent)
    return {"trace_id": trace_id, "span_id": span_id}
