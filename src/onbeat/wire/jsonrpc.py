"""JSON-RPC 2.0: calls, responses, and the table of error codes."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.model.errors import Invalid, Malformed, NotFound
from onbeat.model.limits import RPC_BATCH_MAX
from onbeat.wire.decode import NotJson, load_json, safe_text
from onbeat.wire.errors import problem

VERSION: Final = "2.0"
NULL: Final = msgspec.Raw(b"null")

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

APPLICATION_CODES: Final[Mapping[str, int]] = {
    "not_found": -32001,
    "conflict": -32002,
    "unauthorized": -32003,
    "forbidden": -32004,
    "too_large": -32005,
    "unavailable": -32006,
    "rate_limited": -32007,
    "lease_lost": -32008,
}
"""Codes of REST with numbers from the range that the specification leaves to applications."""

FIXED: Final[Mapping[int, str]] = {
    PARSE_ERROR: "Parse error",
    INVALID_REQUEST: "Invalid Request",
    METHOD_NOT_FOUND: "Method not found",
    INTERNAL_ERROR: "Internal error",
}
"""Messages fixed by the specification; details are in `data`."""

OPEN_OF_ID: Final = re.compile(rb'["\-0-9]|null')


class InvalidCall(Malformed):
    """Valid JSON that is no call. `id` is its id, if that can be read."""

    def __init__(self, message: str, field: str = "", id: msgspec.Raw = NULL) -> None:
        super().__init__(message, field)
        self.id = id


class UnknownMethod(NotFound):
    """The method does not exist."""


class RpcCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call; `text` is all of it. Without an `id` it is a notification.

    `params` is an object or an array. `onbeat` is the member with options of a submission, and
    `key` an idempotency key; the specification allows additional members.
    """

    method: str
    params: msgspec.Raw | None
    id: msgspec.Raw | None
    onbeat: msgspec.Raw | None
    key: msgspec.Raw | None
    text: msgspec.Raw


class CallMembers(msgspec.Struct, frozen=True, gc=False):
    """The raw members of a call."""

    jsonrpc: msgspec.Raw | UnsetType = UNSET
    method: msgspec.Raw | UnsetType = UNSET
    params: msgspec.Raw | UnsetType = UNSET
    id: msgspec.Raw | UnsetType = UNSET
    onbeat: msgspec.Raw | UnsetType = UNSET
    key: msgspec.Raw | UnsetType = UNSET


class ErrorData(msgspec.Struct, frozen=True, kw_only=True):
    """The error as in REST, without the message: a code, the invalid field, and details."""

    code: str
    field: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class ErrorObject(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    message: str
    data: ErrorData | UnsetType = UNSET


class Success(msgspec.Struct, frozen=True, gc=False):
    jsonrpc: str
    result: object
    id: msgspec.Raw


class Failure(msgspec.Struct, frozen=True, gc=False):
    jsonrpc: str
    error: ErrorObject
    id: msgspec.Raw


def split(body: bytes, bytes_max: int) -> tuple[Sequence[msgspec.Raw], bool]:
    """The undecoded calls of a body, and whether they came as a batch.

    Raises `NotJson`, `TooLarge` and, for a body that cannot be split into calls, `InvalidCall`.
    """
    try:
        value = load_json(body, bytes_max)
    except NotJson:
        raise
    except Malformed as error:
        raise InvalidCall(str(error)) from None
    if not isinstance(value, list):
        return [msgspec.Raw(body)], False
    check_batch(cast("list[object]", value))
    try:
        return msgspec.json.decode(body, type=list[msgspec.Raw]), True
    except msgspec.DecodeError:
        raise half_surrogate_error() from None


def check_batch(calls: list[object]) -> None:
    if not calls:
        raise InvalidCall("A batch needs at least one call")
    if len(calls) > RPC_BATCH_MAX:
        raise InvalidCall(f"A batch may have at most {RPC_BATCH_MAX} calls; send several")
    seen: set[str | float] = set()
    for call in calls:
        id = cast("dict[str, object]", call).get("id") if isinstance(call, dict) else None
        if isinstance(id, str | int | float):
            if id in seen:
                shown_id = safe_text(str(id))
                raise InvalidCall(
                    f"The id {shown_id} is given twice in the batch: its answers"
                    " could not be distinguished"
                )
            seen.add(id)


def half_surrogate_error() -> InvalidCall:
    """For texts that one JSON parser accepts and the other does not."""
    return InvalidCall("A text contains half of a surrogate pair")


def read_call(text: msgspec.Raw) -> RpcCall:
    """Raises `InvalidCall` for anything but a call."""
    try:
        parts = msgspec.json.decode(text, type=CallMembers)
    except msgspec.ValidationError:
        raise InvalidCall("A call must be an object") from None
    except msgspec.DecodeError:
        raise half_surrogate_error() from None
    id = read_call_id(parts.id)
    known = NULL if id is None else id
    if parts.jsonrpc is UNSET or msgspec.json.decode(parts.jsonrpc) != VERSION:
        raise InvalidCall('jsonrpc must be "2.0"', "jsonrpc", known)
    method: object = None if parts.method is UNSET else msgspec.json.decode(parts.method)
    if not isinstance(method, str):
        raise InvalidCall("method must be a string", "method", known)
    if parts.params is not UNSET and bytes(parts.params)[:1] not in b"{[":
        raise InvalidCall("params must be an object or an array", "params", known)
    return RpcCall(
        method=method,
        params=parts.params or None,
        id=id,
        onbeat=parts.onbeat or None,
        key=parts.key or None,
        text=text,
    )


def read_call_id(given: msgspec.Raw | UnsetType) -> msgspec.Raw | None:
    if given is UNSET:
        return None
    if not OPEN_OF_ID.match(bytes(given)):
        raise InvalidCall("id must be a string, a number or null", "id")
    return given


def success(result: object, id: msgspec.Raw) -> bytes:
    return msgspec.json.encode(Success(VERSION, result, id))


def failure(error: Exception, id: msgspec.Raw = NULL) -> bytes:
    return msgspec.json.encode(Failure(VERSION, error_object(error), id))


def error_object(error: Exception) -> ErrorObject:
    """The public part of an error."""
    result = problem(error)
    code = code_of(error, result.code)
    if code not in FIXED:
        data = ErrorData(code=result.code, field=result.field, detail=result.detail)
        return ErrorObject(code=code, message=result.message, data=data)
    if code == INTERNAL_ERROR or result.message == UnknownMethod.__doc__:
        return ErrorObject(code=code, message=FIXED[code])
    data = ErrorData(code=result.code, field=result.field, detail=result.message)
    return ErrorObject(code=code, message=FIXED[code], data=data)


def code_of(error: Exception, code: str) -> int:
    """The number of an error whose REST code is `code`."""
    match error:
        case NotJson():
            return PARSE_ERROR
        case InvalidCall():
            return INVALID_REQUEST
        case UnknownMethod():
            return METHOD_NOT_FOUND
        case _ if code in APPLICATION_CODES:
            return APPLICATION_CODES[code]
        case Invalid():
            return INVALID_PARAMS
        case _:
            return INTERNAL_ERROR
