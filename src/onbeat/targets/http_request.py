"""The request that an attempt sends."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec
from standardwebhooks import Webhook
from yarl import URL

from onbeat.model.credentials import signing
from onbeat.model.errors import Invalid
from onbeat.model.event import Event
from onbeat.model.job import Job
from onbeat.model.target import HttpTarget
from onbeat.model.trace_context import STATE_HEADER, trace_context
from onbeat.ports.tracing import active_trace
from onbeat.rules.callback_policy import hop_after
from onbeat.rules.urls import shown_url, url_parts
from onbeat.wire.cloud_events import delivered

TEXT: Final = "text/plain; charset=utf-8"
URLS_KEPT: Final = 1_000
REPORT_HEADER: Final = "Onbeat-Report-Url"


class RequestUrl(msgspec.Struct, frozen=True):
    """The destination of requests to one URL; `shown` is the URL for messages."""

    url: URL
    host: str
    shown: str


class Request(msgspec.Struct, frozen=True):
    """One request, ready to be sent; `shown` names it in messages.

    `target` holds credentials that must not appear in a result or an error. `origin` is the request
    that was redirected here, as it is shown.
    """

    method: str
    url: RequestUrl
    headers: dict[str, str]
    body: bytes | None
    target: HttpTarget
    origin: str | None = None

    @property
    def shown(self) -> str:
        shown = f"{self.method} {self.url.shown}"
        return shown if self.origin is None else f"{shown}, redirected from {self.origin},"

    @property
    def may_report(self) -> bool:
        """Whether the endpoint is given an address to report to."""
        return REPORT_HEADER in self.headers


def request_for(
    job: Job, target: HttpTarget, now: datetime, user_agent: str, events: Sequence[Event] = ()
) -> Request:
    """Without a body of its own, the target gets the events.

    Raises `Invalid` for a URL that was not checked at creation.
    """
    place = request_url(target.url)
    kind = TEXT
    if events and target.body is None:
        target, kind = with_events(target, events)
    headers = defaults_of(target, user_agent, kind) | identity_of(job)
    if secrets := signing(target):
        headers |= signature_of(job, target.body or "", secrets, now)
    body = None if target.body is None else target.body.encode()
    return Request(target.method, place, headers, body, target)


def with_active_trace(request: Request) -> Request:
    """The request as a part of the active span."""
    trace = active_trace()
    if trace is None:
        return request
    kept = {name: text for name, text in request.headers.items() if name != STATE_HEADER}
    return msgspec.structs.replace(request, headers=kept | trace.headers())


def redirected(request: Request, status: int, location: str) -> Request:
    """The request that follows a redirect. Raises `Invalid` for a location that is no URL."""
    hop = hop_after(
        status,
        location,
        method=request.method,
        url=str(request.url.url),
        headers=request.headers,
        body=request.body,
    )
    return msgspec.structs.replace(
        request,
        method=hop.method,
        url=request_url(hop.url),
        headers=hop.headers,
        body=hop.body,
        origin=request.origin or request.shown,
    )


def with_report_address(request: Request, address: str) -> Request:
    return msgspec.structs.replace(request, headers=request.headers | {REPORT_HEADER: address})


def with_events(target: HttpTarget, events: Sequence[Event]) -> tuple[HttpTarget, str]:
    """The target with the events as its body, and their content type; GET, the default, is POST."""
    body, kind = delivered(events)
    method = "POST" if target.method == "GET" else target.method
    return msgspec.structs.replace(target, method=method, body=body.decode()), kind


# Schedules call the same URLs repeatedly, and parsing is a third of our overhead per request.
@lru_cache(URLS_KEPT)
def request_url(text: str) -> RequestUrl:
    """The URL as the client needs it; refused if the client parses another host from it."""
    parts = url_parts(text)
    url = URL(str(parts), encoded=True)
    if (url.raw_host, url.port) != (parts.host, parts.port_or_default):
        raise Invalid("the URL's host is ambiguous", "url")
    return RequestUrl(url, parts.host, shown_url(text))


def defaults_of(target: HttpTarget, user_agent: str, kind: str = TEXT) -> dict[str, str]:
    """The caller's headers, and defaults for those that are missing."""
    given = {name.lower() for name in target.headers}
    headers = dict(target.headers)
    if "user-agent" not in given:
        headers["User-Agent"] = user_agent
    if target.body is not None and "content-type" not in given:
        headers["Content-Type"] = kind
    return headers


def identity_of(job: Job) -> dict[str, str]:
    """Headers that identify the job; `Idempotency-Key` is the same for every attempt."""
    headers = {
        "Accept-Encoding": "identity",
        "Idempotency-Key": job.id,
        "Onbeat-Job-Id": job.id,
        "Onbeat-Attempt": str(job.attempt),
        "Onbeat-Token": str(job.token),
    }
    if job.schedule_id is not None:
        headers["Onbeat-Schedule-Id"] = job.schedule_id
    if (sender := trace_context(job.traceparent, job.tracestate)) is not None:
        headers |= sender.headers()
    if job.occurrence is not None:
        headers["Onbeat-Occurrence"] = rfc3339(job.occurrence)
    return headers


def signature_of(job: Job, body: str, secrets: tuple[str, ...], now: datetime) -> dict[str, str]:
    """A Standard Webhooks signature of the exact body and the time of this attempt.

    One signature for each secret; a receiver accepts any that it can verify.
    """
    signatures = (Webhook(secret).sign(job.id, now, body) for secret in secrets)
    return {
        "webhook-id": job.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
