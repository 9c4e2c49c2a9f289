"""Routes from the table of operations: one for each path, with its operations by method."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onbeat.api.audit_log import log_change
from onbeat.api.bulk import BulkSlots
from onbeat.api.options import ApiOptions
from onbeat.api.request_context import context_for
from onbeat.api.requests import explained, read_request
from onbeat.api.responses import error_response, json_response, replayed_response
from onbeat.operations.context import OperationContext
from onbeat.operations.invoke import call_once, success_status
from onbeat.operations.table import OPERATIONS
from onbeat.operations.tables.operation import Operation
from onbeat.rules.access import check_scope
from onbeat.rules.idempotency import HEADER
from onbeat.wire.idempotency import read_header

FREE: Final = ("/{key}", "/events/{id}")
"""Ends of paths with a parameter that may contain any character, including a slash."""


def rest_routes(context: OperationContext, options: ApiOptions, bulk: BulkSlots) -> Iterator[Route]:
    for one in OPERATIONS:
        if one.former_path is not None:
            by_method = {str(one.method): one}
            answer = endpoint(context, options, bulk, by_method)
            yield Route(route_path(one.former_path), answer, methods=list(by_method))
    # Fixed paths come before paths with parameters.
    ordered = sorted(OPERATIONS, key=lambda operation: ("{" in operation.path, operation.path))
    for path, operations in groupby(ordered, key=lambda operation: operation.path):
        by_method = {str(operation.method): operation for operation in operations}
        yield Route(
            route_path(path), endpoint(context, options, bulk, by_method), methods=list(by_method)
        )


def route_path(path: str) -> str:
    for text in FREE:
        path = path.replace(text, text.replace("}", ":path}"))
    return path


def endpoint(
    context: OperationContext,
    options: ApiOptions,
    bulk: BulkSlots,
    operations: Mapping[str, Operation[Any, Any]],
) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of all operations at one path."""

    async def answer(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        operation = operations[method]
        try:
            acting = context_for(context, request)
            check_scope(acting.principal, operation.scope)
            key = read_header(HEADER, request.headers.getlist(HEADER))
            with bulk.slot() as take:
                params = await read_request(request, operation, options.body_deadline, take)
                result, is_repeat = await call_once(acting, operation, params, key)
        except Exception as error:  # noqa: BLE001  every error becomes a response
            return error_response(explained(error, request), request)
        if is_repeat:
            return replayed_response(result, success_status(operation, result))
        log_change(operation, params, result, acting.principal)
        return json_response(result, success_status(operation, result))

    return answer
