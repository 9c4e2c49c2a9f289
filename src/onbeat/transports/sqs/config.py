"""Parses the URL of SQS and its options."""

import re
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from onbeat.model.broker_options import SQS
from onbeat.transports.queue_names import encode_name
from onbeat.transports.url_options import UrlOptions
from onbeat.transports.url_parts import split

NAME_CHARS_MAX: Final = 80  # SQS's own limit on the name of a queue
PREFIX_FORM: Final = re.compile(r"[A-Za-z0-9_-]{0,30}")  # leaves most of a name's 80 characters
FORM: Final = f"{SQS.form}, with options like ?endpoint=http://127.0.0.1:4566"
REGION_FORM: Final = re.compile(r"[a-z0-9-]{1,40}")
SWAPS: Final = {".": "-", "-": "_-", "_": "__"}


class SqsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All times are in seconds. After `receives` receives, SQS moves a message to `onbeat.dead`."""

    url: str
    region: str
    endpoint: str | None
    prefix: str
    visibility: int
    wait: int
    receives: int
    retention: int
    timeout: int

    def queue_name(self, queue: str) -> str:
        """The name of `queue` in SQS: `onbeat.work.default` is `onbeat-work-default`."""
        room = NAME_CHARS_MAX - len(self.prefix)
        return self.prefix + encode_name(queue, swaps=SWAPS, mark="_", room=room)


def parse_url(url: str) -> SqsConfig:
    """Raises `Misconfigured`."""
    parts = split(url, FORM, frozenset({"sqs"}))
    query = UrlOptions(parts.query, SQS)
    if "@" in parts.netloc:
        query.refuse("it takes no keys; give them in the environment or a profile, as to any tool")
    if not REGION_FORM.fullmatch(parts.netloc) or parts.path.strip("/"):
        query.refuse(f"it is {FORM}")
    config = SqsConfig(
        url=f"sqs://{parts.netloc}",
        region=parts.netloc,
        endpoint=endpoint_of(query),
        prefix=prefix_of(query),
        visibility=query.whole_number("visibility"),
        wait=query.whole_number("wait"),
        receives=query.whole_number("receives"),
        retention=query.whole_number("retention"),
        timeout=query.whole_number("timeout"),
    )
    query.refuse_unknown()
    return msgspec.structs.replace(config, url=display_url(config))


def endpoint_of(query: UrlOptions) -> str | None:
    endpoint = query.take("endpoint")
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        query.refuse("endpoint is like http://127.0.0.1:4566")
    if "@" in parts.netloc or parts.query:
        query.refuse("endpoint takes no user, password or options")
    return endpoint


def prefix_of(query: UrlOptions) -> str:
    prefix = query.text("prefix")
    if not PREFIX_FORM.fullmatch(prefix):
        query.refuse("prefix is up to 30 letters, digits, - and _")
    return prefix


def display_url(config: SqsConfig) -> str:
    """The URL for messages; it contains no secret."""
    named = {"endpoint": config.endpoint, "prefix": config.prefix}
    query = urlencode({name: value for name, value in named.items() if value}, quote_via=quote)
    return config.url + ("?" + query if query else "")
