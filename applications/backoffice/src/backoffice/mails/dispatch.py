"""The provider's mail API: one POST for each mail."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import aiohttp

TIMEOUT_SECONDS: Final = 30.0
REASON_BYTES_MAX: Final = 500
"""So much of an answer is shown as the reason of a failure."""
PAUSE_SECONDS_MIN: Final = 1.0
PAUSE_SECONDS_MAX: Final = 3_600.0
KEY_HEADER: Final = "X-Lineblocs-Key"
ONCE_HEADER: Final = "Idempotency-Key"
TRANSIENT: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


@dataclass(frozen=True, kw_only=True)
class MailApi:
    """`url` takes the mails; `key` says that they are ours."""

    url: str
    key: str = field(repr=False)
    timeout_seconds: float = TIMEOUT_SECONDS


@dataclass(frozen=True, kw_only=True)
class Mail:
    """The body as it is sent."""

    email_type: str
    subject: str
    to: str
    user: Mapping[str, object]
    workspace: Mapping[str, object]
    args: Mapping[str, str]


@dataclass(frozen=True)
class Taken:
    """The API has taken the mail."""


@dataclass(frozen=True)
class Refused:
    """The API will never take this mail."""

    reason: str


@dataclass(frozen=True)
class Later:
    """The API did not take the mail now; `seconds` is its own wish for when, if it has one."""

    reason: str
    seconds: float | None = None


Answer = Taken | Refused | Later


async def post(api: MailApi, mail: Mail, cause: str, now: datetime) -> Answer:
    """Send the mail, once for the `cause` as far as the API knows `Idempotency-Key`."""
    headers = {KEY_HEADER: api.key, ONCE_HEADER: cause}
    timeout = aiohttp.ClientTimeout(total=api.timeout_seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as client,
            # Another host must not see the key.
            client.post(api.url, json=body_of(mail), allow_redirects=False) as response,
        ):
            text = await response.content.read(REASON_BYTES_MAX)
            return answer_of(api, response, text.decode(errors="replace"), now)
    except TimeoutError:
        return Later(f"the mail API did not answer within {api.timeout_seconds} s")
    except aiohttp.ClientError as error:
        return Later(f"the mail API could not be reached: {error}")


def body_of(mail: Mail) -> Mapping[str, object]:
    return {
        "args": mail.args,
        "user": mail.user,
        "email_type": mail.email_type,
        "subject": mail.subject,
        "to": mail.to,
        "workspace": mail.workspace,
    }


def answer_of(api: MailApi, response: aiohttp.ClientResponse, text: str, now: datetime) -> Answer:
    if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
        return Taken()
    reason = f"the mail API answered {response.status}: {text.replace(api.key, '…')}"
    if response.status in TRANSIENT or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Later(reason, pause_of(response.headers.get("Retry-After"), now))
    return Refused(reason)


def pause_of(text: str | None, now: datetime) -> float | None:
    """The seconds of a `Retry-After`, which has a number or a date; None for anything else."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 10:
        seconds = float(text)
    else:
        try:
            at = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        seconds = (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds()
    return min(max(seconds, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)
