"""Queues: their names, whether they are paused, and their limits."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.model.queue import NO_LIMITS, Limits, Pause
from onbeat.ports.store import Hint
from onbeat.stores.sql.dialect import Columns
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import micros, to_json

QUEUE_COLUMNS: Final[Columns] = {"name": "text", "paused": "boolean"}
BUCKET_COLUMNS: Final[Columns] = {"queue": "text", "grp": "text", "full_at": "bigint"}
LIMITS: Final = msgspec.json.Decoder(Limits)
PAUSE: Final = msgspec.json.Decoder(Pause)


async def queue_names(session: Session) -> Sequence[str]:
    rows = await session.select("name", "FROM onbeat.queues ORDER BY name")
    return [name for (name,) in rows]


async def unnamed_queues(session: Session, names: Collection[str]) -> Sequence[str]:
    """The names that are not stored yet; usually none, so that nothing is written."""
    rest = f"FROM onbeat.queues WHERE {session.dialect.in_list('name', 'text')}"
    rows = await session.select("name", rest, tuple(names))
    return sorted(set(names).difference(name for (name,) in rows))


async def name_queues(session: Session, names: Sequence[str]) -> None:
    rows = [(name, False) for name in names]
    ending = session.dialect.unless_there("name")
    await session.insert_rows("queues", QUEUE_COLUMNS, rows, ending)


async def pause_queue(
    session: Session, name: str, *, paused: bool, pause: Pause | None = None
) -> None:
    sql = f"""
        INSERT INTO onbeat.queues (name, paused, pause) VALUES (?, ?, ?)
        {session.dialect.or_change("name", ["paused", "pause"])}
    """  # noqa: S608  values are bound
    text = None if pause is None or not paused else to_json(pause)
    await session.execute(sql, name, paused, text)
    session.hints.add(Hint.JOBS)


async def limit_queue(session: Session, name: str, limits: Limits) -> None:
    """Buckets of an unchanged rate are kept; a changed rate begins with full buckets."""
    before = await lock_limits(session, name)
    # Claims read the limits of a queue, and its lateness limits none.
    of_claims = msgspec.structs.replace(limits, late_after=None)
    text = None if of_claims == NO_LIMITS else to_json(of_claims)
    assignments = session.forms.limit_assignments
    sql = f"UPDATE onbeat.queues SET {assignments} WHERE name = ?"  # noqa: S608  values are bound
    await session.execute(sql, *[text] * assignments.count("?"), name)
    await watch_queue(session, name, limits.late_after)
    if before.rate != limits.rate:
        await session.execute("DELETE FROM onbeat.meters WHERE queue = ? AND grp = ''", name)
    if before.group_rate != limits.group_rate:
        await session.execute("DELETE FROM onbeat.meters WHERE queue = ? AND grp > ''", name)
    if not limits.fair:
        await session.execute("DELETE FROM onbeat.turns WHERE queue = ?", name)
    session.hints.add(Hint.JOBS)


async def lock_limits(session: Session, name: str) -> Limits:
    """Lock and read the limits of the queue; stores its name first, so that there is a row."""
    await name_queues(session, await unnamed_queues(session, [name]))
    rest = f"FROM onbeat.queues WHERE name = ? {session.dialect.for_update}"
    ((text,),) = await session.select("limits", rest, name)
    return read_limits(text)


async def watch_queue(session: Session, name: str, late_after: timedelta | None) -> None:
    """A queue that is watched no longer is not late."""
    if late_after is None:
        sql = "UPDATE onbeat.queues SET late_after = NULL, late_since = NULL WHERE name = ?"
        await session.execute(sql, name)
    else:
        sql = "UPDATE onbeat.queues SET late_after = ? WHERE name = ?"
        await session.execute(sql, late_after // timedelta(microseconds=1), name)


def read_limits(text: str | None) -> Limits:
    return NO_LIMITS if text is None else LIMITS.decode(text)


def read_pause(text: str | None) -> Pause | None:
    return None if text is None else PAUSE.decode(text)


async def store_buckets(session: Session, drawn: Sequence[tuple[str, str, datetime]]) -> None:
    """Store when the buckets of queues and groups will be full again."""
    rows = [(queue, group, micros(full_at)) for queue, group, full_at in drawn]
    ending = session.dialect.or_change("queue, grp", ["full_at"])
    await session.insert_rows("meters", BUCKET_COLUMNS, rows, ending)
