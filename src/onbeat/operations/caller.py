"""How a surface asks for an operation: in this process, or from what came over a wire."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec

from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.operations.operator import Operator
from onbeat.operations.table import Operation
from onbeat.wire.decoding import convert, decode, guard_values, refused_field, typed

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


def request_by_params(operation: Operation[Request, Answer], params: msgspec.Raw | None) -> Request:
    """The request that the params of a JSON-RPC call make up, which are JSON by now.

    By name they are the fields of path, query and body in one object; by position, which only
    operations without a body allow, those of path and query in the order of the request.
    """
    given = bytes(params or b"{}")
    if len(given) > operation.body_bytes_max:
        raise TooLarge(
            f"params may have at most {operation.body_bytes_max} bytes; they have {len(given)}",
            "params",
        )
    guard_values(given)
    rest = by_name(operation, given)
    named = {name: rest.pop(name) for name in named_fields(operation) if name in rest}
    values: dict[str, object] = {name: msgspec.json.decode(value) for name, value in named.items()}
    if operation.body is not None and (rest or operation.body_required):
        values[operation.body] = typed(body_type(operation), msgspec.json.encode(rest))
    elif rest:
        raise refused_field(next(iter(rest)), "")
    return convert(operation.request, values)


def by_name(operation: Operation[Any, Any], given: bytes) -> dict[str, msgspec.Raw]:
    if given.startswith(b"{"):
        return msgspec.json.decode(given, type=dict[str, msgspec.Raw])
    values = msgspec.json.decode(given, type=list[msgspec.Raw])
    names = named_fields(operation)
    if operation.body is not None and values:
        raise Malformed(f"params of {operation.name} go by name, in an object", "params")
    if len(values) > len(names):
        raise Invalid(f"params of {operation.name} are {len(names)} at most", "params")
    return dict(zip(names, values, strict=False))


def named_fields(operation: Operation[Any, Any]) -> tuple[str, ...]:
    """Fields of the request that path and query fill, in their order."""
    return tuple(
        field.encode_name
        for field in msgspec.structs.fields(operation.request)
        if field.name != operation.body
    )


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
