"""The caller of a request, and the budget of the request."""

from typing import Final

from starlette.requests import Request

from onbeat.api.security import principal_of
from onbeat.model.limits import RECURRENCE_STEPS_MAX
from onbeat.model.trace_context import HEADER, STATE_HEADER, TraceContext, read_trace
from onbeat.operations.context import OperationContext
from onbeat.recurrence import Budget
from onbeat.telemetry.structured_log import Log

log: Final = Log("onbeat.api")


def context_for(context: OperationContext, request: Request) -> OperationContext:
    """The context of one request; `gone` works once its body has been read."""

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    trace = trace_of(request)
    return context.for_request(
        principal_of(request), Budget(RECURRENCE_STEPS_MAX), wait_for_disconnect, trace
    )


def trace_of(request: Request) -> TraceContext | None:
    """The trace context of the caller; one that is malformed, or given twice, is as none."""
    given = request.headers.getlist(HEADER)
    if not given:
        return None
    trace = read_trace(given, request.headers.getlist(STATE_HEADER))
    if trace is None:
        log.debug("request.traceparent_ignored", path=request.url.path)
    return trace
