"""What the environment says. The variables of the old system keep their names and their forms."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv6Address
from pathlib import Path
from typing import Final, Literal, cast
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

Share = Literal["proportional", "seed"]
Dates = Literal["calendar", "anniversary"]

HOST: Final = re.compile(r"[\w.-]{1,255}")
SECRETS: Final = ("DB_PASS", "QUEUE_URL", "LINEBLOCS_KEY", "ARI_PASSWORD", "MAIL_API_KEY")
"""Each may be given as NAME, or as NAME_FILE with the path of a file."""


class ConfigError(ValueError):
    """A variable of the environment is wrong; the message names it, and what it may be."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """`database` and `store` are URLs; the jobs are kept in `store`, by default the same one."""

    database: str = field(repr=False)
    store: str = field(default="", repr=False)
    queue_url: str = field(default="", repr=False)
    billing_queue: str = "billing_tasks"
    pool_max: int = 10
    zone: str = "UTC"
    debug: bool = False
    dates: Dates = "calendar"
    share: Share = "proportional"
    attempts_cap: int = 5
    backoff: timedelta = timedelta(days=1)
    open_max: timedelta = timedelta(days=14)
    domain: str = "lineblocs.com"
    api_url: str = ""
    api_token: str = field(default="", repr=False)
    mail_url: str = ""
    mail_key: str = field(default="", repr=False)
    ari_url: str = "http://127.0.0.1:8088/ari"
    ari_username: str = ""
    ari_password: str = field(default="", repr=False)
    ari_servers: tuple[str, ...] = ()
    stripe_url: str = ""
    braintree_url: str = ""

    @property
    def jobs_store(self) -> str:
        return self.store or self.database


def read_config(variables: Mapping[str, str]) -> Config:
    """Raises `ConfigError`."""
    return Config(
        database=database_of(variables),
        store=variables.get("ONBEAT_STORE", ""),
        queue_url=queue_url_of(variables),
        billing_queue=variables.get("BILLING_QUEUE_NAME") or "billing_tasks",
        pool_max=whole(variables, "DB_POOL_MAX", 10),
        zone=zone_of(variables),
        debug=variables.get("DISTRIBUTOR_DEBUG") == "1",
        dates=cast("Dates", one_of(variables, "BILLING_DATES", "calendar", "anniversary")),
        share=cast("Share", one_of(variables, "USAGE_SHARE", "proportional", "seed")),
        attempts_cap=whole(variables, "BILLING_ATTEMPTS_MAX", 5),
        backoff=timedelta(days=whole(variables, "BILLING_RETRY_DAYS", 1)),
        open_max=timedelta(days=whole(variables, "BILLING_OPEN_DAYS", 14)),
        domain=variables.get("DEPLOYMENT_DOMAIN") or "lineblocs.com",
        api_url=http_url(variables, "API_URL"),
        api_token=secret(variables, "LINEBLOCS_KEY"),
        mail_url=http_url(variables, "MAIL_API_URL"),
        mail_key=secret(variables, "MAIL_API_KEY"),
        ari_url=http_url(variables, "ARI_URL") or Config.ari_url,
        ari_username=variables.get("ARI_USERNAME", ""),
        ari_password=secret(variables, "ARI_PASSWORD"),
        ari_servers=tuple(
            filter(None, map(str.strip, variables.get("ARI_SERVERS", "").split(",")))
        ),
        stripe_url=http_url(variables, "STRIPE_URL"),
        braintree_url=variables.get("BRAINTREE_URL", ""),
    )


def database_of(variables: Mapping[str, str]) -> str:
    """The URL of `DB_HOST`, `DB_USER`, `DB_PASS` and `DB_NAME`."""
    for name in ("DB_HOST", "DB_USER", "DB_NAME"):
        if not variables.get(name):
            raise ConfigError(f"{name} is needed, for MariaDB or MySQL")
    login = quote(variables["DB_USER"], safe="")
    if password := secret(variables, "DB_PASS"):
        login += ":" + quote(password, safe="")
    port = whole(variables, "DB_PORT", 3306)
    return f"mysql://{login}@{host_of(variables)}:{port}/{quote(variables['DB_NAME'], safe='')}"


def host_of(variables: Mapping[str, str]) -> str:
    """As it stands in a URL, where an address of IPv6 is in brackets."""
    host = variables["DB_HOST"]
    if HOST.fullmatch(host):
        return host
    try:
        return f"[{IPv6Address(host.removeprefix('[').removesuffix(']'))}]"
    except ValueError as error:
        message = f"DB_HOST is a name or an address, and DB_PORT its port, not {host!r}"
        raise ConfigError(message) from error


def queue_url_of(variables: Mapping[str, str]) -> str:
    url = secret(variables, "QUEUE_URL")
    if url and (urlsplit(url).scheme not in {"amqp", "amqps"} or not urlsplit(url).hostname):
        raise ConfigError("QUEUE_URL is such as amqp://USER:PASSWORD@HOST:5672/")
    return url


def secret(variables: Mapping[str, str], name: str) -> str:
    value, path = variables.get(name, ""), variables.get(f"{name}_FILE", "")
    if value and path:
        raise ConfigError(f"{name} and {name}_FILE are both set; unset one of them")
    if not path:
        return value
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"{name}_FILE names a file that cannot be read: {why}") from error


def zone_of(variables: Mapping[str, str]) -> str:
    name = variables.get("BILLING_TIME_ZONE") or "UTC"
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError) as error:
        message = f"BILLING_TIME_ZONE is a name such as Europe/Berlin, not {name!r}"
        raise ConfigError(message) from error


def whole(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(name) or str(default)
    if not text.isascii() or not text.isdigit() or len(text) > 5 or not int(text):
        raise ConfigError(f"{name} is a whole number from 1 to 99999, not {text!r}")
    return int(text)


def one_of(variables: Mapping[str, str], name: str, default: str, *others: str) -> str:
    """The default, also for a variable that is empty."""
    value = variables.get(name) or default
    if value not in {default, *others}:
        raise ConfigError(f"{name} is {' or '.join((default, *others))}, not {value!r}")
    return value


def http_url(variables: Mapping[str, str], name: str) -> str:
    url = variables.get(name, "")
    if url and (urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname):
        raise ConfigError(f"{name} is such as https://api.example.com")
    return url.rstrip("/")
