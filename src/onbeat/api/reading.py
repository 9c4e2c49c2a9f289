"""A request's path, query and body, each within bounds of size and time."""

import asyncio
import re
from datetime import timedelta
from typing import Any, Final

import msgspec
from starlette.requests import Request

from onbeat.model.errors import Malformed, TooLarge
from onbeat.model.limits import PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, REQUEST_BYTES_MAX
from onbeat.operations.caller import request_from
from onbeat.operations.table import Operation
from onbeat.wire.requests import PAGE_MAX

NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
JSON_TYPE: Final = re.compile(
    r'application/(?:[\w.+-]+\+)?json\s*(?:;\s*charset="?utf-?8"?\s*)?', re.ASCII | re.IGNORECASE
)
RPC_TYPE: Final = re.compile(
    rf"{JSON_TYPE.pattern}|application/json-?rpc|application/jsonrequest", JSON_TYPE.flags
)
"""Names that clients of JSON-RPC had for the same before it was settled."""

LENIENT: Final = {
    "limit": (PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX),
    "page": (1, PAGE_MAX),
}
"""Parameters of pages: nonsense is the default, too much is the most there is."""


async def read_request(
    request: Request, operation: Operation[Any, Any], deadline: timedelta
) -> Any:
    """The operation's request; raises `Invalid` for what cannot be one."""
    named = {**read_query(request, operation), **request.path_params}
    if operation.body is None:
        return request_from(operation, named, None)
    body = await read_body(request, operation.body_bytes_max, deadline)
    if body is not None and len(body) > REQUEST_BYTES_MAX:
        # Long enough to be felt by everybody else on the loop.
        return await asyncio.to_thread(request_from, operation, named, body)
    return request_from(operation, named, body)


def read_query(request: Request, operation: Operation[Any, Any]) -> dict[str, str]:
    """The parameters that the operation knows; empty ones count as not given."""
    given = {
        name: request.query_params[name]
        for name in query_names(operation)
        if request.query_params.get(name)
    }
    return given | {name: lenient(given[name], *LENIENT[name]) for name in given.keys() & LENIENT}


def query_names(operation: Operation[Any, Any]) -> tuple[str, ...]:
    """Fields of the request that neither path nor body fills."""
    return tuple(
        field.encode_name
        for field in msgspec.structs.fields(operation.request)
        if field.name != operation.body and f"{{{field.encode_name}}}" not in operation.path
    )


def lenient(text: str, default: int, most: int) -> str:
    return str(min(int(text), most) if NUMBER.fullmatch(text) else default)


async def read_body(
    request: Request,
    bytes_max: int,
    deadline: timedelta,
    types: re.Pattern[str] = JSON_TYPE,
) -> bytes | None:
    """The whole body, or None when there is none."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared[:20]) > bytes_max:
        raise over(bytes_max)
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            body = await received(request, bytes_max)
    except TimeoutError:
        seconds = deadline.total_seconds()
        raise Malformed(f"The body did not arrive within {seconds:g} seconds") from None
    if not body:
        return None
    check_type(request, types)
    return body


async def received(request: Request, bytes_max: int) -> bytes:
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > bytes_max:
            raise over(bytes_max)
    return bytes(parts)


def over(bytes_max: int) -> TooLarge:
    return TooLarge(f"The body may have at most {bytes_max} bytes")


def check_type(request: Request, types: re.Pattern[str]) -> None:
    # A form of another site can send any body, but not this type without asking first.
    given = request.headers.get("content-type")
    if given is not None and not types.fullmatch(given.strip()):
        raise Malformed(f"Content-Type must be application/json, not {given[:100]}")
