"""JSON-RPC 2.0: calls in, responses out, and the one table of its error codes."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.model.errors import Invalid, Malformed, NotFound
from onbeat.wire.decoding import NotJson, loaded
from onbeat.wire.problems import problem

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
"""Codes of REST, and the numbers that the specification leaves to applications."""

FIXED: Final[Mapping[int, str]] = {
    PARSE_ERROR: "Parse error",
    INVALID_REQUEST: "Invalid Request",
    METHOD_NOT_FOUND: "Method not found",
    INTERNAL_ERROR: "Internal error",
}
"""Messages as the specification has them; what there is to say beside stands in `data`."""

BATCH_MAX: Final = 1_000  # calls in a batch: they run one after the other, and hold a connection
OPEN_OF_ID: Final = re.compile(rb'["\-0-9]|null')


class InvalidCall(Malformed):
    """It is JSON, and no call. `id` is the one that it was sent with, if that can be told."""

    def __init__(self, message: str, field: str = "", id: msgspec.Raw = NULL) -> None:
        super().__init__(message, field)
        self.id = id


class UnknownMethod(NotFound):
    """The method does not exist."""


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call as it was sent; `text` is all of it. Without an `id` it is a notification.

    `params` is an object or an array. `onbeat` is the member of that name, which steers what is
    done with a submission; the specification allows members beside its own.
    """

    method: str
    params: msgspec.Raw | None
    id: msgspec.Raw | None
    onbeat: msgspec.Raw | None
    text: msgspec.Raw


class Parts(msgspec.Struct, frozen=True, gc=False):
    """The members of a call, each as it stands."""

    jsonrpc: msgspec.Raw | UnsetType = UNSET
    method: msgspec.Raw | UnsetType = UNSET
    params: msgspec.Raw | UnsetType = UNSET
    id: msgspec.Raw | UnsetType = UNSET
    onbeat: msgspec.Raw | UnsetType = UNSET


class ErrorData(msgspec.Struct, frozen=True, kw_only=True):
    """The error as REST tells it, but for the message: a code, the field at fault, and more."""

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
    """The calls of a body, unread, and whether they came as a batch.

    Raises `NotJson`, `TooLarge` and, for what cannot be judged call by call, `InvalidCall`.
    """
    try:
        value = loaded(body, bytes_max)
    except NotJson:
        raise
    except Malformed as error:
        raise InvalidCall(str(error)) from None
    if not isinstance(value, list):
        return [msgspec.Raw(body)], False
    if not value:
        raise InvalidCall("A batch needs at least one call")
    if len(value) > BATCH_MAX:  # pyright: ignore[reportUnknownArgumentType]
        raise InvalidCall(f"A batch may have at most {BATCH_MAX} calls; send several")
    try:
        return msgspec.json.decode(body, type=list[msgspec.Raw]), True
    except msgspec.DecodeError:
        raise halved() from None


def halved() -> InvalidCall:
    """What one reader of JSON takes and the other does not."""
    return InvalidCall("A text contains half of a surrogate pair")


def read_call(text: msgspec.Raw) -> Call:
    """Raises `InvalidCall` for what is none."""
    try:
        parts = msgspec.json.decode(text, type=Parts)
    except msgspec.ValidationError:
        raise InvalidCall("A call must be an object") from None
    except msgspec.DecodeError:
        raise halved() from None
    id = read_call_id(parts.id)
    known = NULL if id is None else id
    if parts.jsonrpc is UNSET or msgspec.json.decode(parts.jsonrpc) != VERSION:
        raise InvalidCall('jsonrpc must be "2.0"', "jsonrpc", known)
    method: object = None if parts.method is UNSET else msgspec.json.decode(parts.method)
    if not isinstance(method, str):
        raise InvalidCall("method must be a string", "method", known)
    if parts.params is not UNSET and bytes(parts.params)[:1] not in b"{[":
        raise InvalidCall("params must be an object or an array", "params", known)
    return Call(
        method=method,
        params=parts.params or None,
        id=id,
        onbeat=parts.onbeat or None,
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
    """What a caller may know of `error`."""
    found = problem(error)
    code = code_of(error, found.code)
    if code not in FIXED:
        data = ErrorData(code=found.code, field=found.field, detail=found.detail)
        return ErrorObject(code=code, message=found.message, data=data)
    if code == INTERNAL_ERROR or found.message == UnknownMethod.__doc__:
        return ErrorObject(code=code, message=FIXED[code])
    data = ErrorData(code=found.code, field=found.field, detail=found.message)
    return ErrorObject(code=code, message=FIXED[code], data=data)


def code_of(error: Exception, code: str) -> int:
    """The number that goes with an error whose code in REST is `code`."""
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
