"""Parses the URL of a Redis server."""

import re
from typing import Any, Final
from urllib.parse import SplitResult, unquote

import msgspec

from onbeat.model.broker_options import REDIS
from onbeat.transports.url_options import UrlOptions
from onbeat.transports.url_parts import Tls, seconds, split, tls, without_password

SCHEMES: Final = frozenset({"redis", "rediss", "redis+unix", "unix"})
SOCKETS: Final = frozenset({"redis+unix", "unix"})
FORM: Final = f"{REDIS.form} or redis+unix:///PATH?db=DATABASE"
PORT: Final = 6379
NAME_FORM: Final = re.compile(r"[!-~]{1,64}")  # names of connections that the server accepts


class RedisConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is without secrets; the server is at `host` and `port`, or at the socket `path`.

    `prefix` is the prefix of all keys. `timeout` limits, in seconds, connecting to the broker and
    the confirmation of a publish. After `visibility` seconds, a message that is not extended goes
    to another consumer.
    """

    url: str
    host: str
    port: int
    path: str | None
    database: int
    user: str | None
    password: str | None
    tls: Tls | None
    name: str
    prefix: str
    timeout: float
    visibility: float

    @property
    def for_driver(self) -> dict[str, Any]:
        """The driver's arguments for a connection. Timeouts are applied here, not in the driver."""
        where = {"host": self.host, "port": self.port} if self.path is None else {"path": self.path}
        return {
            **where,
            "db": self.database,
            "username": self.user,
            "password": self.password,
            "client_name": self.name,
            "protocol": 2,
            "socket_timeout": None,
            "socket_connect_timeout": self.timeout,
            **of_tls(self.tls),
        }


def parse_url(url: str) -> RedisConfig:
    parts = split(url, FORM, SCHEMES)
    query = UrlOptions(parts.query, REDIS)
    name = query.text("name")
    if not NAME_FORM.fullmatch(name):
        query.refuse("name is up to 64 visible ASCII characters")
    is_socket = parts.scheme in SOCKETS
    config = RedisConfig(
        url=without_password(parts),
        host=parts.hostname or "localhost",
        port=parts.port or PORT,
        path=unquote(parts.path) if is_socket else None,
        database=query.whole_number("db") if is_socket else database_of(parts, query),
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        tls=tls(query, used=parts.scheme == "rediss", scheme="rediss"),
        name=name,
        prefix=query.text("prefix"),
        timeout=seconds(query, "timeout"),
        visibility=seconds(query, "visibility"),
    )
    if is_socket and not parts.path:
        query.refuse(f"the path of the socket is missing: {FORM}")
    query.refuse_unknown()
    return config


def database_of(parts: SplitResult, query: UrlOptions) -> int:
    text = parts.path.strip("/") or "0"
    if not (text.isascii() and text.isdigit() and int(text) <= query.option("db").high):
        query.refuse(f"what follows the host is the number of a database: {FORM}")
    return int(text)


def of_tls(request: Tls | None) -> dict[str, Any]:
    if request is None:
        return {}
    return {
        "ssl_ca_certs": request.cafile,
        "ssl_certfile": request.certfile,
        "ssl_keyfile": request.keyfile,
        "ssl_cert_reqs": "required" if request.verify else "none",
        "ssl_check_hostname": request.verify,
    }
