"""Parses the URL of a RabbitMQ broker."""

from typing import Final
from urllib.parse import SplitResult, unquote

import msgspec
from yarl import URL

from onbeat.model.broker_options import RABBITMQ
from onbeat.transports.url_options import UrlOptions
from onbeat.transports.url_parts import Tls, flag, seconds, split, tls, without_password

SCHEMES: Final = frozenset({"amqp", "amqps"})
PREFIX_CHARS_MAX: Final = 50


class RabbitMqConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is without secrets; `dsn` is for the driver.

    `prefix` is the prefix of all queue names. `timeout` limits, in seconds, connecting to the
    broker and the confirmation of a publish.
    """

    url: str
    dsn: URL
    tls: Tls | None
    prefix: str
    quorum: bool
    timeout: float


def parse_url(url: str) -> RabbitMqConfig:
    parts = split(url, RABBITMQ.form, SCHEMES)
    query = UrlOptions(parts.query, RABBITMQ)
    prefix = query.text("prefix")
    if len(prefix) > PREFIX_CHARS_MAX:
        query.refuse(f"prefix has at most {PREFIX_CHARS_MAX} characters")
    config = RabbitMqConfig(
        url=without_password(parts),
        dsn=dsn(
            parts,
            heartbeat=query.whole_number("heartbeat"),
            name=query.text("name"),
        ),
        tls=tls(query, used=parts.scheme == "amqps", scheme="amqps"),
        prefix=prefix,
        quorum=flag(query, "quorum"),
        timeout=seconds(query, "timeout"),
    )
    query.refuse_unknown()
    return config


def dsn(parts: SplitResult, *, heartbeat: int, name: str) -> URL:
    """The driver's URL. It contains only these options, as the driver would interpret others."""
    return URL.build(
        scheme=parts.scheme,
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        host=parts.hostname or "localhost",
        port=parts.port,
        path="/" + (unquote(parts.path.removeprefix("/")) or "/"),
        query={"heartbeat": str(heartbeat), "name": name},
    )
