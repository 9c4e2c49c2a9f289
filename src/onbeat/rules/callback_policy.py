"""The policy of a callback: which answers succeed, and what a redirect makes of its request."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final
from urllib.parse import urljoin

import msgspec

from onbeat.model.credentials import is_secret_name
from onbeat.model.errors import Invalid
from onbeat.model.limits import (
    CONNECT_TIMEOUT_MAX,
    CONNECT_TIMEOUT_MIN,
    REDIRECTS_MAX,
    STATUSES_MAX,
)
from onbeat.model.target import ANY_STATUS
from onbeat.rules.origins import origin_of
from onbeat.rules.urls import checked_url

DEFAULT: Final = ("2xx",)
STATUS: Final = re.compile(r"[1-5](?:xx|[0-9]{2})", re.ASCII)
FORM: Final = 'statuses such as 200, classes such as "2xx", or "any"'

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
BODY_HEADERS: Final = frozenset(
    {"content-encoding", "content-language", "content-location", "content-type"}
)
OWN: Final = "onbeat-"
OF_ORIGIN: Final = frozenset({"onbeat-report-url"})
"""Headers of our own that give a right."""
SIGNATURE: Final = "webhook-"


class Hop(msgspec.Struct, frozen=True):
    """What a redirect asks for: the method, the URL, and the headers and body that go along."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None


def checked_success(
    given: str | Sequence[str | int] | None, *, field: str = "success"
) -> tuple[str, ...]:
    """The statuses in their stored form, each once; `()` for the default, 2xx.

    Raises `Invalid` for a list that is empty or too long, and for what is no status or class.
    """
    if given is None:
        return ()
    texts = [given] if isinstance(given, str) else list(given)
    if not 1 <= len(texts) <= STATUSES_MAX:
        raise Invalid(f"{field} must be a list of 1 to {STATUSES_MAX} {FORM}", field)
    statuses = tuple(dict.fromkeys(str(one).lower() for one in texts))
    for one in statuses:
        if one != ANY_STATUS and not STATUS.fullmatch(one):
            raise Invalid(f"{field}: {one[:20]!r} is no status; give {FORM}", field)
    if ANY_STATUS in statuses:
        return (ANY_STATUS,)
    return () if statuses == DEFAULT else statuses


def checked_redirects(count: int, *, field: str = "redirects") -> int:
    if not 0 <= count <= REDIRECTS_MAX:
        raise Invalid(f"{field} must be from 0 to {REDIRECTS_MAX}", field)
    return count


def checked_connect_timeout(
    span: timedelta | None, *, field: str = "connect_timeout"
) -> timedelta | None:
    if span is not None and not CONNECT_TIMEOUT_MIN <= span <= CONNECT_TIMEOUT_MAX:
        least, most = CONNECT_TIMEOUT_MIN.total_seconds(), CONNECT_TIMEOUT_MAX.total_seconds()
        raise Invalid(f"{field} must be from {least:g} s to {most:g} s", field)
    return span


def is_success(status: int, statuses: tuple[str, ...]) -> bool:
    """Whether an answer with this status succeeds, by the statuses in their stored form."""
    if not statuses:
        return 200 <= status < 300
    return any(one in {ANY_STATUS, str(status), f"{status // 100}xx"} for one in statuses)


def is_redirect(status: int, location: str | None) -> bool:
    return status in REDIRECTS and bool(location)


def hop_after(
    status: int,
    location: str,
    *,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
) -> Hop:
    """The request that follows a redirect (RFC 9110, 15.4).

    303 becomes GET, and so does POST after 301 and 302, as browsers do; a body goes along where the
    method stays. To another origin go neither credentials nor signatures. Raises `Invalid` for a
    location that cannot be called.
    """
    try:
        place = checked_url(urljoin(url, location), field="location")
    except ValueError as error:  # of brackets that do not match
        raise Invalid("not a URL", "location") from error
    kept = dict(headers)
    is_changed = (status == 303 and method not in {"GET", "HEAD"}) or (
        status in {301, 302} and method == "POST"
    )
    if is_changed:
        method, body = "GET", None
        kept = {name: kept[name] for name in kept if not is_of_body(name)}
    if origin_of(place) != origin_of(url):
        kept = {name: kept[name] for name in kept if not is_of_origin(name)}
    return Hop(method, place, kept, body)


def is_of_body(name: str) -> bool:
    return name.lower() in BODY_HEADERS or name.lower().startswith(SIGNATURE)


def is_of_origin(name: str) -> bool:
    low = name.lower()
    if low.startswith(OWN):
        return low in OF_ORIGIN
    return is_secret_name(name) or low.startswith(SIGNATURE)
