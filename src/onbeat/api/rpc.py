"""JSON-RPC 2.0 at `/rpc`: each operation of the table is a method, and `submit:<task>` a job."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onbeat.api.answering import JSON, RETRY_SECONDS, lines, refused
from onbeat.api.openrpc import openrpc_document, openrpc_json
from onbeat.api.options import ApiOptions
from onbeat.api.reading import RPC_TYPE, read_body
from onbeat.api.telling import tell
from onbeat.model.errors import OnbeatError, TooLarge
from onbeat.model.limits import BULK_REQUEST_BYTES_MAX, REQUEST_BYTES_MAX
from onbeat.operations.caller import call as ask
from onbeat.operations.caller import request_by_params
from onbeat.operations.exchanging import Handle, Reply, replied
from onbeat.operations.operator import Operator
from onbeat.operations.submitting import Origin, submitted
from onbeat.operations.table import OPERATIONS, Operation
from onbeat.wire.jsonrpc import Call, InvalidCall, UnknownMethod, failure
from onbeat.wire.submissions import PREFIX

SOURCE: Final = "rpc"
"""What dead letters name as the place where a submission came in."""

Methods = Mapping[str, Handle]


def rpc_routes(operator: Operator, options: ApiOptions) -> Iterator[Route]:
    yield from routes_of(methods_of(operator), operator, options)


def routes_of(methods: Methods, operator: Operator, options: ApiOptions) -> Iterator[Route]:
    handle = handle_with(methods, operator)

    async def rpc(request: Request) -> Response:
        try:
            body = await read_body(request, BULK_REQUEST_BYTES_MAX, options.body_deadline, RPC_TYPE)
        except Exception as error:  # noqa: BLE001  every error is told in one form
            return unread(error, request)
        return responded(await replied(body or b"", handle, logged))

    yield Route("/rpc", rpc, methods=["POST"])
    yield Route("/rpc/openrpc.json", document)


def unread(error: Exception, request: Request) -> Response:
    """By HTTP's status and in the words of JSON-RPC: its clients read nothing else."""
    status = refused(error, request).status_code
    told = error if isinstance(error, TooLarge) else InvalidCall(str(error))
    return Response(failure(told), status, media_type=JSON)


def responded(reply: Reply) -> Response:
    """A notification is never answered; that it has to be sent again is for HTTP to say."""
    if reply.text is not None:
        return Response(reply.text, media_type=JSON)
    if reply.unavailable is not None:
        return Response(status_code=503, headers={"Retry-After": RETRY_SECONDS})
    return Response(status_code=204)


async def document(_request: Request) -> Response:
    return Response(openrpc_json(), media_type=JSON)


def methods_of(operator: Operator) -> Methods:
    operations = {operation.name: method(operator, operation) for operation in OPERATIONS}
    return {**operations, "rpc.discover": discover}


def handle_with(methods: Methods, operator: Operator) -> Handle:
    async def handle(call: Call) -> object:
        if call.method.startswith(PREFIX):
            return await submitted(operator, call, Origin(source=SOURCE))
        known = methods.get(call.method)
        if known is None:
            raise UnknownMethod
        return await known(call)

    return handle


def method(operator: Operator, operation: Operation[Any, Any]) -> Handle:
    async def answer(call: Call) -> object:
        if call.params is not None and len(bytes(call.params)) > REQUEST_BYTES_MAX:
            # Long enough to be felt by everybody else on the loop.
            asked = await asyncio.to_thread(request_by_params, operation, call.params)
        else:
            asked = request_by_params(operation, call.params)
        found = await ask(operator, operation, asked)
        tell(operation, asked, found)
        return found

    return answer


async def discover(_call: Call) -> object:
    return openrpc_document()


async def logged(_text: bytes, call: Call | None, error: Exception) -> None:
    """Tell the log, and it alone, of what nobody foresaw."""
    if not isinstance(error, OnbeatError) and call is not None:
        lines.error("api.failed", error, method=call.method[:200], path="/rpc")
