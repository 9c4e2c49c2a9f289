"""Where SQS is and how its queues are kept, as the URL says."""

import re
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from onbeat.transports.naming import spelled
from onbeat.transports.query import Query
from onbeat.transports.reading import split

NAME_CHARS_MAX: Final = 80  # SQS's own limit on the name of a queue
PREFIX_FORM: Final = re.compile(r"[A-Za-z0-9_-]{0,30}")  # leaves most of a name's 80 characters
FORM: Final = "sqs://REGION, with options like ?endpoint=http://127.0.0.1:4566"
REGION_FORM: Final = re.compile(r"[a-z0-9-]{1,40}")
SWAPS: Final = {".": "-", "-": "_-", "_": "__"}

VISIBILITY_DEFAULT: Final = 60  # four leases of a worker: it is extended long before
VISIBILITY_MAX: Final = 43_200  # SQS's own limit, as are those below
WAIT_DEFAULT: Final = 10
WAIT_MAX: Final = 20
RECEIVES_DEFAULT: Final = 10
RECEIVES_MAX: Final = 1_000
RETENTION_DEFAULT: Final = 86_400  # the store announces again what is older
RETENTION_MIN: Final = 60
RETENTION_MAX: Final = 1_209_600
TIMEOUT_DEFAULT: Final = 10
TIMEOUT_MAX: Final = 60


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """All times are in seconds. `receives` is how often a message may be received before SQS moves
    it to the redrive queue.
    """

    url: str
    region: str
    endpoint: str | None
    prefix: str
    visibility: int
    wait: int
    receives: int
    retention: int
    timeout: int

    def spelled(self, queue: str) -> str:
        """The name that `queue` has in SQS: `onbeat.work.default` is `onbeat-work-default`."""
        room = NAME_CHARS_MAX - len(self.prefix)
        return self.prefix + spelled(queue, swaps=SWAPS, mark="_", room=room)


def read_place(url: str) -> Place:
    """Raises `Misconfigured`."""
    parts = split(url, FORM, frozenset({"sqs"}))
    query = Query(parts.query, "SQS")
    if "@" in parts.netloc:
        query.refuse("it takes no keys; give them in the environment or a profile, as to any tool")
    if not REGION_FORM.fullmatch(parts.netloc) or parts.path.strip("/"):
        query.refuse(f"it is {FORM}")
    place = Place(
        url=f"sqs://{parts.netloc}",
        region=parts.netloc,
        endpoint=endpoint_of(query),
        prefix=prefix_of(query),
        visibility=query.whole("visibility", VISIBILITY_DEFAULT, 1, VISIBILITY_MAX),
        wait=query.whole("wait", WAIT_DEFAULT, 1, WAIT_MAX),
        receives=query.whole("receives", RECEIVES_DEFAULT, 1, RECEIVES_MAX),
        retention=query.whole("retention", RETENTION_DEFAULT, RETENTION_MIN, RETENTION_MAX),
        timeout=query.whole("timeout", TIMEOUT_DEFAULT, 1, TIMEOUT_MAX),
    )
    query.end()
    return msgspec.structs.replace(place, url=shown(place))


def endpoint_of(query: Query) -> str | None:
    endpoint = query.taken("endpoint")
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        query.refuse("endpoint is like http://127.0.0.1:4566")
    if "@" in parts.netloc or parts.query:
        query.refuse("endpoint takes no user, password or options")
    return endpoint


def prefix_of(query: Query) -> str:
    prefix = query.text("prefix", "")
    if not PREFIX_FORM.fullmatch(prefix):
        query.refuse("prefix is up to 30 letters, digits, - and _")
    return prefix


def shown(place: Place) -> str:
    """The URL that says where it is; there is no secret in it."""
    named = {"endpoint": place.endpoint, "prefix": place.prefix}
    query = urlencode({name: value for name, value in named.items() if value}, quote_via=quote)
    return place.url + ("?" + query if query else "")
