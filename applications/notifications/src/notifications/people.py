"""Recipients, their addresses and preferences: who wants what, over which way, at which hours."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from notifications.database import Session
from onbeat import Invalid, notify

NAME: Final = re.compile(r"[\w.@+-]{1,64}", re.ASCII)
LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,2}")
MARKS: Final = re.compile(r"\{\{|\{%")
ADDRESS_CHARS_MAX: Final = 320
NAME_CHARS_MAX: Final = 200
HOURS_MAX: Final = 10
ANY_HOURS: Final = ()


class RefusedError(ValueError):
    """What was asked for cannot be done; nothing was changed. `field` is what is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


@dataclass(frozen=True, kw_only=True)
class Recipient:
    """`hours` are windows such as `MON-FRI 08:00-20:00`, in the recipient's zone."""

    id: str
    name: str
    language: str = "en"
    zone: str = "UTC"
    hours: tuple[str, ...] = ANY_HOURS

    @property
    def windows(self) -> list[str]:
        return [f"{hours} {self.zone}" for hours in self.hours]


@dataclass(frozen=True, kw_only=True)
class Address:
    """`address` is empty where the channel leads to one place, such as a room of a chat."""

    recipient: str
    channel: str
    address: str = ""
    verified: bool = False


async def put_recipient(session: Session, recipient: Recipient) -> bool:
    """Add the recipient, or change the one of this id; whether it is new. Raises `RefusedError`."""
    check_recipient(recipient)
    hours = "\n".join(recipient.hours)
    values = (recipient.id, recipient.name, recipient.language, recipient.zone, hours)
    async with session.transaction():
        is_new = not await find(session, "recipients", "id", recipient.id)
        await session.run(
            "INSERT INTO recipients (id, name, language, zone, hours) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET name = excluded.name, language = excluded.language,"
            " zone = excluded.zone, hours = excluded.hours",
            *values,
        )
    return is_new


def check_recipient(recipient: Recipient) -> None:
    check_name("id", recipient.id)
    if not 0 < len(recipient.name.strip()) <= NAME_CHARS_MAX:
        raise RefusedError("name", f"give one of at most {NAME_CHARS_MAX} characters")
    check_language(recipient.language)
    try:
        ZoneInfo(recipient.zone)
    except (KeyError, ValueError, OSError):
        raise RefusedError(
            "zone", f"give a name such as Europe/Berlin, not {recipient.zone!r}"
        ) from None
    if len(recipient.hours) > HOURS_MAX:
        raise RefusedError("window", f"give at most {HOURS_MAX}")
    try:
        notify("any", text="any", window=recipient.windows)
    except Invalid as error:
        raise RefusedError("window", f"give such as MON-FRI 08:00-20:00; {error}") from None


def check_name(field: str, name: str) -> None:
    if not NAME.fullmatch(name):
        raise RefusedError(field, f"give 1 to 64 letters, digits or .@+-_, not {name!r:.100}")


def check_language(language: str) -> None:
    if not LANGUAGE.fullmatch(language):
        raise RefusedError("language", f"give a tag such as de or pt-BR, not {language!r:.100}")


async def recipients(session: Session, after: str, limit: int) -> Sequence[Recipient]:
    """Those with ids above `after`, by id."""
    rows = await session.rows(
        "SELECT id, name, language, zone, hours FROM recipients WHERE id > ? ORDER BY id LIMIT ?",
        after,
        limit,
    )
    return [recipient_of(row) for row in rows]


async def recipient(session: Session, id: str) -> Recipient | None:
    """The one of this id, which may be any text."""
    if not NAME.fullmatch(id):
        return None
    rows = await session.rows(
        "SELECT id, name, language, zone, hours FROM recipients WHERE id = ?", id
    )
    return recipient_of(rows[0]) if rows else None


def recipient_of(row: Sequence[Any]) -> Recipient:
    id, name, language, zone, hours = row
    return Recipient(
        id=id, name=name, language=language, zone=zone, hours=tuple(hours.splitlines())
    )


async def put_address(session: Session, address: Address) -> bool:
    """Add the address, or change that of the same recipient and channel; whether it is new.

    Raises `RefusedError`.
    """
    check_name("channel", address.channel)
    if len(address.address) > ADDRESS_CHARS_MAX or not address.address.isprintable():
        raise RefusedError("address", f"give at most {ADDRESS_CHARS_MAX} printable characters")
    if MARKS.search(address.address):  # Onbeat would fill it in
        raise RefusedError("address", "give one without the marks {{ and {%")
    values = (address.recipient, address.channel)
    async with session.transaction():
        await require(session, "recipients", "id", address.recipient, "recipient")
        found = await session.rows(
            "SELECT 1 FROM addresses WHERE recipient = ? AND channel = ?", *values
        )
        await session.run(
            "INSERT INTO addresses (recipient, channel, address, verified) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (recipient, channel) DO UPDATE"
            " SET address = excluded.address, verified = excluded.verified",
            *values,
            address.address,
            int(address.verified),
        )
    return not found


async def addresses(session: Session, first: str, last: str) -> Sequence[Address]:
    """Those of the recipients with ids from `first` to `last`."""
    rows = await session.rows(
        "SELECT recipient, channel, address, verified FROM addresses"
        " WHERE recipient >= ? AND recipient <= ? ORDER BY recipient, channel",
        first,
        last,
    )
    return [Address(recipient=r, channel=c, address=a, verified=bool(v)) for r, c, a, v in rows]


async def refusals(session: Session, topic: str, first: str, last: str) -> set[tuple[str, str]]:
    """Who of these recipients does not want the topic, over which channel."""
    rows = await session.rows(
        "SELECT recipient, channel FROM preferences"
        " WHERE recipient >= ? AND recipient <= ? AND topic = ? AND allowed = 0",
        first,
        last,
        topic,
    )
    return {(recipient, channel) for recipient, channel in rows}


async def prefer(
    session: Session, recipient: str, topic: str, channel: str, *, allowed: bool
) -> list[str]:
    """Keep the preference, and return the jobs of notices on the way that it forbids.

    Notices that have not been tried see it by themselves. The row of the recipient is locked, so
    each notice that starts has seen the preference, or is in the result. Raises `RefusedError`.
    """
    async with session.transaction():
        await require(session, "recipients", "id", recipient, "recipient")
        await require(session, "topics", "name", topic, "topic")
        check_name("channel", channel)
        await lock(session, recipient)
        await session.run(
            "INSERT INTO preferences (recipient, topic, channel, allowed) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (recipient, topic, channel) DO UPDATE SET allowed = excluded.allowed",
            recipient,
            topic,
            channel,
            int(allowed),
        )
        if allowed:
            return []
        rows = await session.rows(
            "SELECT job FROM notices WHERE recipient = ? AND topic = ? AND channel = ?"
            " AND outcome = 'started'",
            recipient,
            topic,
            channel,
        )
    return [job for (job,) in rows]


async def lock(session: Session, recipient: str) -> None:
    await session.rows("SELECT id FROM recipients WHERE id = ? {lock}", recipient)


async def find(session: Session, table: str, column: str, value: str) -> bool:
    sql = f"SELECT 1 FROM {table} WHERE {column} = ?"  # noqa: S608  names of our own
    return bool(await session.rows(sql, value))


async def require(session: Session, table: str, column: str, value: str, noun: str) -> None:
    if not await find(session, table, column, value):
        raise RefusedError(noun, f"there is none called {value!r:.100}; see `{noun} list`")
