"""A request's path, query and body, each with limits of size and time."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, Final
from urllib.parse import unquote_plus, unquote_to_bytes

import msgspec
from starlette.requests import Request

from onbeat.api.bulk import Take
from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.limits import ASIDE_BYTES_MIN, REQUEST_BYTES_MAX
from onbeat.operations.invoke import query_names, request_from
from onbeat.operations.tables.operation import Operation
from onbeat.wire.cloud_events import PREFIX, BodyReader
from onbeat.wire.decode import decode, safe_text
from onbeat.wire.requests import EmptyBody

NUMBER: Final = re.compile(r"0|[1-9][0-9]*", re.ASCII)
JSON_TYPE: Final = re.compile(
    r'application/(?:[\w.+-]+\+)?json\s*(?:;\s*charset="?utf-?8"?\s*)?', re.ASCII | re.IGNORECASE
)
RPC_TYPE: Final = re.compile(
    rf"{JSON_TYPE.pattern}|application/json-?rpc|application/jsonrequest", JSON_TYPE.flags
)
"""Content types of JSON-RPC clients, including older names."""

LOST_PLUS: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d[\d:.]* \d\d:?\d\d", re.ASCII)
"""An instant whose offset lost its `+`."""

REPLACED: Final = "\ufffd"
"""What stands for bytes that are not UTF-8."""

UNNAMED: Final = "A name"

ANY_TYPE: Final = re.compile(r".*")

BEGIN_BYTES: Final = 64  # by which the form of a body can be told

Bound = Callable[[bytes], int]
"""How long a body may be that begins so."""

NULL: Final = "null"
"""Some clients send this for a missing parameter."""

LENIENT: Final = frozenset({"limit", "page"})
"""Page parameters: an invalid value becomes the default, a large one the maximum."""


REPEATED: Final = frozenset({"label"})
"""Parameters that may be given several times, which is the same as with commas between."""


async def read_request(
    request: Request, operation: Operation[Any, Any], deadline: timedelta, take: Take
) -> Any:
    """The operation's request. Raises `Invalid` for an invalid one."""
    check_address(request)
    named = {**read_query(request, operation), **request.path_params}
    if operation.body is None:
        if operation.method != "GET":
            await refuse_fields(request, deadline, take)
        return request_from(operation, named, None)
    if operation.reader is not None:
        return await read_formed(request, operation, operation.reader, named, deadline, take)
    body = await read_body(request, operation.body_bytes_max, deadline, take)
    if body is not None and len(body) >= ASIDE_BYTES_MIN:
        # Long enough to delay everything else on the loop.
        return await asyncio.to_thread(request_from, operation, named, body)
    return request_from(operation, named, body)


def check_address(request: Request) -> None:
    """Raises `Malformed` for bytes in path or query that are not UTF-8.

    They were read as U+FFFD, and a change would make an object of that name.
    """
    path: bytes = request.scope.get("raw_path") or b""
    if fault := fault_in(path):
        names = (name for name, text in request.path_params.items() if REPLACED in str(text))
        raise not_utf8(next(names, UNNAMED), fault)
    query: bytes = request.scope["query_string"]
    for part in query.split(b"&") if b"%" in query else ():
        if fault := fault_in(part):
            name = safe_text(unquote_plus(part.partition(b"=")[0].decode("latin-1")))
            raise not_utf8(UNNAMED if REPLACED in name else name, fault)


def fault_in(text: bytes) -> UnicodeDecodeError | None:
    if b"%" in text:
        try:
            unquote_to_bytes(text).decode()
        except UnicodeDecodeError as error:
            return error
    return None


def not_utf8(name: str, fault: UnicodeDecodeError) -> Malformed:
    wrong = f"%{fault.object[fault.start]:02X}"
    field = "" if name == UNNAMED else name
    return Malformed(
        f"{name} is not UTF-8 in the address, which has {wrong}; write ü as %C3%BC", field
    )


def explained(error: Exception, request: Request) -> Exception:
    """The error; where a `+` before an offset became a space, it says so."""
    if type(error) not in {Invalid, Malformed}:
        return error
    assert isinstance(error, Invalid)
    text = request.query_params.get(error.field, "") if "instant" in str(error) else ""
    if not LOST_PLUS.fullmatch(text):
        return error
    return type(error)(f"{error}; a + in an address is a space: write it as %2B", error.field)


async def refuse_fields(request: Request, deadline: timedelta, take: Take) -> None:
    """Raises `Invalid` for a field of a body where none is taken, so that no option is ignored."""
    # A longer one would delay everything else on the loop.
    body = await read_body(request, ASIDE_BYTES_MIN, deadline, take)
    if body is not None:
        decode(EmptyBody, body)


