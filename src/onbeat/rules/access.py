"""Access control: scopes, the scopes that they include, and the format of API keys."""

import binascii
import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from onbeat.model.access import ApiKey
from onbeat.model.errors import Forbidden, Invalid
from onbeat.model.limits import NAME_CHARS_MAX
from onbeat.model.principal import ALL_SCOPES, Principal, Scope

INCLUDED: Final = {
    Scope.READ: frozenset({Scope.READ}),
    Scope.SUBMIT: frozenset({Scope.SUBMIT}),
    Scope.WORK: frozenset({Scope.WORK}),
    Scope.OPERATE: frozenset({Scope.OPERATE, Scope.READ, Scope.SUBMIT}),
    Scope.ADMIN: ALL_SCOPES,
}
"""The scopes that each scope includes. `work` is separate: a worker need not read other jobs."""

PREFIX: Final = "onb_"
SECRET_BYTES: Final = 32
SECRET_CHARS: Final = 43  # 256 bits in base 62
CHECK_CHARS: Final = 6  # 32 bits in base 62
DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
MADE: Final = re.compile(rf"{PREFIX}(?P<secret>[0-9A-Za-z]{{43}})(?P<check>[0-9A-Za-z]{{6}})")

KEY_CHARS_MIN: Final = 20  # beyond loopback, where guessing is limited only by the network
KEY_CHARS_ADVISED: Final = 16  # on loopback, which only programs on this machine can reach
KEY_CHARS_MAX: Final = 1_000
HASHED: Final = re.compile(r"sha256:(?P<digest>[0-9a-fA-F]{64})")
NAMED: Final = re.compile(
    r"(?P<name>[^:=@\s]+):(?P<scopes>[a-z+]+)(?::(?P<queues>[^=:]*))?=(?P<key>.+)", re.DOTALL
)
BEGUN: Final = re.compile(r"[^:=@\s]+:[a-z+]+:[^=:]+")
EXPIRES: Final = re.compile(r"(?P<key>.+)@(?P<at>\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?Z)?)", re.DOTALL)
KEY_NAME: Final = re.compile(r"[^\s:=@/\x00-\x1f\x7f]+")


