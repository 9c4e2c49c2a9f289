"""A request's path, query and body, each with limits of size and time."""

import asyncio
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec
from starlette.requests import Request

from onbeat.api.bulk import Take
from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.limits import (
    ASIDE_BYTES_MIN,
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
    REQUEST_BYTES_MAX,
)
from onbeat.operations.invoke import request_from
from onbeat.operations.table import Operation
from onbeat.wire.decode import safe_text
from onbeat.wire.requests import PAGE_MAX

NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
JSON_TYPE: Final = re.compile(
    r'application/(?:[\w.+-]+\+)?json\s*(?:;\s*charset="?utf-?8"?\s*)?', re.ASCII | re.IGNORECASE
)
RPC_TYPE: Final = re.compile(
    rf"{JSON_TYPE.pattern}|application/json-?rpc|application/jsonrequest", JSON_TYPE.flags
)
"""Content types of JSON-RPC clients, including older names."""

NULL: Final = "null"
"""Some clients send this for a missing parameter."""

LENIENT: Final = {
    "limit": (PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX),
    "page": (1, PAGE_MAX),
}
"""Page parameters: an invalid value becomes the default, a large one the maximum."""


async def read_request(
    request: Request, operation: Operation[Any, Any], deadline: timedelta, take: Take
) -> Any:
    """The operation's request. Raises `Invalid` for an invalid one."""
    named = {**read_query(request, operation), **request.path_params}
    if operation.body is None:
        return request_from(operation, named, None)
    body = await read_body(request, operation.body_bytes_max, deadline, take)
    if body is not None and len(body) >= ASIDE_BYTES_MIN:
        # Long enough to delay everything else on the loop.
        return await asyncio.to_thread(request_from, operation, named, body)
    return request_from(operation, named, body)


def read_query(request: Request, operation: Operation[Any, Any]) -> dict[str, str]:
    """The parameters, each known to the operation and given once.

    Unknown ones are refused: ignoring a misspelt filter would list everything.
    """
    known = query_names(operation)
    given: dict[str, str] = {}
    for name, text in request.query_params.multi_items():
        if name not in known:
            raise unknown_parameter(name, known)
        if name in given:
            raise Invalid(f"{name} is given twice in the query", name)
        given[name] = read_parameter(name, text)
    return given


def read_parameter(name: str, text: str) -> str:
    if name in LENIENT:
        return lenient(text, *LENIENT[name])
    if not text:
        raise Invalid(f"{name} must not be empty; leave it out to ask without it", name)
    if text.lower() == NULL:
        raise Invalid(f"{name} must not be {NULL}; leave it out to ask without it", name)
    return text


def unknown_parameter(name: str, known: Sequence[str]) -> Invalid:
    names = f"known are {', '.join(sorted(known))}" if known else "none is known here"
    return Invalid(
        f"{safe_text(name) or 'A nameless one'} is not a known parameter; {names}", safe_text(name)
    )


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
    take: Take,
    types: re.Pattern[str] = JSON_TYPE,
) -> bytes | None:
    """The whole body, or None when there is none."""
    declared = request.headers.get("content-length", "")
    size = int(declared[:20]) if declared.isdigit() else 0
    if size > bytes_max:
        raise too_large(bytes_max)
    if size > REQUEST_BYTES_MAX:
        take()
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            body = await read_stream(request, bytes_max, take)
    except TimeoutError:
        seconds = deadline.total_seconds()
        raise Malformed(f"The body did not arrive within {seconds:g} seconds") from None
    if not body:
        return None
    check_type(request, types)
    return body


async def read_stream(request: Request, bytes_max: int, take: Take) -> bytes:
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > bytes_max:
            raise too_large(bytes_max)
        if len(parts) > REQUEST_BYTES_MAX:
            take()
    return bytes(parts)


def too_large(bytes_max: int) -> TooLarge:
    return TooLarge(f"The body may have at most {bytes_max} bytes")


def check_type(request: Request, types: re.Pattern[str]) -> None:
    # A form of another site can send any body, but needs a CORS preflight for this type.
    given = request.headers.get("content-type")
    if given is not None and not types.fullmatch(given.strip()):
        raise Malformed(f"Content-Type must be application/json, not {given[:100]}")
