"""Turns a callback's response, or the lack of one, into an outcome."""

import codecs
import re
import socket
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import aiohttp
import msgspec

from onbeat.model.credentials import CREDENTIAL_CHARS_MIN, HIDDEN, credentials_of
from onbeat.model.limits import (
    RESULT_BYTES_MAX,
    RETRY_AFTER_MAX,
)
from onbeat.model.outcome import Failed, Outcome, Succeeded
from onbeat.model.target import HttpTarget
from onbeat.rules.callback_policy import REDIRECTS, is_success
from onbeat.targets.http_errors import (
    AnswerError,
    BrokeOff,
    NoAnswer,
    OverBounds,
    TooManyHeaders,
)
from onbeat.targets.ssrf_guard import AddressRefused

ASYNC_HEADER: Final = "Onbeat-Async"
NO_ADDRESS: Final = (
    f"answered 202 with {ASYNC_HEADER}, but had no address to report to: set api.public_url to the "
    "address of the service as the endpoint reaches it"
)

RETRYABLE: Final = frozenset({408, 425, 429})
GONE: Final = 410
GONE_ADVICE: Final = "; the endpoint is permanently gone: change or remove its callers"

# Sent by an endpoint that cannot take calls now, or by a proxy before it. A 500 concerns only one
# request: the endpoint was up.
DOWN: Final = frozenset({429, 502, 503, 504})
EXCERPT_CHARS_MAX: Final = 200
JSON_BYTES_PER_CHAR_MAX: Final = 6  # a control character, written \u0000

# The error codes of a failed name lookup that are temporary; not every system has all of them.
LOOKUP_TROUBLES: Final = frozenset({socket.EAI_AGAIN, socket.EAI_SYSTEM, socket.EAI_MEMORY})
NO_SUCH_NAMES: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)})
NO_LOOKUP: Final = "no name server answered for the host"
NO_SUCH_NAME: Final = "there is no host of this name, or it has no address"

SECONDS: Final = re.compile(r"[0-9]{1,10}", re.ASCII)


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A response as far as it was read; `cut` if the body went on past the limit.

    `is_async`: the endpoint has taken the job on, and reports its result later.
    """

    status: int
    body: bytes
    cut: bool = False
    location: str | None = None
    retry_after: str | None = None
    is_async: bool = False


class KeptResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A callback's result as the job stores it."""

    status: int
    body: str
    truncated: bool = False


def without_credentials(answer: Response, target: HttpTarget) -> Response:
    """The response with `***` for each credential of its target, since endpoints echo requests."""
    if not (answer.body or answer.location):
        return answer
    body, location = answer.body, answer.location
    for credential in credentials_of(target):
        text = credential.encode()
        body = body.replace(text, HIDDEN.encode())
        location = location and location.replace(credential, HIDDEN)
        if answer.cut:
            body = without_start(body, text)
    return msgspec.structs.replace(answer, body=body, location=location)


def without_start(body: bytes, text: bytes) -> bytes:
    """The body without a prefix of `text` at its cut end."""
    for length in range(len(text) - 1, CREDENTIAL_CHARS_MIN - 1, -1):
        if body.endswith(text[:length]):
            return body[:-length] + HIDDEN.encode()
    return body


def outcome_of(answer: Response, shown: str, now: datetime, target: HttpTarget) -> Outcome:
    """What the target's policy counts as success, by default 2xx.

    Other statuses that may be temporary are retried; all others are final.
    """
    status = answer.status
    if is_success(status, target.success):
        return Succeeded(result_of(answer))
    message = f"{shown} answered {status_line(status)}"
    if status in RETRYABLE or not 100 <= status < 500:  # invalid ones count as 5xx (RFC 9110, 15)
        return Failed(
            message + excerpt_of(answer), retry_after=retry_after_of(answer.retry_after, now)
        )
    if 300 <= status < 400:
        return Failed(message + redirect_note(answer, target.redirects), retryable=False)
    if status == GONE:
        return Failed(message + excerpt_of(answer) + GONE_ADVICE, retryable=False)
    return Failed(message + excerpt_of(answer), retryable=False)


