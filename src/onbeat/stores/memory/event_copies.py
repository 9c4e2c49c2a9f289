"""Events and the keys of their jobs, for and from another store."""

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from onbeat.model.ids import EventSeq, JobId
from onbeat.ports.events import EventExport, EventKeyExport
from onbeat.rules.merge import is_routed_later
from onbeat.stores.memory.stored_events import add, put
from onbeat.stores.memory.tables import EventKeyRow, Tables


def export_events(tables: Tables, after: EventSeq | None, limit: int) -> Sequence[EventExport]:
    events = tables.events
    rows = (one for one in events.rows.values() if after is None or one.seq > after)
    return tuple(
        EventExport(
            event=one,
            carried=tuple(row for _, row in sorted(events.carried.get(one.seq, {}).items())),
        )
        for one in islice(rows, limit)
    )


def import_events(tables: Tables, exports: Sequence[EventExport]) -> int:
    return sum(import_event(tables, export) for export in exports)


def import_event(tables: Tables, export: EventExport) -> bool:
    coming = export.event
    is_new = add(tables, coming.event, coming.received_at) is not None
    seq = tables.events.by_id[coming.event.id][coming.event.source]
    here = tables.events.rows[seq]
    is_later = is_routed_later(coming.routed_at, here.routed_at)
    if is_new or is_later:
        put(tables, replace(here, routed_at=coming.routed_at, verdicts=coming.verdicts))
        for row in export.carried:
            tables.events.carry(replace(row, seq=seq))
    return is_new or is_later


def export_event_keys(tables: Tables, after: JobId | None, limit: int) -> Sequence[EventKeyExport]:
    ids = sorted(id for id in tables.events.keyed if after is None or id > after)
    rows = (tables.events.keyed[id] for id in ids[:limit])
    return tuple(EventKeyExport(**row._asdict()) for row in rows)


def import_event_keys(tables: Tables, exports: Sequence[EventKeyExport]) -> int:
    for one in exports:
        tables.events.put_key(EventKeyRow(one.key, one.job_id, one.opened_at, one.gathered))
    return len(exports)
