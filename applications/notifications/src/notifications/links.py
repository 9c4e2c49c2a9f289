"""Links to unsubscribe, signed, so that nobody makes one for somebody else.

A link says nothing but whom it is for and from what; it does not expire, as an old mail must still
be of use for it.
"""

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

PATH = "/unsubscribe"


class BadLinkError(ValueError):
    """A link that we have not signed, or that was changed on its way."""


@dataclass(frozen=True)
class Wish:
    """What a link unsubscribes."""

    recipient: str
    topic: str
    channel: str


def signature(key: bytes, wish: Wish) -> str:
    # A JSON list keeps the parts apart: ("ab", "c") is signed otherwise than ("a", "bc").
    text = json.dumps(["unsubscribe", wish.recipient, wish.topic, wish.channel])
    return urlsafe_b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).decode().rstrip("=")


def link(public_url: str, keys: Sequence[bytes], wish: Wish) -> str:
    parts = {"r": wish.recipient, "t": wish.topic, "c": wish.channel, "s": signature(keys[0], wish)}
    return f"{public_url}{PATH}?{urlencode(parts)}"


def read_link(keys: Sequence[bytes], parts: Mapping[str, str]) -> Wish:
    """What the query of a link says. Raises `BadLinkError`."""
    wish = Wish(*(parts.get(name, "") for name in "rtc"))
    given = parts.get("s", "").encode(errors="replace")
    # Every key is tried, so that the time tells nothing.
    matches = [hmac.compare_digest(signature(key, wish).encode(), given) for key in keys]
    if not any(matches):
        raise BadLinkError("this link is not complete, or was changed: use the one in the message")
    return wish