def result_of(answer: Response) -> msgspec.Raw:
    if answer.cut:
        # A character that the limit has cut in two is omitted.
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(answer.body)
    else:
        text = answer.body.decode(errors="replace")
    encoded = msgspec.json.encode(KeptResponse(answer.status, text, answer.cut))
    if len(encoded) > RESULT_BYTES_MAX:
        text = text[: RESULT_BYTES_MAX // JSON_BYTES_PER_CHAR_MAX - len("{}") * 50]
        encoded = msgspec.json.encode(KeptResponse(answer.status, text, truncated=True))
    return msgspec.Raw(encoded)


def status_line(status: int) -> str:
    # The server's reason phrase is free text; the registered phrase is used instead.
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def excerpt_of(answer: Response) -> str:
    text = printable(answer.body[: EXCERPT_CHARS_MAX * 4].decode(errors="replace"))
    return f": {text}" if text else ""


def printable(text: str) -> str:
    """The text on one line, with runs of blanks collapsed and unprintable characters removed."""
    words = " ".join(text.split())
    return "".join(char for char in words if char.isprintable())[:EXCERPT_CHARS_MAX]


def redirect_note(answer: Response, followed: int) -> str:
    location = answer.location
    if not location:
        return ""
    place = location.partition("?")[0].partition("#")[0]
    place = re.sub(r"//[^/]*@", "//", place)
    if followed and answer.status in REDIRECTS:
        why = f"redirects followed are at most {followed}, by `redirects`"
    else:
        why = "redirects are not followed"
    return f" and pointed to {printable(place)}; {why}"


def retry_after_of(text: str | None, now: datetime) -> timedelta | None:
    """The requested delay, in seconds or as a date; None if it is invalid."""
    if text is None:
        return None
    if SECONDS.fullmatch(text):
        return min(timedelta(seconds=int(text)), RETRY_AFTER_MAX)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(timedelta(), min(at - now, RETRY_AFTER_MAX))


def failure_of(error: Exception, shown: str) -> Failed:
    """A failure to get a response, described by its kind only.

    Host names, addresses and system error codes are left out, since they would reveal the network
    to anyone who may create callbacks.
    """
    refused = refusal_in(error)
    if refused is not None:
        return Failed(f"{shown} was not sent: the host is {refused.reason}", retryable=False)
    return Failed(f"{shown} failed: {kind_of(error)}")


def is_unresolved_for_now(error: Exception) -> bool:
    """Whether no name server answered; an answer that the name does not exist is final."""
    return isinstance(error, aiohttp.ClientConnectorDNSError) and error.errno in LOOKUP_TROUBLES


def is_response_error(error: Exception) -> bool:
    """Whether the error concerns a response, so that the endpoint is up."""
    return isinstance(error, AnswerError)


def refusal_in(error: BaseException | None) -> AddressRefused | None:
    while error is not None:
        if isinstance(error, AddressRefused):
            return error
        error = error.__cause__
    return None


def kind_of(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError) and error.errno in NO_SUCH_NAMES:
        return NO_SUCH_NAME
    kind = next(words for family, words in KINDS if isinstance(error, family))
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        fault: str = getattr(error.certificate_error, "verify_message", "")
        return f"{kind} ({printable(fault)})"
    return kind


# The classes overlap, so narrower ones come first.
KINDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (aiohttp.ClientConnectorDNSError, "the host's name did not resolve"),
    (aiohttp.ClientConnectorCertificateError, "the certificate was not accepted"),
    (aiohttp.ClientSSLError, "TLS could not be agreed on"),
    (aiohttp.ClientConnectorError, "no connection could be made"),
    (NoAnswer, "the connection was closed before an answer"),
    (BrokeOff, "the answer broke off"),
    (TooManyHeaders, "the answer's headers are too many or too long"),
    (OverBounds, "the answer is not proper HTTP, or over its bounds"),
    (Exception, "the connection broke"),
)
