"""The request that an attempt sends."""

from datetime import UTC, datetime
from typing import Final

import msgspec
from standardwebhooks import Webhook
from yarl import URL

from onbeat.model.errors import Invalid
from onbeat.model.job import Job
from onbeat.model.target import HttpTarget
from onbeat.rules.urls import UrlParts, shown_url, url_parts

TEXT: Final = "text/plain; charset=utf-8"


class Request(msgspec.Struct, frozen=True):
    """One request, ready to be sent; `shown` names it in messages."""

    method: str
    url: URL
    host: str
    headers: dict[str, str]
    body: bytes | None
    shown: str


def request_for(job: Job, target: HttpTarget, now: datetime, user_agent: str) -> Request:
    """Raises `Invalid` for a URL that no check at creation has seen."""
    parts = url_parts(target.url)
    headers = defaults_of(target, user_agent) | identity_of(job)
    if target.secret is not None:
        headers |= signature_of(job, target.body or "", target.secret, now)
    return Request(
        method=target.method,
        url=url_of(parts),
        host=parts.host,
        headers=headers,
        body=None if target.body is None else target.body.encode(),
        shown=f"{target.method} {shown_url(target.url)}",
    )


def url_of(parts: UrlParts) -> URL:
    """The parts as aiohttp wants them: read again, so a reader that differs must be caught."""
    url = URL(str(parts), encoded=True)
    if (url.raw_host, url.port) != (parts.host, parts.port_or_default):
        raise Invalid("the URL's host can be read in two ways", "url")
    return url


def defaults_of(target: HttpTarget, user_agent: str) -> dict[str, str]:
    """The caller's headers, and those that stand in where the caller said nothing."""
    given = {name.lower() for name in target.headers}
    headers = dict(target.headers)
    if "user-agent" not in given:
        headers["User-Agent"] = user_agent
    if target.body is not None and "content-type" not in given:
        headers["Content-Type"] = TEXT
    return headers


def identity_of(job: Job) -> dict[str, str]:
    """What tells the receiver which work this is; `Idempotency-Key` is the same for every try."""
    headers = {
        "Accept-Encoding": "identity",
        "Idempotency-Key": job.id,
        "Onbeat-Job-Id": job.id,
        "Onbeat-Attempt": str(job.attempt),
        "Onbeat-Token": str(job.token),
    }
    if job.schedule_id is not None:
        headers["Onbeat-Schedule-Id"] = job.schedule_id
    if job.occurrence is not None:
        headers["Onbeat-Occurrence"] = rfc3339(job.occurrence)
    return headers


def signature_of(job: Job, body: str, secret: str, now: datetime) -> dict[str, str]:
    """Standard Webhooks, over exactly what is sent and when this attempt sends it."""
    return {
        "webhook-id": job.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(job.id, now, body),
    }


def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
