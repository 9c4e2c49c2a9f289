"""Events as rows, Onbeat's own ones too."""

from datetime import datetime

from onbeat.model.event import Event, StoredEvent
from onbeat.model.ids import EventSeq
from onbeat.model.job import Job
from onbeat.ports.store import Hint
from onbeat.rules.job_events import end_event
from onbeat.rules.own_events import wanted_types
from onbeat.stores.memory.tables import Tables


def add(tables: Tables, event: Event, now: datetime) -> EventSeq | None:
    """The seq of the new event; None where one with its source and id is stored."""
    by_source = tables.events.by_id.setdefault(event.id, {})
    if event.source in by_source:
        return None
    seq = by_source[event.source] = EventSeq(tables.events.last + 1)
    tables.events.last = seq
    tables.events.by_age.add((now, seq))
    put(tables, StoredEvent(seq=seq, event=event, received_at=now))
    return seq


def put(tables: Tables, stored: StoredEvent) -> None:
    tables.events.rows[stored.seq] = stored
    if stored.routed_at is None:
        tables.events.unrouted.add(stored.seq)
        tables.hints.add(Hint.EVENTS)
    else:
        tables.events.unrouted.discard(stored.seq)


def own_types(tables: Tables) -> frozenset[str]:
    schedules = (tables.schedules[id] for id in tables.events.schedules)
    return frozenset(type for one in schedules for type in wanted_types(one))


def announce(tables: Tables, event: Event | None) -> None:
    """Publish the event as of its own time, if a schedule asks for its type."""
    if event is not None and tables.events.schedules and event.type in own_types(tables):
        add(tables, event, event.time)


def announce_end(tables: Tables, ended: Job, now: datetime) -> None:
    """Publish the event about the end of the job, if a schedule asks for it."""
    if not tables.events.schedules:
        return
    event = end_event(ended, own_types(tables))
    if event is not None:
        add(tables, event, now)
