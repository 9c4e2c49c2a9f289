"""What the environment says. The variables of the old system keep their names and their forms."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

from credits.uploads.addresses import site_name

log = logging.getLogger(__name__)

REGULAR: Final = 10
EDUCATOR: Final = 25
SITE_URL: Final = "http://localhost:8090"
GO_DSN: Final = re.compile(
    r"(?P<user>[^:@/]*)(:(?P<password>.*))?@"
    r"((?P<net>tcp|unix)\((?P<address>[^)]*)\))?/(?P<name>[^?/]+)(\?.*)?"
)
"""How the driver of the old system names a database: USER:PASSWORD@tcp(HOST:PORT)/DATABASE."""


class ConfigError(ValueError):
    """A variable of the environment is wrong; the message names it, and what it may be."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """`database` and `store` are URLs; the jobs are kept in `store`, by default the same one.

    `sites` are the hosts of this site, today's first, each with its port and path if it has them.
    """

    database: str
    store: str = ""
    zone: str = "UTC"
    regular: int = REGULAR
    educator: int = EDUCATOR
    domains: Mapping[str, int] = field(default_factory=dict[str, int])
    uploads: Path = Path("static/uploads")
    sites: tuple[str, ...] = (SITE_URL.removeprefix("http://"),)
    grace: timedelta = timedelta(days=1)
    remove_share_max: float = 0.5
    stale_after: timedelta = timedelta(days=7)
    checkout: timedelta = timedelta(days=1)

    @property
    def jobs_store(self) -> str:
        return self.store or self.database


def read_config(variables: Mapping[str, str]) -> Config:
    """Raises `ConfigError`. A wrong limit of a tier is told and its default taken, as ever."""
    return Config(
        database=database_of(variables),
        store=variables.get("ONBEAT_STORE", ""),
        zone=zone_of(variables),
        regular=limit_of(variables, "REGULAR_USER_FREE_CREDITS", REGULAR),
        educator=limit_of(variables, "EDUCATOR_FREE_CREDITS", EDUCATOR),
        domains=domains_of(variables.get("CUSTOM_CREDIT_DOMAINS", "")),
        uploads=Path(variables.get("UPLOADS_DIR") or "static/uploads"),
        sites=sites_of(variables),
        grace=timedelta(hours=number_of(variables, "UPLOADS_GRACE_HOURS", 24)),
        remove_share_max=number_of(variables, "UPLOADS_REMOVE_SHARE_MAX", 0.5),
        stale_after=timedelta(days=number_of(variables, "STALE_PURCHASE_DAYS", 7)),
        checkout=timedelta(hours=number_of(variables, "CHECKOUT_HOURS", 24)),
    )


def database_of(variables: Mapping[str, str]) -> str:
    kind, connection = variables.get("DB_TYPE", ""), variables.get("DB_CONNECTION", "")
    if not connection:
        raise ConfigError("DB_CONNECTION is needed: a file, or USER:PASSWORD@tcp(HOST:PORT)/NAME")
    match kind:
        case "sqlite3":
            return sqlite_url(connection)
        case "mysql":
            return mysql_url(connection)
        case _:
            raise ConfigError(f"DB_TYPE is sqlite3 or mysql, not {kind!r}")


def sqlite_url(connection: str) -> str:
    path = connection.removeprefix("sqlite:///").removeprefix("file:").partition("?")[0]
    if not path or ":memory:" in path:
        raise ConfigError("DB_CONNECTION names no file; one in memory would be lost at each stop")
    return f"sqlite:///{path}"


def mysql_url(connection: str) -> str:
    if connection.startswith(("mysql://", "mariadb://")):
        return connection
    parts = GO_DSN.fullmatch(connection)
    if parts is None:
        raise ConfigError("DB_CONNECTION of mysql is USER:PASSWORD@tcp(HOST:PORT)/NAME")
    login = quote(parts["user"] or "root", safe="")
    if parts["password"]:
        login += ":" + quote(parts["password"], safe="")
    if parts["net"] == "unix":
        return f"mysql://{login}@localhost/{parts['name']}?unix_socket={quote(parts['address'])}"
    return f"mysql://{login}@{parts['address'] or '127.0.0.1:3306'}/{parts['name']}"


def zone_of(variables: Mapping[str, str]) -> str:
    name = variables.get("CREDITS_TIME_ZONE") or "UTC"
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError) as error:
        message = f"CREDITS_TIME_ZONE is a name such as Europe/Berlin, not {name!r}"
        raise ConfigError(message) from error


def limit_of(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(name, "")
    limit = whole(text)
    if limit is None:
        if text:
            log.warning("%s is no whole number from 0: %r; %d is used", name, text, default)
        return default
    return limit


def domains_of(text: str) -> dict[str, int]:
    """Limits by domain, in lower case; each entry is `@DOMAIN:LIMIT`. A wrong one is left out."""
    result: dict[str, int] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        domain, colon, number = entry.partition(":")
        limit = whole(number)
        if not colon or limit is None or not domain.strip().strip("@"):
            log.warning("CUSTOM_CREDIT_DOMAINS: %r is not @DOMAIN:LIMIT, and left out", entry)
        else:
            result[domain.strip().removeprefix("@").lower()] = limit
    return result


def whole(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def number_of(variables: Mapping[str, str], name: str, default: float) -> float:
    text = variables.get(name) or str(default)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e6:
        raise ConfigError(f"{name} is a number from 0, not {text!r}")
    return number


def sites_of(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Uploads under an address that the site had once are its own too."""
    former = variables.get("FORMER_SITE_URLS", "").split(",")
    urls = [variables.get("SITE_URL") or SITE_URL, *map(str.strip, former)]
    return tuple(dict.fromkeys(site_of(url) for url in urls if url))


def site_of(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ConfigError(
            f"SITE_URL and FORMER_SITE_URLS are such as https://game.example: {url!r}"
        )
    return site_name(parts.netloc + parts.path.rstrip("/"))
