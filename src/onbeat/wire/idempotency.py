"""Reads idempotency keys from the HTTP header and the JSON-RPC member."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from onbeat.model.errors import Malformed
from onbeat.model.limits import IDEMPOTENCY_KEY_CHARS_MAX

MEMBER: Final = "key"
"""A member beside `method` and `params`, because params may have their own `key`."""

KEY: Final = re.compile(rf"[\x21-\x7e]{{1,{IDEMPOTENCY_KEY_CHARS_MAX}}}")


def read_header(name: str, values: Sequence[str]) -> str | None:
    """The single key in the headers of this name; None without one."""
    if not values:
        return None
    if len(values) > 1:
        raise Malformed(f"{name} may be given only once; found {len(values)} times", name)
    return check_key(values[0], name)


def read_member(given: msgspec.Raw | None) -> str | None:
    """The key in the member of a JSON-RPC call; None without one."""
    if given is None:
        return None
    value: object = msgspec.json.decode(given)
    if not isinstance(value, str):
        raise Malformed(f"{MEMBER} must be a string", MEMBER)
    return check_key(value, MEMBER)


def check_key(key: str, field: str) -> str:
    if not KEY.fullmatch(key):
        raise Malformed(
            f"{field} must be 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters without "
            "spaces, such as a UUID",
            field,
        )
    return key
