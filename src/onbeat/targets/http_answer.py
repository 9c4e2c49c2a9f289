"""What a callback's answer, or the want of one, comes to."""

import codecs
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import aiohttp
import msgspec

from onbeat.model.limits import (
    CALLBACK_BYTES_KEPT_MAX,
    CALLBACK_BYTES_READ_MAX,
    CALLBACK_RESPONSE_HEADER_BYTES_MAX,
    CALLBACK_RESPONSE_HEADERS_MAX,
    RESULT_BYTES_MAX,
    RETRY_AFTER_MAX,
)
from onbeat.model.outcome import Failed, Outcome, Succeeded
from onbeat.targets.http_guard import Refused

RETRYABLE: Final = frozenset({408, 425, 429})
GONE: Final = 410
GONE_ADVICE: Final = "; the endpoint is gone for good: change or remove what calls it"

# Said by an endpoint that cannot take calls now, or by a proxy before it. A 500 is about the one
# request: the endpoint was there to fail at it.
DOWN: Final = frozenset({429, 502, 503, 504})
EXCERPT_CHARS_MAX: Final = 200
JSON_BYTES_PER_CHAR_MAX: Final = 6  # a control character, written \u0000

SECONDS: Final = re.compile(r"[0-9]{1,10}", re.ASCII)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as far as it was read; `cut` when the body went on past the bound."""

    status: int
    body: bytes
    cut: bool = False
    location: str | None = None
    retry_after: str | None = None


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """A callback's result, as the job keeps it."""

    status: int
    body: str
    truncated: bool = False


class TooManyHeaders(aiohttp.ClientError):
    """An answer whose headers are over the bounds."""


async def read_answer(response: aiohttp.ClientResponse) -> Answer:
    """Reads to the end or to the bound; the body is taken as it came, never decompressed."""
    check_headers(response)
    kept = bytearray()
    count = 0
    while count < CALLBACK_BYTES_READ_MAX and (chunk := await response.content.readany()):
        count += len(chunk)
        kept += chunk[: CALLBACK_BYTES_KEPT_MAX - len(kept)]
    return Answer(
        status=response.status,
        body=bytes(kept),
        cut=count > len(kept),
        location=response.headers.get("Location"),
        retry_after=response.headers.get("Retry-After"),
    )


def check_headers(response: aiohttp.ClientResponse) -> None:
    count = len(response.raw_headers)
    size = sum(len(name) + len(value) for name, value in response.raw_headers)
    if count > CALLBACK_RESPONSE_HEADERS_MAX or size > CALLBACK_RESPONSE_HEADER_BYTES_MAX:
        raise TooManyHeaders


def outcome_of(answer: Answer, shown: str, now: datetime) -> Outcome:
    """The verdict. 2xx is success; what may pass by itself is tried again; the rest is final."""
    status = answer.status
    if 200 <= status < 300:
        return Succeeded(result_of(answer))
    said = f"{shown} answered {status_line(status)}"
    if status in RETRYABLE or not 100 <= status < 500:  # invalid ones count as 5xx (RFC 9110, 15)
        return Failed(
            said + excerpt_of(answer), retry_after=retry_after_of(answer.retry_after, now)
        )
    if 300 <= status < 400:
        return Failed(said + pointed_to(answer.location), retryable=False)
    if status == GONE:
        return Failed(said + excerpt_of(answer) + GONE_ADVICE, retryable=False)
    return Failed(said + excerpt_of(answer), retryable=False)


def result_of(answer: Answer) -> msgspec.Raw:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # A character that the bound has cut in two is left off rather than shown as broken.
    text = decoder.decode(answer.body, final=not answer.cut)
    encoded = msgspec.json.encode(Kept(answer.status, text, answer.cut))
    if len(encoded) > RESULT_BYTES_MAX:
        text = text[: RESULT_BYTES_MAX // JSON_BYTES_PER_CHAR_MAX - len("{}") * 50]
        encoded = msgspec.json.encode(Kept(answer.status, text, truncated=True))
    return msgspec.Raw(encoded)


def status_line(status: int) -> str:
    # The phrase that the server sent is its own free text; the registered one says as much.
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def excerpt_of(answer: Answer) -> str:
    text = printable(answer.body[: EXCERPT_CHARS_MAX * 4].decode(errors="replace"))
    return f": {text}" if text else ""


def printable(text: str) -> str:
    """One line of it: runs of blanks become one, what cannot be shown goes."""
    words = " ".join(text.split())
    return "".join(char for char in words if char.isprintable())[:EXCERPT_CHARS_MAX]


def pointed_to(location: str | None) -> str:
    if not location:
        return ""
    place = location.partition("?")[0].partition("#")[0]
    place = re.sub(r"//[^/]*@", "//", place)
    return f" and pointed to {printable(place)}; redirects are not followed"


def retry_after_of(text: str | None, now: datetime) -> timedelta | None:
    """The wait that was asked for, in seconds or as a date; None where there is no sense in it."""
    if text is None:
        return None
    if SECONDS.fullmatch(text):
        return min(timedelta(seconds=int(text)), RETRY_AFTER_MAX)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(timedelta(), min(at - now, RETRY_AFTER_MAX))


def failure_of(error: Exception, shown: str) -> Failed:
    """A failure to get an answer, in words that name its kind and nothing of the inside.

    Names of machines, addresses and codes of the system stay out: they would tell a stranger who
    may create callbacks what the network looks like.
    """
    refused = refusal_in(error)
    if refused is not None:
        return Failed(f"{shown} was not sent: the host is {refused.reason}", retryable=False)
    return Failed(f"{shown} failed: {kind_of(error)}")


def is_answer(error: Exception) -> bool:
    """Whether the error is about an answer, so that somebody is there, rather than about none."""
    return isinstance(
        error, aiohttp.ClientPayloadError | aiohttp.ClientResponseError | TooManyHeaders
    )


def refusal_in(error: BaseException | None) -> Refused | None:
    while error is not None:
        if isinstance(error, Refused):
            return error
        error = error.__cause__
    return None


def kind_of(error: Exception) -> str:
    kind = next(words for family, words in KINDS if isinstance(error, family))
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        fault: str = getattr(error.certificate_error, "verify_message", "")
        return f"{kind} ({printable(fault)})"
    return kind


# The families overlap, so the narrower stand first.
KINDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (aiohttp.ClientConnectorDNSError, "the host's name did not resolve"),
    (aiohttp.ClientConnectorCertificateError, "the certificate was not accepted"),
    (aiohttp.ClientSSLError, "TLS could not be agreed on"),
    (aiohttp.ClientConnectorError, "no connection could be made"),
    (aiohttp.ServerDisconnectedError, "the connection was closed before an answer"),
    (aiohttp.ClientPayloadError, "the answer broke off"),
    (TooManyHeaders, "the answer's headers are too many or too long"),
    (aiohttp.ClientResponseError, "the answer is not proper HTTP, or over its bounds"),
    (Exception, "the connection broke"),
)
