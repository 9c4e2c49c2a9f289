"""Who gets a notice of an event, over which channels: decided here, without any I/O."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from notifications.people import Address, Recipient
from notifications.topics import Text, Topic


@dataclass(frozen=True)
class Cause:
    """The event that notices are about."""

    source: str
    id: str

    def name(self, recipient: str, channel: str) -> str:
        """The key of the one notice of this event for a recipient and channel."""
        event = hashlib.sha256(json.dumps([self.source, self.id]).encode()).hexdigest()[:32]
        return f"{event} {recipient} {channel}"


@dataclass(frozen=True)
class Notice:
    """To be sent. It is in `language`, which need not be that of the recipient."""

    recipient: Recipient
    address: Address
    language: str
    text: Text


@dataclass(frozen=True)
class Skipped:
    """A recipient who gets nothing, and why."""

    recipient: str
    why: str


def plan(
    topic: Topic,
    recipients: Iterable[Recipient],
    addresses: Iterable[Address],
    refused: set[tuple[str, str]],
) -> Iterator[Notice | Skipped]:
    """A notice for each recipient and allowed channel; or why there is none.

    `refused` has a recipient and a channel each.
    """
    by_recipient: dict[str, list[Address]] = {}
    for one in addresses:
        by_recipient.setdefault(one.recipient, []).append(one)
    for recipient in recipients:
        own = by_recipient.get(recipient.id, [])
        text = topic.text_for(recipient.language)
        if not own or text is None:
            yield Skipped(recipient.id, "no address" if text else "the topic has no text")
            continue
        reasons = {one.channel: reason_against(one, refused) for one in own}
        allowed = [one for one in own if reasons[one.channel] is None]
        for address in allowed:
            yield Notice(recipient, address, *text)
        if not allowed:
            why = ", ".join(f"{channel}: {reason}" for channel, reason in reasons.items())
            yield Skipped(recipient.id, why)


def reason_against(address: Address, refused: set[tuple[str, str]]) -> str | None:
    if not address.verified:
        return "not verified"
    if (address.recipient, address.channel) in refused:
        return "unsubscribed"
    return None
