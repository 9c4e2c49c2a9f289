"""What the router reads, and its decisions.

A decision locks its events, then its schedules, then its jobs, each in the order of their ids, as
other writers do. All is checked before anything is written.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from onbeat.model.event import EventVerdict
from onbeat.model.ids import EventSeq, JobId, ScheduleId
from onbeat.model.route import Carried, EventKey, EventSchedules, KeyedJob, Routing, Unrouted
from onbeat.ports.store import Hint
from onbeat.stores.sql.dialect import Columns
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, micros, to_json
from onbeat.stores.sql.verbs.dependents import cancel_waiting
from onbeat.stores.sql.verbs.event_waits import free, have_open, lock_live
from onbeat.stores.sql.verbs.events import CARRIED, COLUMNS, carried_by, read_event
from onbeat.stores.sql.verbs.plans import insert_jobs
from onbeat.stores.sql.verbs.schedules import schedules_by_id

KEY: Final[Columns] = {"schedule_id": "uuid", "by_key": "text"}
ROW_KEY: Final[Columns] = {**KEY, "job_id": "uuid"}
KEYED: Final[Columns] = {**ROW_KEY, "opened_at": "bigint", "gathered": "integer"}
UNSTARTED: Final = "(token = 0 OR start_by IS NOT NULL)"
"""The condition for a waiting job that never started, as in `cancel_waiting`."""


# Reading


async def unrouted_events(session: Session, limit: int) -> Unrouted:
    rest = f"""
        FROM onbeat.events {session.dialect.use_index("events_unrouted")}
        WHERE routed_at IS NULL
        ORDER BY seq
        LIMIT ?
    """
    events = tuple(map(read_event, await session.select(COLUMNS, rest, limit)))
    carried = await carried_by(session, [one.seq for one in events if one.verdicts])
    made: dict[EventSeq, tuple[EventVerdict, ...]] = {
        seq: tuple(EventVerdict(one.schedule_id, one.job_id) for one in those)
        for seq, those in groupby(carried, attrgetter("seq"))
    }
    return Unrouted(events=events, made=made)


async def event_schedules(session: Session, known: Mapping[ScheduleId, int]) -> EventSchedules:
    index = session.dialect.use_index("schedules_on_event")
    rest = f"FROM onbeat.schedules {index} WHERE on_event = TRUE"
    rows = await session.select("id, version", rest)
    versions = {ScheduleId(str(id)): version for id, version in rows}
    new = [id for id, version in versions.items() if known.get(id) != version]
    changed = await schedules_by_id(session, new) if new else ()
    # One may have been edited, or deleted, since its version was read.
    read = {one.id: one for one in changed if one.on}
    versions = {
        id: read[id].version if id in read else version
        for id, version in versions.items()
        if id in read or id not in new
    }
    return EventSchedules(versions=versions, changed=tuple(read.values()))


async def keyed_jobs(session: Session, keys: Collection[EventKey]) -> Sequence[KeyedJob]:
    rows = await keyed_rows(session, keys)
    ids = [JobId(str(job_id)) for _, _, job_id, *_ in rows]
    live = await job_places(session, "jobs", ids)
    ended = await job_places(session, "finished", [id for id in ids if id not in live])
    found = [
        KeyedJob(
            key=EventKey(ScheduleId(str(schedule_id)), by),
            job_id=id,
            opened_at=instant(opened_at),
            due_at=instant((live.get(id) or ended[id])[0]),
            gathered=gathered,
            is_waiting=id in live and live[id][1],
        )
        for id, (schedule_id, by, _, opened_at, gathered) in zip(ids, rows, strict=True)
        if id in live or id in ended
    ]
    return sorted(found, key=attrgetter("job_id"))


async def keyed_rows(session: Session, keys: Collection[EventKey]) -> Sequence[Sequence[Any]]:
    rest = """
        FROM onbeat.event_keys
        WHERE schedule_id = params.schedule_id AND by_key = params.by_key
    """
    rows = [(key.schedule_id, key.by) for key in dict.fromkeys(keys)]
    return await session.select_each(", ".join(KEYED), rest, KEY, rows)


async def job_places(
    session: Session, table: str, ids: Collection[JobId]
) -> dict[JobId, tuple[int, bool]]:
    """Of each job in the table its due time, and whether it waits and never started."""
    if not ids:
        return {}
    dialect = session.dialect
    waits = f"({dialect.is_waiting} AND {UNSTARTED})" if table == "jobs" else "FALSE"
    rest = f"""
        FROM (SELECT id, due_at, {waits} AS waits
              FROM onbeat.{table} {dialect.use_index("PRIMARY")}
              WHERE {dialect.in_list("id", "uuid")}) AS found
    """  # noqa: S608  values are bound
    rows = await session.select("id, due_at, waits", rest, tuple(ids))
    return {JobId(str(id)): (due_at, bool(waits)) for id, due_at, waits in rows}


# Deciding


async def route(session: Session, routing: Routing) -> bool:
    """Repeating a stored decision is refused, and changes nothing."""
    if not await lock_unrouted(session, routing.verdicts):
        return False
    if not await have_versions(session, routing.versions):
        return False
    touched = {*routing.joined, *routing.postponed, *routing.cancelled}
    if routing.freed:
        await lock_live(session, touched | {one.job_id for one in routing.freed})
        if not await have_open(session, routing.freed):
            return False
    waiting = await lock_unstarted(session, touched)
    if not waiting.union(job.id for job in routing.jobs).issuperset(routing.joined):
        return False
    await insert_jobs(session, sorted(routing.jobs, key=attrgetter("id")))
    await leave_unread(session, routing.unread)
    await add_carried(session, routing.carried)
    await put_keyed(session, routing.keyed)
    await postpone(
        session, {id: micros(at) for id, at in routing.postponed.items() if id in waiting}
    )
    at = micros(routing.at)
    await cancel_waiting(session, routing.cancelled, at, started_too=False)
    if routing.freed:
        await free(session, routing.freed, at)
    rows = [(seq, at, to_json(verdicts)) for seq, verdicts in routing.verdicts.items()]
    columns: Columns = {"routed_at": "bigint", "verdicts": "text"}
    await session.update_rows("events", {"seq": "bigint"}, columns, rows)
    return True


async def lock_unrouted(session: Session, seqs: Collection[EventSeq]) -> bool:
    """Lock the events; False if one of them has a decision."""
    if not seqs:
        return True
    dialect = session.dialect
    rest = f"""
        FROM onbeat.events {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("seq", "bigint")} AND routed_at IS NULL
        ORDER BY seq
        {dialect.for_update}
    """
    return len(await session.select("seq", rest, tuple(seqs))) == len(seqs)


async def have_versions(session: Session, versions: Mapping[ScheduleId, int]) -> bool:
    """Whether the schedules have these versions; they keep them until the commit."""
    if not versions:
        return True
    dialect = session.dialect
    rest = f"""
        FROM onbeat.schedules {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")}
        ORDER BY id
        {dialect.for_share}
    """
    rows = await session.select("id, version", rest, tuple(versions))
    return {ScheduleId(str(id)): version for id, version in rows} == dict(versions)


async def lock_unstarted(session: Session, ids: Collection[JobId]) -> set[JobId]:
    """Lock those of the jobs that wait and never started."""
    if not ids:
        return set()
    dialect = session.dialect
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")} AND {dialect.is_waiting} AND {UNSTARTED}
        ORDER BY id
        {dialect.for_update}
    """
    return {JobId(str(id)) for (id,) in await session.select("id", rest, tuple(ids))}


async def leave_unread(session: Session, ids: Sequence[JobId]) -> None:
    """The targets of these jobs get none of the events that are carried so far."""
    if not ids:
        return
    dialect = session.dialect
    sql = f"""
        UPDATE onbeat.event_jobs {dialect.use_index("event_jobs_of_job")} SET is_read = FALSE
        WHERE {dialect.in_list("job_id", "uuid")} AND is_read = TRUE
    """  # noqa: S608  values are bound
    await session.execute(sql, tuple(ids))


async def add_carried(session: Session, carried: Sequence[Carried]) -> None:
    rows = [(one.seq, one.job_id, one.schedule_id, one.reads) for one in carried]
    ending = session.dialect.unless_there("seq", "job_id")
    await session.insert_rows("event_jobs", CARRIED, rows, ending)


async def put_keyed(session: Session, keyed: Sequence[KeyedJob]) -> None:
    """Add or replace the rows; rows of started jobs that are not the latest of a key go."""
    if not keyed:
        return
    rows = {
        (one.key.schedule_id, one.key.by, one.job_id): (micros(one.opened_at), one.gathered)
        for one in keyed
    }
    ending = session.dialect.or_change(", ".join(ROW_KEY), ["opened_at", "gathered"])
    new = [(*key, *values) for key, values in sorted(rows.items())]
    await session.insert_rows("event_keys", KEYED, new, ending)
    there = [
        (ScheduleId(str(schedule_id)), by, JobId(str(job_id)))
        for schedule_id, by, job_id, *_ in await keyed_rows(session, [one.key for one in keyed])
    ]
    latest = {(schedule_id, by): job_id for schedule_id, by, job_id in sorted(there)}
    earlier = [row for row in there if latest[row[:2]] != row[2]]
    live = await job_places(session, "jobs", [job_id for *_, job_id in earlier])
    gone = [row for row in earlier if not (row[2] in live and live[row[2]][1])]
    await session.delete_rows("event_keys", ROW_KEY, gone)


async def postpone(session: Session, due: Mapping[JobId, int]) -> None:
    if due:
        await session.update_rows("jobs", {"id": "uuid"}, {"due_at": "bigint"}, sorted(due.items()))
        session.hints.add(Hint.JOBS)