def expand_scopes(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """The scopes, together with all scopes that they include."""
    return frozenset(one for scope in scopes for one in INCLUDED[scope])


def principal_of_key(key: ApiKey) -> Principal:
    return Principal(name=key.name, scopes=expand_scopes(key.scopes), queues=key.queues)


def check_scope(principal: Principal, scope: Scope) -> None:
    """Raises `Forbidden` with the name of the missing scope."""
    if scope not in principal.scopes:
        has = "+".join(one for one in Scope if one in principal.scopes)
        raise Forbidden(f"This needs the scope `{scope}`; the key {principal.name!r} has {has}")


def check_queue(principal: Principal, queue: str) -> None:
    """Raises `Forbidden` for work in a queue that the principal may not serve."""
    if principal.queues is not None and queue not in principal.queues:
        raise Forbidden(f"The key {principal.name!r} may not work on the queue {queue!r}")


def working_queues(principal: Principal, request: Sequence[str] | None) -> Sequence[str] | None:
    """The queues that a claim may use; None for all."""
    if not request:
        return principal.queues
    for queue in request:
        check_queue(principal, queue)
    return request


def read_scopes(names: Collection[str], field: str = "scopes") -> tuple[Scope, ...]:
    """Raises `Invalid` for an empty collection and for an unknown scope."""
    unknown = [name for name in names if name not in ALL_SCOPES]
    if unknown or not names:
        wrong = f"{unknown[0]!r} is not a scope" if unknown else "at least one scope is needed"
        raise Invalid(f"{field}: {wrong}; the scopes are {', '.join(Scope)}", field)
    return tuple(scope for scope in Scope if scope in names)


def check_key_queues(
    queues: Collection[str] | None, scopes: Collection[Scope], field: str = "queues"
) -> None:
    """Raises `Invalid` for queues of a key that may not work: they would bind it to nothing.

    Raises it for an empty collection too, which looks like no queue; None is all.
    """
    if queues is not None and not queues:
        raise Invalid(f"{field}: name at least one queue, or leave them out for all", field)
    if queues and Scope.WORK not in expand_scopes(scopes):
        raise Invalid(
            f"{field}: only a key with the scope {Scope.WORK} is bound to queues; "
            f"leave them out, or give the scope {Scope.WORK}",
            field,
        )


def read_key_name(name: str, field: str = "name") -> str:
    if not KEY_NAME.fullmatch(name) or len(name) > NAME_CHARS_MAX:
        raise Invalid(
            f"{field} must be a text of 1 to {NAME_CHARS_MAX} characters without spaces, "
            "slashes and : = @",
            field,
        )
    return name


# Keys as they are sent


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def new_key(secret: bytes) -> str:
    """The text of a key with this secret. It ends with a checksum that detects typing errors."""
    text = PREFIX + in_base_62(int.from_bytes(secret), SECRET_CHARS)
    return text + checksum(text)


def is_mistyped(key: str) -> bool:
    """Whether the text has the format of `new_key`, but a wrong checksum."""
    match = MADE.fullmatch(key)
    return match is not None and match["check"] != checksum(PREFIX + match["secret"])


def checksum(text: str) -> str:
    return in_base_62(binascii.crc32(text.encode()), CHECK_CHARS)


def in_base_62(number: int, width: int) -> str:
    digits: list[str] = []
    for _ in range(width):
        number, digit = divmod(number, len(DIGITS))
        digits.append(DIGITS[digit])
    return "".join(reversed(digits))


def matching(keys: Iterable[ApiKey], text: str) -> ApiKey | None:
    """The key with this text. Compares all keys, so that timing does not reveal the match."""
    result = digest_of(text[: KEY_CHARS_MAX + 1])
    matches = [key for key in keys if hmac.compare_digest(result, key.digest)]
    return matches[0] if matches else None


# Keys as they are configured


def read_configured_keys(texts: Sequence[str]) -> tuple[ApiKey, ...]:
    """The keys of `api.keys`. A key without a name has every scope and is named by its position.

    Raises `Invalid` for a malformed key and for duplicate names.
    """
    keys = tuple(read_configured_key(text, number) for number, text in enumerate(texts, 1))
    seen: set[str] = set()
    for key in keys:
        if key.name in seen:
            raise Invalid(f"two keys are named {key.name!r}", "api.keys")
        seen.add(key.name)
    return keys


def names_of(configured: Sequence[str]) -> frozenset[str]:
    return frozenset(key.name for key in read_configured_keys(configured))


def read_configured_key(text: str, number: int) -> ApiKey:
    """`KEY` or `NAME:SCOPE[+SCOPE][:QUEUE,QUEUE]=KEY`, where KEY may be `sha256:HEX`.

    `@2027-01-01` at the end is the expiry date.
    """
    name = f"key-{number}"
    scopes: tuple[Scope, ...] = (Scope.ADMIN,)
    queues: tuple[str, ...] | None = None
    match = NAMED.fullmatch(text)
    if match is not None:
        name = read_key_name(match["name"])
        scopes = configured_scopes(name, match["scopes"])
        if match["queues"] is not None:
            queues = tuple(filter(None, match["queues"].split(",")))
        check_key_queues(queues, scopes, f"the queues of {name!r}")
        text = match["key"]
    expires_at = None
    if (dated := EXPIRES.fullmatch(text)) is not None:
        text, expires_at = dated["key"], read_day(dated["at"])
    hashed = HASHED.fullmatch(text)
    digest = digest_of(text) if hashed is None else hashed["digest"].lower()
    return ApiKey(name=name, digest=digest, scopes=scopes, queues=queues, expires_at=expires_at)


def configured_scopes(name: str, text: str) -> tuple[Scope, ...]:
    try:
        return read_scopes(text.split("+"))
    except Invalid:
        # The message omits the text, since it may be a key in the wrong place.
        known = ", ".join(Scope)
        raise Invalid(f"{name!r} has an unknown scope; use one of {known}") from None


def read_day(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text} is not a date; write it as 2027-01-31", "api.keys") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def clear_key(text: str) -> str | None:
    """The secret part of a configured key; None if only its hash is configured."""
    match = NAMED.fullmatch(text)
    text = text if match is None else match["key"]
    dated = EXPIRES.fullmatch(text)
    text = text if dated is None else dated["key"]
    return None if HASHED.fullmatch(text) else text


def split_keys(parts: Sequence[str]) -> tuple[str, ...]:
    """Joins comma-separated parts of `api.keys` to keys: a list of queues contains commas too."""
    keys: list[list[str]] = []
    is_begun = False
    for part in parts:
        if is_begun:
            keys[-1].append(part)
            is_begun = "=" not in part and ":" not in part
        else:
            keys.append([part])
            is_begun = BEGUN.fullmatch(part) is not None
    return tuple(map(",".join, keys))
