"""The caller of a request, and the budget of the request."""

from starlette.requests import Request

from onbeat.api.security import principal_of
from onbeat.model.limits import RECURRENCE_STEPS_MAX
from onbeat.operations.context import OperationContext
from onbeat.recurrence import Budget


def context_for(context: OperationContext, request: Request) -> OperationContext:
    """The context of one request; `gone` works once its body has been read."""

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return context.for_request(
        principal_of(request), Budget(RECURRENCE_STEPS_MAX), wait_for_disconnect
    )
