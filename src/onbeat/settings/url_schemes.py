"""The supported stores and transports, by the scheme of their URL."""

import re
from collections.abc import Callable, Mapping
from typing import Final, cast

from onbeat.model.errors import Invalid
from onbeat.model.limits import CHANNELS_MAX
from onbeat.rules.channels import read_channel
from onbeat.settings.parsers import did_you_mean

STORES: Final = {
    "sqlite": "sqlite:///PATH",
    "postgresql": "postgresql://USER@HOST/DATABASE",
    "mysql": "mysql://USER@HOST/DATABASE",
    "memory": "memory://",
    "cells": "cells:///PATH",
}
# Other common names.
ALIASES: Final = {
    "postgres": "postgresql",
    "mariadb": "mysql",
    "amqps": "amqp",
    "rediss": "redis",
    "redis+unix": "redis",
}
TRANSPORTS: Final = {
    "memory": "memory:// or memory://NAME",
    "amqp": "amqp://USER:PASSWORD@HOST/VHOST",
    "redis": "redis://HOST:PORT/DATABASE",
    "sqs": "sqs://REGION?endpoint=URL",
    "kafka": "kafka://HOST:PORT",
}
BROKERS: Final = TRANSPORTS | {"memory": "memory://NAME"}

MEMORY: Final = re.compile(r"memory://([A-Za-z0-9_.-]{0,100})")
CONNECTION: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


def url_of(known: Mapping[str, str]) -> Callable[[object], str]:
    """A URL with one of the known schemes."""
    forms = " or ".join(known.values())

    def read(value: object) -> str:
        if not isinstance(value, str) or ":" not in value:
            raise ValueError(f"a URL like {forms}")
        url = value.strip()
        written = url.partition(":")[0].lower()
        scheme = ALIASES.get(written, written)
        if scheme not in known:
            raise ValueError(f"a URL like {forms}{did_you_mean(scheme, list(known))}")
        check_form(scheme, url)
        if scheme == "memory":
            check_name(url, known[scheme])
        return url

    return read


def named_urls(value: object) -> dict[str, str]:
    """URLs of brokers by name."""
    read = url_of(BROKERS)
    named: dict[str, str] = {}
    for name, url in pairs_of(value):
        if not CONNECTION.fullmatch(name):
            raise ValueError(f"names of letters, digits, - and _ with a URL each, not {name!r}")
        if name in named:
            raise ValueError(f"one URL for each name; {name} has two")
        named[name] = read(url)
    return named


def named_channels(value: object) -> dict[str, str]:
    """URLs of channels by name; the error message shows none of them."""
    named: dict[str, str] = {}
    for name, url in pairs_of(value):
        if not CONNECTION.fullmatch(name):
            raise ValueError("names of letters, digits, - and _ with a URL each")
        if name in named:
            raise ValueError(f"one URL for each name; {name} has two")
        try:
            read_channel(str(url).strip())
        except Invalid as error:
            raise ValueError(f"{error} (channel {name})") from None
        named[name] = str(url).strip()
    if len(named) > CHANNELS_MAX:
        raise ValueError(f"at most {CHANNELS_MAX} channels")
    return named


def pairs_of(value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [(str(name), url) for name, url in cast("dict[object, object]", value).items()]
    parts = [part.partition("=") for part in str(value).split()]
    return [(name, url) for name, _, url in parts]


def check_form(scheme: str, url: str) -> None:
    if scheme == "sqlite" and not url[len("sqlite:") :].startswith("///"):
        raise ValueError('sqlite:///PATH with three slashes ("sqlite:////var/lib/…" from the root)')
    if scheme == "sqlite" and not url[len("sqlite:///") :].partition("?")[0]:
        raise ValueError("sqlite:///PATH with the path of a file; memory:// keeps nothing")
    if scheme == "cells" and not url.removeprefix("cells:///").strip():
        raise ValueError("cells:///PATH with the path of the file that has the map of cells")
    if scheme == "cells" and not url.startswith("cells:///"):
        raise ValueError('cells:///PATH with three slashes ("cells:////etc/…" from the root)')


def check_name(url: str, form: str) -> None:
    """Check the name after `memory://`: required, forbidden or optional, as the form says."""
    match = MEMORY.fullmatch(url)
    if not match or f"memory://{'NAME' if match[1] else ''}" not in form.split(" or "):
        raise ValueError(f"{form} and nothing after it")
