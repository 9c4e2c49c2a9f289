"""What the environment says."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

PATTERN: Final = re.compile(r"(?!onbeat\.)[\w.-]{1,200}\*?", re.ASCII)
LINK_KEY_BYTES_MIN: Final = 32
DATABASES: Final = ("sqlite:///", "postgresql://", "postgres://")


class ConfigError(ValueError):
    """A variable of the environment is wrong; the message names it, and what it may be."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """`database` and `store` are URLs; the jobs are kept in `store`, by default the same one.

    `events` are types of events, each with or without a `*` at its end. `public_url` is where
    people reach the page to unsubscribe. The first of `link_keys` signs links, all of them check.
    """

    database: str
    link_keys: tuple[bytes, ...]
    store: str = ""
    events: tuple[str, ...] = ("shop.*",)
    public_url: str = "http://127.0.0.1:8090"
    attempts_max: int = 6
    keep_days: int = 90

    @property
    def jobs_store(self) -> str:
        return self.store or self.database


def read_config(variables: Mapping[str, str]) -> Config:
    """Raises `ConfigError`."""
    return Config(
        database=database_of(variables),
        link_keys=link_keys_of(variables),
        store=variables.get("ONBEAT_STORE", ""),
        events=events_of(variables),
        public_url=public_url_of(variables),
        attempts_max=number_of(variables, "NOTIFICATIONS_ATTEMPTS_MAX", Config.attempts_max, 99),
        keep_days=number_of(variables, "NOTIFICATIONS_KEEP_DAYS", Config.keep_days, 9_999),
    )


def database_of(variables: Mapping[str, str]) -> str:
    name = "NOTIFICATIONS_DATABASE"
    url = variables.get(name, "")
    if not url.startswith(DATABASES) or url == DATABASES[0]:
        raise ConfigError(f"{name} is sqlite:///FILE or postgresql://USER@HOST/NAME, not {url!r}")
    return url


def link_keys_of(variables: Mapping[str, str]) -> tuple[bytes, ...]:
    """From a variable, or from the file that another one names; neither is shown in an error."""
    text, file = (variables.get(f"NOTIFICATIONS_LINK_KEY{end}", "") for end in ("", "_FILE"))
    if file:
        try:
            text = Path(file).read_text("utf-8")
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"NOTIFICATIONS_LINK_KEY_FILE cannot be read: {error}") from None
    keys = tuple(key.encode() for key in text.split())
    if not keys or min(map(len, keys)) < LINK_KEY_BYTES_MIN:
        raise ConfigError(
            "NOTIFICATIONS_LINK_KEY, or the file that NOTIFICATIONS_LINK_KEY_FILE names, has a key"
            f" of at least {LINK_KEY_BYTES_MIN} bytes, such as `openssl rand -hex 32` prints;"
            " after a blank, former keys"
        )
    return keys


def events_of(variables: Mapping[str, str]) -> tuple[str, ...]:
    patterns = tuple((variables.get("NOTIFICATIONS_EVENTS") or "shop.*").split())
    for pattern in patterns:
        if not PATTERN.fullmatch(pattern):
            raise ConfigError(
                "NOTIFICATIONS_EVENTS is types of events, such as `shop.* payment.initiated`;"
                f" {pattern!r} is none"
            )
    return patterns


def public_url_of(variables: Mapping[str, str]) -> str:
    name = "NOTIFICATIONS_PUBLIC_URL"
    url = variables.get(name) or Config.public_url
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.fragment:
        raise ConfigError(f"{name} is such as https://notices.example.com, not {url!r}")
    return url.rstrip("/")


def number_of(variables: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = variables.get(name) or str(default)
    number = int(text) if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else 0
    if not 1 <= number <= most:
        raise ConfigError(f"{name} is a whole number from 1 to {most}, not {text!r}")
    return number
