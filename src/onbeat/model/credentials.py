"""Credentials inside a target: which fields hold them, and how to show a target without them."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_plus

import msgspec

from onbeat.model.target import (
    CommandTarget,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    NotifyTarget,
    Target,
)

HIDDEN: Final = "***"
"""Replaces a credential in every answer; in an edit it keeps the stored credential."""

NOT_SHOWN: Final = "…"
"""Stands for the payload, and for the errors, of sensitive jobs and schedules."""

HIDDEN_ARGS: Final = msgspec.Raw(b'["***"]')
"""Replaces encrypted arguments in every answer."""

# A shorter one occurs in a text by chance, and hiding these places would reveal it.
CREDENTIAL_CHARS_MIN: Final = 4
NAMES_KEPT: Final = 1_000  # each callback asks for all of its headers, mostly the same ones

SECRET_NAME: Final = re.compile(
    r"pass(word|wd|phrase)|secret|authorization|cookie|credential|signature|token|jwt|session"
    r"|(api|access|private|signing|function|functions|subscription|account|auth|app|application"
    r"|client|admin|master|service|license|shared)[-_]?keys?$"
    r"|(^|[-_.])auth$",
    re.IGNORECASE,
)
# Words too common to hide in a log or as the name of a header.
SECRET_PARAMETER: Final = re.compile(r"key|sig|code|hmac|otp|pin|pwd|pass", re.IGNORECASE)
USERINFO: Final = re.compile(r"(://)[^/?#@]*@")
SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]* +")


@lru_cache(NAMES_KEPT)
def is_secret_name(name: str) -> bool:
    """Whether a header or field with this name holds a credential."""
    return SECRET_NAME.search(name) is not None


def is_secret_parameter(text: str) -> bool:
    """Whether a query parameter holds a credential; `text` is its name as encoded in the URL."""
    name = unquote_plus(text)
    return is_secret_name(name) or SECRET_PARAMETER.fullmatch(name) is not None


def has_encrypted_args(target: HandlerTarget) -> bool:
    """Whether the arguments are encrypted: then they are a JSON string, otherwise an array."""
    return memoryview(target.args)[:1].tobytes() == b'"'


def masked(target: Target) -> Target:
    """The target with `***` for each credential and for encrypted arguments."""
    match target:
        case HandlerTarget():
            if not has_encrypted_args(target):
                return target
            return HandlerTarget(target.task, HIDDEN_ARGS, encrypted=True)
        case MessageTarget():
            return msgspec.structs.replace(target, headers=masked_headers(target.headers))
        case HttpTarget():
            return msgspec.structs.replace(
                target,
                url=masked_url(target.url),
                headers=masked_headers(target.headers),
                secret=None if target.secret is None else HIDDEN,
            )
        case NotifyTarget():
            return target  # its channel keeps the credentials
        case CommandTarget():
            return msgspec.structs.replace(target, env=masked_headers(target.env))


def masked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if is_secret_name(name) else headers[name] for name in headers}


def masked_url(url: str) -> str:
    """The URL with `***` for a user name, a password, and the values of secret parameters."""
    shown = USERINFO.sub(rf"\1{HIDDEN}@", url, count=1)
    path, mark, query = shown.partition("?")
    return path + mark + "&".join(map(masked_pair, query.split("&")))


def masked_pair(pair: str) -> str:
    name, mark, value = pair.partition("=")
    return f"{name}={HIDDEN}" if mark and value and is_secret_parameter(name) else pair


def credentials_of(target: HttpTarget) -> tuple[str, ...]:
    """The credentials in each form in which an endpoint may echo them, longest first."""
    values = [value for name, value in target.headers.items() if is_secret_name(name)]
    result = {*values, *(SCHEME.sub("", value, count=1) for value in values), *signing(target)}
    query = target.url.partition("?")[2]
    if not (result or query):
        return ()
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if is_secret_parameter(name):
            result |= {value, unquote_plus(value)}
    written = {msgspec.json.encode(value).decode()[1:-1] for value in result}
    kept = (value for value in result | written if len(value) >= CREDENTIAL_CHARS_MIN)
    return tuple(sorted(kept, key=len, reverse=True))


def secrets_in_env(target: CommandTarget) -> tuple[str, ...]:
    """The lines of secret variables that a program may print, longest first."""
    values = (value for name, value in target.env.items() if is_secret_name(name))
    lines = {line.strip() for value in values for line in value.splitlines()}
    kept = (line for line in lines if len(line) >= CREDENTIAL_CHARS_MIN)
    return tuple(sorted(kept, key=len, reverse=True))


def signing(target: HttpTarget) -> tuple[str, ...]:
    """The secrets that sign a callback, in order."""
    secret = target.secret
    if secret is None:
        return ()
    return (secret,) if isinstance(secret, str) else secret
