"""Parses the URL of a store."""

from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import msgspec

from onbeat.model.errors import Misconfigured

SCHEMES = frozenset({"mysql", "mariadb"})
PORT = 3306
OPTIONS = frozenset({"unix_socket", "ssl"})
FORM = "mysql://USER@HOST/DATABASE"


class Dsn(msgspec.Struct, frozen=True, kw_only=True):
    """`url` has no secrets. `socket`, the path of a Unix socket, overrides host and port."""

    url: str
    user: str
    password: str
    host: str
    port: int
    socket: str | None
    database: str
    ssl: bool


def parse_dsn(url: str) -> Dsn:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    database = unquote(parts.path.removeprefix("/"))
    if parts.scheme not in SCHEMES or not database or "/" in database:
        raise Misconfigured(f"a MySQL or MariaDB store is {FORM}", key="store")
    if unknown := sorted(options.keys() - OPTIONS):
        raise Misconfigured(
            f"unknown option {unknown[0]!r} in the store's URL; allowed are "
            f"{' and '.join(sorted(OPTIONS))}",
            key="store",
        )
    return Dsn(
        url=urlunsplit(
            parts._replace(
                netloc=without_password(parts.netloc), query=urlencode(options, quote_via=quote)
            )
        ),
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        host=parts.hostname or "localhost",
        port=port_of(url) or PORT,
        socket=options.get("unix_socket") or None,
        database=database,
        ssl=options.get("ssl", "") not in ("", "0", "false"),
    )


def port_of(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError as error:
        raise Misconfigured(f"the port in the store's URL: {error}", key="store") from error


def without_password(netloc: str) -> str:
    user, at, host = netloc.rpartition("@")
    return user.partition(":")[0] + at + host
