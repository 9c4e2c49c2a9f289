"""Events: stored once for each source and id, listed, replayed and pruned."""

import random
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from onbeat.model.event import Event, EventVerdict, StoredEvent
from onbeat.model.ids import EventSeq, JobId, ScheduleId
from onbeat.model.route import Carried
from onbeat.ports.events import EventFilter
from onbeat.ports.store import Hint
from onbeat.stores.sql.dialect import Argument, Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, instant_or_none, micros, to_json

NOTHING: Final = msgspec.Raw()


class EventRecord(Event, frozen=True, kw_only=True, gc=False):
    """An event whose data may be any JSON: `Raw | None` cannot be decoded."""

    data: msgspec.Raw = NOTHING


RECORD: Final = msgspec.json.Decoder(EventRecord)
VERDICTS: Final = msgspec.json.Decoder(tuple[EventVerdict, ...])
COLUMNS: Final = "seq, record, received_at, routed_at, verdicts"
NEW_COLUMNS: Final[Columns] = {
    "id": "text",
    "source": "text",
    "type": "text",
    "received_at": "bigint",
    "kept_from": "bigint",
    "tag": "bigint",
    "record": "text",
}
BY_ID: Final[Columns] = {"id": "text", "source": "text"}
CARRIED: Final[Columns] = {
    "seq": "bigint",
    "job_id": "uuid",
    "schedule_id": "uuid",
    "is_read": "boolean",
}
SAME_ID_MAX: Final = 10


# Publishing


def new_row(event: Event, now: datetime) -> Row:
    at, tag = micros(now), random.getrandbits(63)
    return event.id, event.source, event.type, at, at, tag, to_json(event)


async def publish(session: Session, rows: Sequence[Row]) -> list[bool]:
    """Store events of many callers; whose tag was stored published first.

    So one statement is a whole transaction, and a repeated call gets the answer of the first.
    """
    added = await session.insert_rows(
        "events", NEW_COLUMNS, rows, session.dialect.unless_there(*BY_ID)
    )
    if added:
        session.hints.add(Hint.EVENTS)
    if added == len(rows):
        return [True] * len(rows)
    stored = await stored_tags(session, rows)
    return [stored.get((id, source)) == tag for id, source, _, _, _, tag, _ in rows]


async def stored_tags(session: Session, rows: Sequence[Row]) -> dict[tuple[str, str], int]:
    rest = "FROM onbeat.events WHERE id = params.id AND source = params.source"
    keys = list(dict.fromkeys((row[0], row[1]) for row in rows))
    found = await session.select_each("id, source, tag", rest, BY_ID, keys)
    return {(id, source): tag for id, source, tag in found}


# Reading


def read_event(row: Sequence[Any]) -> StoredEvent:
    seq, record, received_at, routed_at, verdicts = row
    return StoredEvent(
        seq=EventSeq(seq),
        event=decode_event(record),
        received_at=instant(received_at),
        routed_at=instant_or_none(routed_at),
        verdicts=() if verdicts is None else VERDICTS.decode(verdicts),
    )


def decode_event(text: str) -> Event:
    fields = asdict(RECORD.decode(text))
    if not bytes(fields["data"]):
        del fields["data"]
    return Event(**fields)


async def select_events(session: Session, rest: str, *values: Argument) -> list[StoredEvent]:
    return [read_event(row) for row in await session.select(COLUMNS, rest, *values)]


async def events(session: Session, filter: EventFilter) -> Sequence[StoredEvent]:
    bounds: list[tuple[str, tuple[Argument, ...]]] = []
    if filter.before is not None:
        bounds.append(("seq < ?", (filter.before,)))
    for column, pattern in (("type", filter.type), ("source", filter.source)):
        if pattern is not None:
            bounds.append(matching(column, pattern))
    is_of_one_type = filter.type is not None and not filter.type.endswith("*")
    index = session.dialect.use_index("events_of_type" if is_of_one_type else "PRIMARY")
    rest = f"""
        FROM onbeat.events {index}
        WHERE {" AND ".join(["TRUE", *(text for text, _ in bounds)])}
        ORDER BY seq DESC
        LIMIT ?
    """
    values = [value for _, those in bounds for value in those]
    return await select_events(session, rest, *values, filter.limit)


def matching(column: str, pattern: str) -> tuple[str, tuple[Argument, ...]]:
    """The condition, with its values, that the column is as the pattern, exact or with a `*`."""
    if not pattern.endswith("*"):
        return f"{column} = ?", (pattern,)
    prefix = pattern[:-1]
    return f"substr({column}, 1, ?) = ?", (len(prefix), prefix)


async def events_by_id(session: Session, id: str, source: str | None) -> Sequence[StoredEvent]:
    condition, values = ("TRUE", ()) if source is None else ("source = ?", (source,))
    rest = f"""
        FROM onbeat.events
        WHERE id = ? AND {condition}
        ORDER BY seq
        LIMIT {SAME_ID_MAX}
    """
    return await select_events(session, rest, id, *values)


async def events_of_job(session: Session, id: JobId) -> Sequence[StoredEvent]:
    """In the order of their seqs."""
    carried = session.dialect.use_index("event_jobs_of_job")
    rest = f"""
        FROM onbeat.events
        WHERE seq IN (SELECT seq FROM onbeat.event_jobs {carried}
                      WHERE job_id = ? AND is_read = TRUE)
        ORDER BY seq
    """  # noqa: S608  values are bound
    return await select_events(session, rest, id)


async def carried_by(session: Session, seqs: Collection[EventSeq]) -> list[Carried]:
    """Which jobs carry these events."""
    if not seqs:
        return []
    rest = f"""
        FROM onbeat.event_jobs
        WHERE {session.dialect.in_list("seq", "bigint")}
        ORDER BY seq, job_id
    """
    rows = await session.select(", ".join(CARRIED), rest, tuple(seqs))
    return [
        Carried(EventSeq(seq), JobId(str(job_id)), ScheduleId(str(schedule_id)), bool(reads))
        for seq, job_id, schedule_id, reads in rows
    ]


async def wanted_types(session: Session) -> frozenset[str]:
    return frozenset(
        type for (type,) in await session.select("type", "FROM onbeat.own_event_types")
    )


# Replaying


async def replay_event(session: Session, seq: EventSeq) -> bool:
    sql = "UPDATE onbeat.events SET routed_at = NULL WHERE seq = ?"
    await session.execute(sql, seq)
    known = await session.select("seq", "FROM onbeat.events WHERE seq = ?", seq)
    if known:
        session.hints.add(Hint.EVENTS)
    return bool(known)
