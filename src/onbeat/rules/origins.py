"""Binds credentials to the origin that they were given for (scheme, host, port; a broker)."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from onbeat.model.credentials import (
    HIDDEN,
    HIDDEN_ARGS,
    has_encrypted_args,
    is_secret_name,
    is_secret_parameter,
    signing,
)
from onbeat.model.errors import Invalid
from onbeat.model.target import (
    NO_KWARGS,
    CommandTarget,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    NotifyTarget,
    Target,
)
from onbeat.rules.urls import check_distinct, url_parts

Origin = tuple[str, str, int]
Secret = str | tuple[str, ...]
Value = TypeVar("Value")

NOTHING_STORED: Final = f"{HIDDEN} stands for what is stored, and nothing is: give it in full"
ELSEWHERE: Final = (
    f"{HIDDEN} stands for what is stored, and that is for another origin"
    " (scheme, host and port): give it again in full, or leave it out"
)
OTHER_BROKER: Final = (
    f"{HIDDEN} stands for what is stored, and that is for another broker: give it again in full,"
    " or leave it out"
)
OTHER_PROGRAM: Final = (
    f"{HIDDEN} stands for what is stored, and that is for another program: give it again in full,"
    " or leave it out"
)
OTHER_TASK: Final = (
    f"target.args: {HIDDEN} stands for the arguments that are stored, and those are for another"
    " task: give them again in full"
)
SIGNED_ELSEWHERE: Final = (
    "the signing secret that is stored is for another origin (scheme, host and port):"
    " give target.http.secret again, or null to send without a signature"
)


class Fields(msgspec.Struct, frozen=True):
    """The names in error messages for a target's fields that hold credentials."""

    url: str = "url"
    headers: str = "headers"
    secret: str = "secret"  # noqa: S105  the name of a field
    env: str = "env"


PLAIN_FIELDS: Final = Fields()


def fields_under(prefix: str) -> Fields:
    """The names under `target.KIND.`; variables are beside the kind."""
    beside = prefix.removesuffix(".").rpartition(".")[0]
    env = f"{beside}.env" if beside else "env"
    return Fields(f"{prefix}url", f"{prefix}headers", f"{prefix}secret", env)


def with_credentials_of(
    before: Target | None, target: Target, fields: Fields = PLAIN_FIELDS
) -> Target:
    """The target with each `***` replaced by the stored credential.

    `target` is otherwise in its stored form. Raises `Invalid` if nothing is stored for a `***`, or
    only for another origin.
    """
    match target:
        case HttpTarget() if is_complete(target):
            return target
        case HttpTarget():
            return http_with(before if isinstance(before, HttpTarget) else None, target, fields)
        case MessageTarget():
            known = before if isinstance(before, MessageTarget) else None
            return message_with(known, target, fields)
        case HandlerTarget():
            return handler_with(before if isinstance(before, HandlerTarget) else None, target)
        case NotifyTarget():
            return target
        case CommandTarget():
            return command_with(
                before if isinstance(before, CommandTarget) else None, target, fields
            )


def is_complete(target: HttpTarget) -> bool:
    """Whether the target contains no `***` for a credential."""
    return HIDDEN not in "\n".join((target.url, *target.headers.values(), *signing(target)))


def handler_with(before: HandlerTarget | None, target: HandlerTarget) -> HandlerTarget:
    """Replaces hidden arguments by the stored ones, if these are encrypted."""
    is_hidden = target.args == HIDDEN_ARGS and target.kwargs == NO_KWARGS
    if not is_hidden or not target.encrypted:
        return target
    if before is None or not has_encrypted_args(before):
        raise Invalid(f"target.args: {NOTHING_STORED}", "target.args")
    if before.task != target.task:
        raise Invalid(OTHER_TASK, "target.args")
    return before


def message_with(
    before: MessageTarget | None, target: MessageTarget, fields: Fields
) -> MessageTarget:
    stored, why = before.headers if before else {}, NOTHING_STORED
    if before is not None and before.to != target.to:
        stored, why = {}, OTHER_BROKER
    headers = filled_headers(target.headers, stored, fields.headers, why)
    return msgspec.structs.replace(target, headers=headers)


def command_with(
    before: CommandTarget | None, target: CommandTarget, fields: Fields
) -> CommandTarget:
    stored, why = before.env if before else {}, NOTHING_STORED
    if before is not None and before.program != target.program:
        stored, why = {}, OTHER_PROGRAM
    env = filled_headers(target.env, stored, fields.env, why)
    return msgspec.structs.replace(target, env=env)


def http_with(before: HttpTarget | None, target: HttpTarget, fields: Fields) -> HttpTarget:
    why, stored = NOTHING_STORED, before
    if before is not None and origin_of(before.url) != origin_of(target.url):
        why, stored = ELSEWHERE, None
    known = stored.headers if stored else {}
    return msgspec.structs.replace(
        target,
        url=filled_url(target.url, stored.url if stored else "", fields.url, why),
        headers=filled_headers(target.headers, known, fields.headers, why),
        secret=filled_secret(target, stored, fields.secret, why),
    )


def origin_of(url: str) -> Origin:
    # A stored query may exceed the limit of URLs, since parts of it are encrypted.
    parts = url_parts(url.partition("?")[0])
    return parts.scheme, parts.host, parts.port_or_default


def filled_headers(
    headers: Mapping[str, str], stored: Mapping[str, str], field: str, why: str
) -> dict[str, str]:
    known = {name.lower(): value for name, value in stored.items()}
    return {
        name: filled(known.get(name.lower()), f"{field}.{name}", f"{field}.{name}: {why}")
        if value == HIDDEN and is_secret_name(name)
        else value
        for name, value in headers.items()
    }


def filled_url(url: str, stored: str, field: str, why: str) -> str:
    """A repeated parameter takes the stored values in their order."""
    path, mark, query = url.partition("?")
    if HIDDEN not in query:
        return url
    known: dict[str, list[str]] = {}
    for pair in reversed(stored.partition("?")[2].split("&")):
        name, _, value = pair.partition("=")
        known.setdefault(name, []).append(value)
    pairs: list[str] = []
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if value == HIDDEN and is_secret_parameter(name):
            values = known.get(name)
            value = filled(values.pop() if values else None, field, f"{field}: {name}={why}")
            pairs.append(f"{name}={value}")
        else:
            pairs.append(pair)
    return path + mark + "&".join(pairs)


def filled_secret(
    target: HttpTarget, stored: HttpTarget | None, field: str, why: str
) -> Secret | None:
    """`***` alone stands for all current secrets; in a list, for the one that signs first."""
    given = target.secret
    if given is None or HIDDEN not in signing(target):
        return given
    message = f"{field}: {SIGNED_ELSEWHERE if why is ELSEWHERE else why}"
    if stored is None or stored.secret is None:
        raise Invalid(message, field)
    if given == HIDDEN:
        return stored.secret
    first = signing(stored)[0]
    secrets = tuple(first if secret == HIDDEN else secret for secret in signing(target))
    check_distinct(secrets, field)
    return secrets if len(secrets) > 1 else first


def filled(value: Value | None, field: str, message: str) -> Value:
    if value is None:
        raise Invalid(message, field)
    return value
