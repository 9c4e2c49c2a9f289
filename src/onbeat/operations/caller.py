"""How a surface asks for an operation: in this process, or from what came over a wire."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec

from onbeat.model.errors import Malformed
from onbeat.operations.operator import Operator
from onbeat.operations.table import Operation
from onbeat.wire.decoding import convert, decode

Request = TypeVar("Request")
Answer = TypeVar("Answer")


async def call(
    operator: Operator, operation: Operation[Request, Answer], request: Request
) -> Answer:
    """What `operation` answers to `request`; raises an `OnbeatError`."""
    return await operation.function(operator, request)


def request_from(
    operation: Operation[Request, Answer], named: Mapping[str, str], body: bytes | None
) -> Request:
    """The request that named texts (of a path and a query) and a JSON body make up."""
    values: dict[str, object] = dict(named)
    if operation.body is not None:
        if body is not None:
            values[operation.body] = decode(
                body_type(operation), body, bytes_max=operation.body_bytes_max
            )
        elif operation.body_required:
            raise Malformed("The request needs a JSON body")
    return convert(operation.request, values)


def body_type(operation: Operation[Any, Any]) -> type[msgspec.Struct]:
    """The type of the request's field that a body fills."""
    fields = msgspec.structs.fields(operation.request)
    return cast(
        "type[msgspec.Struct]",
        next(field.type for field in fields if field.name == operation.body),
    )


def success_status(operation: Operation[Any, Any], answer: object) -> int:
    """201 only where something was created."""
    return 200 if getattr(answer, "created", True) is False else operation.status
