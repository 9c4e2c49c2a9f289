"""Routes made from the table: one for each path, which asks the operation of the method."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onbeat.api.answering import answered, refused
from onbeat.api.options import ApiOptions
from onbeat.api.reading import read_request
from onbeat.api.telling import tell
from onbeat.operations.caller import call, success_status
from onbeat.operations.operator import Operator
from onbeat.operations.table import OPERATIONS, Operation

FREE_NAMES: Final = ("key", "name")
"""Path parameters that may hold any character, a slash too; the others are ids."""


def rest_routes(operator: Operator, options: ApiOptions) -> Iterator[Route]:
    # The longer path first: what comes before `/pause` may itself end so.
    ordered = sorted(OPERATIONS, key=lambda operation: (-operation.path.count("/"), operation.path))
    for path, operations in groupby(ordered, key=lambda operation: operation.path):
        by_method = {str(operation.method): operation for operation in operations}
        yield Route(
            route_path(path), endpoint(operator, options, by_method), methods=list(by_method)
        )


def route_path(path: str) -> str:
    for name in FREE_NAMES:
        path = path.replace(f"{{{name}}}", f"{{{name}:path}}")
    return path


def endpoint(
    operator: Operator, options: ApiOptions, operations: Mapping[str, Operation[Any, Any]]
) -> Callable[[Request], Awaitable[Response]]:
    """Everything that can be done at one path."""

    async def answer(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        operation = operations[method]
        try:
            asked = await read_request(request, operation, options.body_deadline)
            found = await call(operator, operation, asked)
        except Exception as error:  # noqa: BLE001  every error is told in one form
            return refused(error, request)
        tell(operation, asked, found)
        return answered(found, success_status(operation, found))

    return answer