async def read_formed(
    request: Request,
    operation: Operation[Any, Any],
    reader: BodyReader,
    named: Mapping[str, str],
    deadline: timedelta,
    take: Take,
) -> Any:
    """The request whose body has a form by its headers."""
    headers = headers_of(request)
    is_free = reader.is_free(headers)

    def bound(begin: bytes) -> int:
        return reader.bytes_max(headers, begin)

    body = await read_body(request, bound, deadline, take, ANY_TYPE if is_free else JSON_TYPE)
    if is_free:
        body = body or b""
    if body is not None and len(body) >= ASIDE_BYTES_MIN:
        return await asyncio.to_thread(request_from, operation, named, body, headers)
    return request_from(operation, named, body, headers)


def headers_of(request: Request) -> dict[str, str]:
    """The headers by name in lower case. Raises `Invalid` where one of an event is repeated."""
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        if name in headers and name.startswith(PREFIX):
            raise Invalid(f"{safe_text(name)} is given twice in the headers", safe_text(name))
        headers[name] = value
    return headers


def read_query(request: Request, operation: Operation[Any, Any]) -> dict[str, str]:
    """The parameters, each known to the operation and given once.

    Unknown ones are refused: ignoring a misspelt filter would list everything.
    """
    known = query_names(operation)
    given: dict[str, str] = {}
    for name, text in request.query_params.multi_items():
        if name not in known:
            raise unknown_parameter(name, known)
        if name in given and name not in REPEATED:
            raise Invalid(f"{name} is given twice in the query", name)
        before = f"{given[name]}," if name in given else ""
        given[name] = before + read_parameter(operation, name, text)
    return given


def read_parameter(operation: Operation[Any, Any], name: str, text: str) -> str:
    if name in LENIENT:
        return str(page_number(page_bounds(operation)[name], text))
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


class PageBounds(msgspec.Struct, frozen=True):
    """What an operation takes as a page parameter."""

    default: int
    least: int
    most: int


@cache
def page_bounds(operation: Operation[Any, Any]) -> Mapping[str, PageBounds]:
    """The page parameters of the operation, as the fields of its request say."""
    info = msgspec.inspect.type_info(operation.request)
    assert isinstance(info, msgspec.inspect.StructType), "a request is a record"
    found: dict[str, PageBounds] = {}
    for field in info.fields:
        form = field.type
        if isinstance(form, msgspec.inspect.Metadata):
            form = form.type
        if field.encode_name in LENIENT and isinstance(form, msgspec.inspect.IntType):
            found[field.encode_name] = PageBounds(field.default, form.ge or 0, form.le or 0)
    return found


def page_number(form: PageBounds, text: str) -> int:
    if not NUMBER.fullmatch(text):
        return form.default
    # Python does not read numbers of some thousand digits.
    value = form.most if len(text) > len(str(form.most)) else min(int(text), form.most)
    return value if value >= form.least else form.default


async def read_body(
    request: Request,
    bytes_max: int | Bound,
    deadline: timedelta,
    take: Take,
    types: re.Pattern[str] = JSON_TYPE,
) -> bytes | None:
    """The whole body, or None when there is none."""
    bound = bytes_max if callable(bytes_max) else fixed(bytes_max)
    declared = request.headers.get("content-length", "")
    size = int(declared[:20]) if declared.isdigit() else 0
    if size > bound(b""):
        raise too_large(bound(b""))
    if size > REQUEST_BYTES_MAX:
        take()
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            body = await read_stream(request, bound, take)
    except TimeoutError:
        seconds = deadline.total_seconds()
        raise Malformed(f"The body did not arrive within {seconds:g} seconds") from None
    if not body:
        return None
    check_coding(request)
    check_type(request, types)
    return body


def fixed(bytes_max: int) -> Bound:
    """The same bound for every body."""
    return lambda _: bytes_max


async def read_stream(request: Request, bound: Bound, take: Take) -> bytes:
    parts = bytearray()
    async for part in request.stream():
        parts += part
        most = bound(bytes(parts[:BEGIN_BYTES]))
        if len(parts) > most:
            raise too_large(most)
        if len(parts) > REQUEST_BYTES_MAX:
            take()
    return bytes(parts)


def too_large(bytes_max: int) -> TooLarge:
    return TooLarge(f"The body may have at most {bytes_max} bytes")


def check_coding(request: Request) -> None:
    given = request.headers.get("content-encoding", "identity").strip()
    if given.lower() != "identity":
        raise Malformed(
            f"Content-Encoding must be identity, not {safe_text(given)}; send the body as it is",
            "Content-Encoding",
        )


def check_type(request: Request, types: re.Pattern[str]) -> None:
    # A form of another site can send any body, but needs a CORS preflight for this type.
    given = request.headers.get("content-type")
    if given is not None and not types.fullmatch(given.strip()):
        raise Malformed(f"Content-Type must be application/json, not {given[:100]}")
