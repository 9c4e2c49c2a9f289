"""The request that an attempt sends."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec
from standardwebhooks import Webhook
from yarl import URL

from onbeat.model.errors import Invalid
from onbeat.model.job import Job
from onbeat.model.target import HttpTarget
from onbeat.rules.urls import shown_url, url_parts

TEXT: Final = "text/plain; charset=utf-8"
PLACES_KEPT: Final = 1_000


class Place(msgspec.Struct, frozen=True):
    """Where requests for one URL go; `shown` is the URL as messages have it."""

    url: URL
    host: str
    shown: str


class Request(msgspec.Struct, frozen=True):
    """One request, ready to be sent; `shown` names it in messages."""

    method: str
    place: Place
    headers: dict[str, str]
    body: bytes | None

    @property
    def shown(self) -> str:
        return f"{self.method} {self.place.shown}"


def request_for(job: Job, target: HttpTarget, now: datetime, user_agent: str) -> Request:
    """Raises `Invalid` for a URL that no check at creation has seen."""
    place = place_of(target.url)
    headers = defaults_of(target, user_agent) | identity_of(job)
    if target.secret is not None:
        headers |= signature_of(job, target.body or "", target.secret, now)
    body = None if target.body is None else target.body.encode()
    return Request(target.method, place, headers, body)


# A schedule calls the same URL again and again, and reading it is a third of what we add to it.
@lru_cache(PLACES_KEPT)
def place_of(text: str) -> Place:
    """The URL as the client wants it, refused if the client reads another host from it than we."""
    parts = url_parts(text)
    url = URL(str(parts), encoded=True)
    if (url.raw_host, url.port) != (parts.host, parts.port_or_default):
        raise Invalid("the URL's host can be read in two ways", "url")
    return Place(url, parts.host, shown_url(text))


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
