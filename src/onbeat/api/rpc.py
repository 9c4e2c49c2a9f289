"""JSON-RPC 2.0 at `/rpc`: each operation of the table is a method, and `submit:<task>` a job."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import count
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onbeat.api.audit_log import log_change
from onbeat.api.bulk import BulkSlots, Take
from onbeat.api.openrpc import openrpc_document, openrpc_json
from onbeat.api.options import ApiOptions
from onbeat.api.request_context import context_for
from onbeat.api.requests import RPC_TYPE, read_body
from onbeat.api.responses import JSON, RETRY_SECONDS, error_response, lines
from onbeat.model.errors import OnbeatError, TooLarge, Unavailable
from onbeat.model.limits import ASIDE_BYTES_MIN, BULK_REQUEST_BYTES_MAX
from onbeat.model.origin import RPC
from onbeat.model.principal import Scope
from onbeat.operations.context import OperationContext
from onbeat.operations.invoke import call_once, request_by_params
from onbeat.operations.jsonrpc import Handle, Reply, handle_batch
from onbeat.operations.submissions import Origin, submit_once, submit_or_dead_letter
from onbeat.operations.table import OPERATIONS
from onbeat.operations.tables.operation import Operation
from onbeat.rules.access import check_scope
from onbeat.rules.idempotency import HEADER
from onbeat.wire.idempotency import read_header, read_member
from onbeat.wire.jsonrpc import InvalidCall, RpcCall, UnknownMethod, failure
from onbeat.wire.submissions import PREFIX

MethodHandle = Callable[[OperationContext, RpcCall], Awaitable[object]]
"""Answers a call on behalf of the context's principal."""

Methods = Mapping[str, MethodHandle]


def rpc_routes(context: OperationContext, options: ApiOptions, bulk: BulkSlots) -> Iterator[Route]:
    yield from routes_of(methods_of(), context, options, bulk)


def routes_of(
    methods: Methods, context: OperationContext, options: ApiOptions, bulk: BulkSlots
) -> Iterator[Route]:
    async def rpc(request: Request) -> Response:
        with bulk.slot() as take:
            return await respond(request, take)

    async def respond(request: Request, take: Take) -> Response:
        most, deadline = BULK_REQUEST_BYTES_MAX, options.body_deadline
        try:
            key = read_header(HEADER, request.headers.getlist(HEADER))
            body = await read_body(request, most, deadline, take, RPC_TYPE)
        except Exception as error:  # noqa: BLE001  every error becomes a response
            return unreadable_response(error, request)
        handle = handle_with(methods, context_for(context, request), key)
        return http_response(await handle_batch(body or b"", handle, log_unexpected))

    yield Route("/rpc", rpc, methods=["POST"])
    yield Route("/rpc/openrpc.json", document)


def unreadable_response(error: Exception, request: Request) -> Response:
    """The status of HTTP with a JSON-RPC body, because its clients read nothing else."""
    answer = error_response(error, request)
    known = isinstance(error, TooLarge | Unavailable)
    response = Response(
        failure(error if known else InvalidCall(str(error))), answer.status_code, media_type=JSON
    )
    if "Retry-After" in answer.headers:
        response.headers["Retry-After"] = answer.headers["Retry-After"]
    return response


def http_response(reply: Reply) -> Response:
    """The response; the status tells the sender of a failed notification to send it again."""
    if reply.text is not None:
        return Response(reply.text, media_type=JSON)
    if reply.unavailable is not None:
        return Response(status_code=503, headers={"Retry-After": RETRY_SECONDS})
    return Response(status_code=204)


async def document(_request: Request) -> Response:
    return Response(openrpc_json(), media_type=JSON)


def methods_of() -> Methods:
    operations = {operation.name: method(operation) for operation in OPERATIONS}
    return {**operations, "rpc.discover": discover}


def handle_with(methods: Methods, context: OperationContext, header: str | None = None) -> Handle:
    """`header` is the idempotency key of the whole body, for calls without their own."""
    places = count()

    async def handle(call: RpcCall) -> object:
        key = read_member(call.key) or key_in_batch(header, next(places))
        call = replace(call, key=None if key is None else msgspec.Raw(msgspec.json.encode(key)))
        if call.method.startswith(PREFIX):
            check_scope(context.principal, Scope.SUBMIT)
            return await submission(context, call)
        known = methods.get(call.method)
        if known is None:
            raise UnknownMethod
        return await known(context, call)

    return handle


def key_in_batch(header: str | None, place: int) -> str | None:
    """The key of one call of a batch."""
    return header if header is None or place == 0 else f"{header}/{place}"


def key_of(call: RpcCall) -> str | None:
    return None if call.key is None else msgspec.json.decode(call.key, type=str)


async def submission(context: OperationContext, call: RpcCall) -> object:
    origin, key = Origin(source=RPC), key_of(call)
    if key is None:
        return await submit_or_dead_letter(context, call, origin)
    result, _ = await submit_once(context, call, origin, key)
    return result


def method(operation: Operation[Any, Any]) -> MethodHandle:
    async def answer(context: OperationContext, call: RpcCall) -> object:
        check_scope(context.principal, operation.scope)
        if call.params is not None and len(bytes(call.params)) >= ASIDE_BYTES_MIN:
            # Long enough to delay everything else on the loop.
            request = await asyncio.to_thread(request_by_params, operation, call.params)
        else:
            request = request_by_params(operation, call.params)
        result, is_repeat = await call_once(context, operation, request, key_of(call))
        if not is_repeat:
            log_change(operation, request, result, context.principal)
        return result

    return answer


async def discover(_operator: OperationContext, _call: RpcCall) -> object:
    return openrpc_document()


async def log_unexpected(_text: bytes, call: RpcCall | None, error: Exception) -> None:
    """Log unexpected errors, which the response does not describe."""
    if not isinstance(error, OnbeatError) and call is not None:
        lines.error("api.failed", error, method=call.method[:200], path="/rpc")
