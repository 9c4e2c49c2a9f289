"""Where the broker is, as its URL says."""

from typing import Final
from urllib.parse import SplitResult, unquote

import msgspec
from yarl import URL

from onbeat.transports.query import Query
from onbeat.transports.reading import Tls, flag, seconds, split, tls, without_password

SCHEMES: Final = frozenset({"amqp", "amqps"})
FORM: Final = "amqp://USER:PASSWORD@HOST/VHOST"
PREFIX_CHARS_MAX: Final = 50


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is without secrets; `dsn` is for the driver.

    `prefix` stands before the names of all queues. `timeout` is the seconds within which the broker
    is reached and a publish is confirmed.
    """

    url: str
    dsn: URL
    tls: Tls | None
    prefix: str
    quorum: bool
    timeout: float


def read_place(url: str) -> Place:
    parts = split(url, FORM, SCHEMES)
    query = Query(parts.query, "RabbitMQ")
    prefix = query.text("prefix", "")
    if len(prefix) > PREFIX_CHARS_MAX:
        query.refuse(f"prefix has at most {PREFIX_CHARS_MAX} characters")
    place = Place(
        url=without_password(parts),
        dsn=dsn(
            parts,
            heartbeat=query.whole("heartbeat", 10, 1, 600),
            name=query.text("name", "onbeat"),
        ),
        tls=tls(query, used=parts.scheme == "amqps", scheme="amqps"),
        prefix=prefix,
        quorum=flag(query, "quorum", default=False),
        timeout=seconds(query, "timeout", 10.0),
    )
    query.end()
    return place


def dsn(parts: SplitResult, *, heartbeat: int, name: str) -> URL:
    """The driver reads options of its own out of it; it is given only these."""
    return URL.build(
        scheme=parts.scheme,
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        host=parts.hostname or "localhost",
        port=parts.port,
        path="/" + (unquote(parts.path.removeprefix("/")) or "/"),
        query={"heartbeat": str(heartbeat), "name": name},
    )
