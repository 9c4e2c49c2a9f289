"""Events, what the router reads of them, and its decisions."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from operator import attrgetter

from msgspec.structs import replace

from onbeat.model.event import Event, EventVerdict, StoredEvent
from onbeat.model.ids import EventSeq, JobId, ScheduleId
from onbeat.model.route import EventKey, EventSchedules, KeyedJob, Routing, Unrouted
from onbeat.ports.events import EventFilter
from onbeat.rules.own_events import fits
from onbeat.stores.memory.dependents import cancel_waiting, find_unstarted
from onbeat.stores.memory.event_waits import free, have_open, prune_waits
from onbeat.stores.memory.stored_events import add, put
from onbeat.stores.memory.tables import EventKeyRow, EventTables, Tables

SAME_ID_MAX = 10
PUT_OFF = timedelta(hours=1)
"""How long until an event that its job keeps is examined again."""


def publish(tables: Tables, events: Sequence[Event], now: datetime) -> Sequence[bool]:
    return tuple(add(tables, event, now) is not None for event in events)


# Reading


def unrouted_events(tables: Tables, limit: int) -> Unrouted:
    events = [tables.events.rows[seq] for seq in islice(tables.events.unrouted, limit)]
    made = {one.seq: made_by(tables.events, one.seq) for one in events if one.verdicts}
    return Unrouted(events=tuple(events), made={seq: jobs for seq, jobs in made.items() if jobs})


def made_by(events: EventTables, seq: EventSeq) -> tuple[EventVerdict, ...]:
    carried = sorted(events.carried.get(seq, {}).values(), key=attrgetter("job_id"))
    return tuple(EventVerdict(one.schedule_id, one.job_id) for one in carried)


def event_schedules(tables: Tables, known: Mapping[ScheduleId, int]) -> EventSchedules:
    schedules = [tables.schedules[id] for id in tables.events.schedules]
    return EventSchedules(
        versions={one.id: one.version for one in schedules},
        changed=tuple(one for one in schedules if known.get(one.id) != one.version),
    )


def keyed_jobs(tables: Tables, keys: Collection[EventKey]) -> Sequence[KeyedJob]:
    rows = [row for key in set(keys) for row in tables.events.of_key(key)]
    return tuple(
        KeyedJob(
            key=row.key,
            job_id=row.job_id,
            opened_at=row.opened_at,
            due_at=tables.jobs[row.job_id].due_at,
            gathered=row.gathered,
            is_waiting=find_unstarted(tables, row.job_id) is not None,
        )
        for row in sorted(rows, key=attrgetter("job_id"))
        if row.job_id in tables.jobs
    )


def newest_events(tables: Tables, filter: EventFilter) -> Sequence[StoredEvent]:
    newest = reversed(tables.events.rows.values())
    wanted = (
        stored
        for stored in newest
        if (filter.before is None or stored.seq < filter.before)
        and (filter.type is None or fits(filter.type, stored.event.type))
        and (filter.source is None or fits(filter.source, stored.event.source))
    )
    return tuple(islice(wanted, filter.limit))


def events_by_id(tables: Tables, id: str, source: str | None) -> Sequence[StoredEvent]:
    by_source = tables.events.by_id.get(id, {})
    seqs = sorted(seq for place, seq in by_source.items() if source in (None, place))
    return tuple(tables.events.rows[seq] for seq in seqs[:SAME_ID_MAX])


def events_of_job(tables: Tables, id: JobId) -> Sequence[StoredEvent]:
    seqs = sorted(tables.events.seqs_of.get(id, ()))
    events = tables.events
    return tuple(
        events.rows[seq] for seq in seqs if seq in events.rows and events.carried[seq][id].reads
    )


# Deciding


def route(tables: Tables, routing: Routing) -> bool:
    if not is_current(tables, routing):
        return False
    postpone(tables, routing)
    for job in routing.jobs:
        if job.id not in tables.jobs:
            tables.put_job(job)
    for id in routing.unread:
        tables.events.leave_unread(id)
    for carried in routing.carried:
        tables.events.carry(carried)
    for keyed in routing.keyed:
        put_keyed(tables, keyed)
    cancel_unstarted(tables, routing)
    free(tables, routing.freed, routing.at)
    for seq, verdicts in routing.verdicts.items():
        put(tables, replace(tables.events.rows[seq], routed_at=routing.at, verdicts=verdicts))
    return True


def postpone(tables: Tables, routing: Routing) -> None:
    for id, due_at in routing.postponed.items():
        if (waiting := find_unstarted(tables, id)) is not None:
            tables.put_job(replace(waiting, due_at=due_at))


def cancel_unstarted(tables: Tables, routing: Routing) -> None:
    for id, reason in routing.cancelled.items():
        if (waiting := find_unstarted(tables, id)) is not None:
            cancel_waiting(tables, waiting, reason, routing.at)


def is_current(tables: Tables, routing: Routing) -> bool:
    """Whether nothing that the decision rests on has changed."""
    versions = {id: one.version for id in routing.versions if (one := tables.schedules.get(id))}
    coming = {job.id for job in routing.jobs}
    return (
        all(is_unrouted(tables, seq) for seq in routing.verdicts)
        and versions == routing.versions
        and all(id in coming or find_unstarted(tables, id) for id in routing.joined)
        and have_open(tables, routing.freed)
    )


def is_unrouted(tables: Tables, seq: EventSeq) -> bool:
    stored = tables.events.rows.get(seq)
    return stored is not None and stored.routed_at is None


def put_keyed(tables: Tables, keyed: KeyedJob) -> None:
    """Add or replace the row; rows of started jobs that are not the latest of the key go."""
    events = tables.events
    events.put_key(EventKeyRow(keyed.key, keyed.job_id, keyed.opened_at, keyed.gathered))
    latest = max(row.job_id for row in events.of_key(keyed.key))
    for row in events.of_key(keyed.key):
        if row.job_id != latest and find_unstarted(tables, row.job_id) is None:
            events.remove_key(row.job_id)


def replay(tables: Tables, seq: EventSeq) -> bool:
    stored = tables.events.rows.get(seq)
    if stored is not None:
        put(tables, replace(stored, routed_at=None))
    return stored is not None


# Pruning


def prune_events(tables: Tables, before: datetime, limit: int) -> int:
    """Events of stored jobs are put off, so that each is examined only now and then."""
    prune_waits(tables, limit)
    events = tables.events
    past = list(islice(past_events(events, before), limit))
    for kept_from, seq in past:
        events.by_age.discard((kept_from, seq))
        jobs = events.carried.get(seq, {}).keys()
        if any(id in tables.jobs for id in jobs) or seq in events.waits.of_event:
            events.by_age.add((before + PUT_OFF, seq))
        else:
            for id in tuple(jobs):
                events.remove_key(id)
            events.remove(seq)
    return len(past)


def past_events(events: EventTables, before: datetime) -> Iterator[tuple[datetime, EventSeq]]:
    for kept_from, seq in events.by_age:
        if kept_from >= before:
            return
        if seq not in events.unrouted:
            yield kept_from, seq
