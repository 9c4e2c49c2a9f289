"""Invokes operations, in this process or from a request over the network."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import msgspec

from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.principal import Scope
from onbeat.operations.audit import run_audited
from onbeat.operations.context import OperationContext
from onbeat.operations.idempotency import Repeatable, answer_once
from onbeat.operations.live import announce
from onbeat.operations.past import forget_past
from onbeat.operations.tables.operation import CREATED, Operation
from onbeat.rules.access import check_scope
from onbeat.rules.idempotency import HEADER
from onbeat.wire.decode import (
    check_text,
    convert,
    decode,
    decode_typed,
    field_error,
    guard_values,
)

Request = TypeVar("Request", bound=msgspec.Struct)
Answer = TypeVar("Answer")

NO_HEADERS: Final[Mapping[str, str]] = {}


async def call(
    context: OperationContext, operation: Operation[Request, Answer], request: Request
) -> Answer:
    """The answer of `operation` to `request`; raises an `OnbeatError`."""
    check_scope(context.principal, operation.scope)

    async def run() -> Answer:
        check_named(operation, request)
        return await operation.function(context, request)

    if operation.is_audited:
        answer = await run_audited(context, operation.name, request, run)
    else:
        answer = await run()
    if operation.scope is not Scope.READ:
        forget_past(context, operation.name, request, answer)
    if context.live.is_read:
        announce(context, operation.name, request, answer)
    return answer


def check_named(operation: Operation[Any, Any], request: msgspec.Struct) -> None:
    """Refuse texts of path and query that not every store takes; the body's were checked before."""
    names = zip(request.__struct_fields__, request.__struct_encode_fields__, strict=True)
    for name, shown in names:
        text = getattr(request, name)
        if isinstance(text, str) and name != operation.body:
            check_text(text, shown)


async def call_once(
    context: OperationContext,
    operation: Operation[Request, Answer],
    request: Request,
    key: str | None,
) -> tuple[Answer, bool]:
    """The same, once for each key; the flag says whether it is an earlier answer.

    Operations that do not take a key may be repeated without one, but for those that refuse it:
    `Invalid` is raised.
    """
    if key is not None and operation.refuses_key:
        raise Invalid(
            f"{operation.method} {operation.path} takes no {HEADER}: sent again it is a new"
            " request; leave it out",
            HEADER,
        )
    if key is None or not operation.takes_key:
        return await call(context, operation, request), False
    check_scope(context.principal, operation.scope)

    async def run(operator: OperationContext) -> Answer:
        return await call(operator, operation, request)

    async def read(answer: bytes) -> Answer:
        if operation.again is not None:
            return await operation.again(context, request)
        return msgspec.json.decode(answer, type=operation.answer)

    body = msgspec.json.encode(request)
    return await answer_once(context, key, Repeatable(operation.name, body, run, read))


def request_from(
    operation: Operation[Request, Answer],
    named: Mapping[str, str],
    body: bytes | None,
    headers: Mapping[str, str] = NO_HEADERS,
) -> Request:
    """Build a request from named texts (of a path and a query) and a JSON body.

    The headers matter to an operation with a reader of its own.
    """
    values: dict[str, object] = dict(named)
    if operation.body is not None:
        if body is not None and operation.reader is not None:
            values[operation.body] = operation.reader.read(body, headers)
        elif body is not None:
            values[operation.body] = decode(
                body_type(operation), body, bytes_max=operation.body_bytes_max
            )
        elif operation.body_required:
            raise Malformed("The request needs a JSON body")
    return convert(operation.request, values)


def checked(operation: Operation[Request, Answer], request: Request) -> Request:
    """The request of a caller in this process, read as a service would read it.

    So both refuse the same. A body with a reader of its own was read when it was made.
    """
    named, body = to_http_request(operation, request)
    if operation.body is None or operation.reader is None:
        return request_from(operation, named, body)
    read = getattr(request, operation.body)
    return convert(operation.request, {**named, operation.body: read})


def to_http_request(
    operation: Operation[Request, Answer], request: Request
) -> tuple[Mapping[str, str], bytes | None]:
    """The texts of path and query, and the body."""
    names = msgspec.structs.fields(cast("type[msgspec.Struct]", operation.request))
    fields: dict[str, object] = {
        field.encode_name: value
        for field in names
        if (value := getattr(request, field.name)) is not None
    }
    body = fields.pop(operation.body, None) if operation.body else None
    named = {name: text_of(value) for name, value in fields.items()}
    return named, None if body is None else msgspec.json.encode(body)


def text_of(value: object) -> str:
    return str(msgspec.to_builtins(value))


def request_by_params(operation: Operation[Request, Answer], params: msgspec.Raw | None) -> Request:
    """Build a request from the params of a JSON-RPC call, which are valid JSON.

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
    if operation.body is not None and operation.reader is not None:
        values[operation.body] = operation.reader.read(msgspec.json.encode(rest), NO_HEADERS)
    elif operation.body is not None and (rest or operation.body_required):
        values[operation.body] = decode_typed(body_type(operation), msgspec.json.encode(rest))
    elif rest:
        raise field_error(next(iter(rest)), "")
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
    """Fields of the request that come from path and query, in order."""
    return tuple(
        field.encode_name
        for field in msgspec.structs.fields(operation.request)
        if field.name != operation.body
    )


def query_names(operation: Operation[Any, Any]) -> tuple[str, ...]:
    """Fields of the request that neither path nor body fills."""
    return tuple(
        field.encode_name
        for field in msgspec.structs.fields(operation.request)
        if field.name != operation.body and f"{{{field.encode_name}}}" not in operation.path
    )


def body_type(operation: Operation[Any, Any]) -> type[msgspec.Struct]:
    """The type of the request field that the body fills."""
    fields = msgspec.structs.fields(operation.request)
    return cast(
        "type[msgspec.Struct]",
        next(field.type for field in fields if field.name == operation.body),
    )


def success_status(operation: Operation[Any, Any], answer: object) -> int:
    """201 only where something was created."""
    if operation.status == CREATED and getattr(answer, "created", True) is False:
        return 200
    return operation.status
