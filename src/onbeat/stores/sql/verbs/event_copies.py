"""Events and the keys of their jobs, for and from another store."""

from collections.abc import Mapping, Sequence
from operator import attrgetter

from msgspec.structs import replace

from onbeat.model.ids import EventSeq, JobId, ScheduleId
from onbeat.model.route import EventKey
from onbeat.ports.events import EventExport, EventKeyExport
from onbeat.ports.store import Hint
from onbeat.rules.merge import is_routed_later
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, instant_or_none, micros, micros_or_none, to_json
from onbeat.stores.sql.verbs.events import (
    BY_ID,
    NEW_COLUMNS,
    carried_by,
    new_row,
    select_events,
)
from onbeat.stores.sql.verbs.routes import KEYED, ROW_KEY, add_carried

DECISION: Columns = {"routed_at": "bigint", "verdicts": "text"}


async def export_events(
    session: Session, after: EventSeq | None, limit: int
) -> Sequence[EventExport]:
    condition, values = ("TRUE", ()) if after is None else ("seq > ?", (after,))
    rest = f"FROM onbeat.events WHERE {condition} ORDER BY seq LIMIT ?"
    events = await select_events(session, rest, *values, limit)
    carried = await carried_by(session, [one.seq for one in events])
    return [
        EventExport(event=one, carried=tuple(row for row in carried if row.seq == one.seq))
        for one in events
    ]


async def import_events(session: Session, exports: Sequence[EventExport]) -> int:
    """Seqs are those of this store; so new events keep their order after what is there."""
    rows = [import_row(one) for one in exports]
    ending = session.dialect.unless_there(*BY_ID)
    added = await session.insert_rows("events", {**NEW_COLUMNS, **DECISION}, rows, ending)
    seqs = await stored_seqs(session, rows)
    here = await lock_decisions(session, [seq for seq, _ in seqs.values()])
    new: list[EventExport] = []
    later: list[EventExport] = []
    for export, (id, source, _, _, _, tag, *_) in zip(exports, rows, strict=True):
        seq, stored_tag = seqs[id, source]
        if stored_tag == tag:
            new.append(with_seq(export, seq))
        elif is_routed_later(export.event.routed_at, instant_or_none(here[seq])):
            later.append(with_seq(export, seq))
    changed = sorted((one.event.seq, *decision_of(one)) for one in later)
    await session.update_rows("events", {"seq": "bigint"}, DECISION, changed)
    await add_carried(session, [row for one in (*new, *later) for row in one.carried])
    if added:
        session.hints.add(Hint.EVENTS)
    return len(new) + len(later)


def import_row(export: EventExport) -> Row:
    return (*new_row(export.event.event, export.event.received_at), *decision_of(export))


def decision_of(export: EventExport) -> Row:
    event = export.event
    return micros_or_none(event.routed_at), to_json(event.verdicts) if event.verdicts else None


def with_seq(export: EventExport, seq: EventSeq) -> EventExport:
    return EventExport(
        event=replace(export.event, seq=seq),
        carried=tuple(replace(row, seq=seq) for row in export.carried),
    )


async def stored_seqs(
    session: Session, rows: Sequence[Row]
) -> Mapping[tuple[str, str], tuple[EventSeq, int]]:
    """The seq and the tag of each event."""
    rest = "FROM onbeat.events WHERE id = params.id AND source = params.source"
    keys = list(dict.fromkeys((row[0], row[1]) for row in rows))
    found = await session.select_each("id, source, seq, tag", rest, BY_ID, keys)
    return {(id, source): (EventSeq(seq), tag) for id, source, seq, tag in found}


async def lock_decisions(session: Session, seqs: Sequence[EventSeq]) -> dict[EventSeq, int | None]:
    """When each event was routed here; no router decides about it until the commit."""
    dialect = session.dialect
    rest = f"""
        FROM onbeat.events {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("seq", "bigint")}
        ORDER BY seq
        {dialect.for_update}
    """
    rows = await session.select("seq, routed_at", rest, tuple(seqs))
    return {EventSeq(seq): routed_at for seq, routed_at in rows}


async def export_event_keys(
    session: Session, after: JobId | None, limit: int
) -> Sequence[EventKeyExport]:
    condition, values = ("TRUE", ()) if after is None else ("job_id > ?", (after,))
    index = session.dialect.use_index("event_keys_of_job")
    rest = f"FROM onbeat.event_keys {index} WHERE {condition} ORDER BY job_id LIMIT ?"
    rows = await session.select(", ".join(KEYED), rest, *values, limit)
    return [
        EventKeyExport(
            key=EventKey(ScheduleId(str(schedule_id)), by),
            job_id=JobId(str(job_id)),
            opened_at=instant(opened_at),
            gathered=gathered,
        )
        for schedule_id, by, job_id, opened_at, gathered in rows
    ]


async def import_event_keys(session: Session, exports: Sequence[EventKeyExport]) -> int:
    first = {one.job_id: one for one in reversed(exports)}
    rows = [
        (one.key.schedule_id, one.key.by, one.job_id, micros(one.opened_at), one.gathered)
        for one in sorted(first.values(), key=attrgetter("key.schedule_id", "key.by", "job_id"))
    ]
    ending = session.dialect.or_change(", ".join(ROW_KEY), ["opened_at", "gathered"])
    await session.insert_rows("event_keys", KEYED, rows, ending)
    return len(rows)
