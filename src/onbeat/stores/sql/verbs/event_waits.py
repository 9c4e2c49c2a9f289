"""Waits of running jobs for events.

A row is written only while its job is locked. So a job that is put off until an event sees that the
event has come, or the router sees that the job is put off.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from msgspec.structs import replace

from onbeat.model.event import StoredEvent
from onbeat.model.event_wait import AwaitedKey, EventWait, FreedWait, WaitResult
from onbeat.model.ids import EventSeq, JobId, Token
from onbeat.ports.events import EventWaitExport
from onbeat.ports.store import Hint
from onbeat.rules.event_waits import (
    after_look,
    ends_wait,
    fitting,
    is_awaiting,
    is_later_wait,
    keys_of_waits,
    patterns_of,
)
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant_or_none, micros_or_none
from onbeat.stores.sql.verbs.enqueue import lock_senders
from onbeat.stores.sql.verbs.events import BY_ID, matching, select_events

KEY: Final[Columns] = {"job_id": "uuid", "step": "text"}
CHANGING: Final[Columns] = {
    "type": "text",
    "by_key": "text",
    "since": "bigint",
    "until_at": "bigint",
    "is_open": "boolean",
    "event_seq": "bigint",
}
COLUMNS: Final[Columns] = {**KEY, **CHANGING}
NAMES: Final = ", ".join(COLUMNS)
PATTERN: Final[Columns] = {"type": "text"}
PATTERN_AND_KEY: Final[Columns] = {"type": "text", "by_key": "text"}
ANY: Final = ""
"""Stands in `by_key` for any subject, which is never empty."""
LOOK_MAX: Final = 20  # events read at once, each of which may be large
OF_LIVE: Final = "EXISTS (SELECT 1 FROM onbeat.jobs WHERE onbeat.jobs.id = job_id)"


def wait_row(wait: EventWait) -> Row:
    until = micros_or_none(wait.until)
    by = ANY if wait.by is None else wait.by
    return wait.job_id, wait.step, wait.type, by, wait.since, until, wait.is_open, wait.seq


def read_wait(row: Sequence[Any]) -> EventWait:
    job_id, step, type, by, since, until, is_open, seq = row
    return EventWait(
        job_id=JobId(str(job_id)),
        step=step,
        type=type,
        by=None if by == ANY else by,
        since=since,
        until=instant_or_none(until),
        is_open=bool(is_open),
        seq=seq,
    )


async def put_waits(session: Session, waits: Sequence[EventWait]) -> None:
    """Add or replace waits of locked jobs."""
    if waits:
        ending = session.dialect.or_change(", ".join(KEY), list(CHANGING))
        last = {(wait.job_id, wait.step): wait_row(wait) for wait in waits}
        rows = [last[key] for key in sorted(last)]
        await session.insert_rows("event_waits", COLUMNS, rows, ending)


async def waits_by_key(
    session: Session, keys: Sequence[tuple[JobId, str]]
) -> dict[tuple[JobId, str], EventWait]:
    rest = "FROM onbeat.event_waits WHERE job_id = params.job_id AND step = params.step"
    found = map(read_wait, await session.select_each(NAMES, rest, KEY, keys))
    return {(wait.job_id, wait.step): wait for wait in found}


# The handler's side


async def await_event(
    session: Session, wait: EventWait, token: Token, now: datetime
) -> WaitResult | None:
    if (wait.job_id, token) not in await lock_senders(session, [wait.job_id]):
        return None
    key = wait.job_id, wait.step
    stored = (await waits_by_key(session, [key])).get(key)
    before = stored or wait
    after = await look(session, before, now) if before.is_open else before
    if after != stored:
        await put_waits(session, [after])
    return WaitResult(after.is_open, await event_at(session, after.seq))


async def look(session: Session, wait: EventWait, now: datetime) -> EventWait:
    found = None if wait.since is None else await first_since(session, wait, wait.since)
    return after_look(wait, found, now)


async def first_since(session: Session, wait: EventWait, since: EventSeq) -> EventSeq | None:
    """The first event after `since` that the wait is for."""
    condition, values = matching("type", wait.type)
    rest = f"FROM onbeat.events WHERE seq > ? AND {condition} ORDER BY seq LIMIT {LOOK_MAX}"
    while events := await select_events(session, rest, since, *values):
        for stored in events:
            if ends_wait(wait, stored.event):
                return stored.seq
        since = events[-1].seq
    return None


async def event_at(session: Session, seq: EventSeq | None) -> StoredEvent | None:
    if seq is None:
        return None
    return next(iter(await select_events(session, "FROM onbeat.events WHERE seq = ?", seq)), None)


async def wake_ended(session: Session, parked: Sequence[tuple[JobId, str]], at: int) -> None:
    """Jobs that were just put off until an event are due now, where that wait has ended."""
    if parked:
        waits = await waits_by_key(session, parked)
        await wake(session, {id for id, step in parked if is_ended(waits.get((id, step)))}, at)


def is_ended(wait: EventWait | None) -> bool:
    return wait is not None and not wait.is_open


async def wake(session: Session, ids: Collection[JobId], at: int) -> None:
    """Those of the locked jobs that are put off until an event are due now."""
    if not ids:
        return
    dialect = session.dialect
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")} AND {dialect.is_waiting} AND due_at > ?
    """
    rows = await session.select("id, reason", rest, tuple(ids), at)
    due = sorted((JobId(str(id)), at) for id, reason in rows if is_awaiting(reason))
    if due:
        await session.update_rows("jobs", {"id": "uuid"}, {"due_at": "bigint"}, due)
        session.hints.add(Hint.JOBS)


# The router's side


async def open_waits(
    session: Session, keys: Collection[AwaitedKey], limit: int
) -> Sequence[EventWait]:
    """One cheap statement where nothing waits for an event."""
    index = session.dialect.use_index("event_waits_open")
    of_open = f"FROM onbeat.event_waits {index} WHERE is_open = TRUE"
    if not await session.select("is_open", f"{of_open} LIMIT 1"):
        return ()
    patterns = fitting(keys, await types_in(session, of_open, keys))
    rest = f"""
        {of_open} AND type = params.type AND by_key = params.by_key AND {OF_LIVE}
        ORDER BY job_id, step
        LIMIT {limit}
    """
    wanted = {(type, by or ANY) for type, by in keys_of_waits(keys, patterns)}
    rows = await session.select_each(NAMES, rest, PATTERN_AND_KEY, sorted(wanted))
    return sorted(map(read_wait, rows), key=attrgetter("job_id", "step"))[:limit]


async def types_in(session: Session, of_open: str, keys: Collection[AwaitedKey]) -> set[str]:
    """The patterns of open waits that fit one of these events."""
    types = {key.type for key in keys}
    patterns = sorted({pattern for type in types for pattern in patterns_of(type)})
    rest = f"{of_open} AND type = params.type LIMIT 1"
    known = await session.select_each("type", rest, PATTERN, [(one,) for one in patterns])
    return {type for (type,) in known}


async def lock_live(session: Session, ids: Collection[JobId]) -> set[JobId]:
    """Lock the live ones among the jobs, in the order of their ids; returns which."""
    dialect = session.dialect
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")}
        ORDER BY id
        {dialect.for_update}
    """
    return {JobId(str(id)) for (id,) in await session.select("id", rest, tuple(ids))}


async def have_open(session: Session, freed: Sequence[FreedWait]) -> bool:
    """Whether all of these waits of locked jobs are still open."""
    waits = await waits_by_key(session, [(one.job_id, one.step) for one in freed])
    return len(waits) == len(freed) and all(wait.is_open for wait in waits.values())


async def free(session: Session, freed: Sequence[FreedWait], at: int) -> None:
    """End the open waits of locked jobs."""
    columns: Columns = {"is_open": "boolean", "event_seq": "bigint", "since": "bigint"}
    rows = [(one.job_id, one.step, False, one.seq, None) for one in freed]
    await session.update_rows("event_waits", KEY, columns, rows)
    await wake(session, {one.job_id for one in freed}, at)


# Pruning and copying


async def prune_waits(session: Session, limit: int) -> None:
    """Delete waits of jobs that are no longer live."""
    skip_locked = session.dialect.skip_locked
    rest = f"FROM onbeat.event_waits WHERE NOT {OF_LIVE} LIMIT ? {skip_locked}"
    if gone := await session.select(", ".join(KEY), rest, limit):
        await session.delete_rows("event_waits", KEY, gone)


async def awaited_seqs(session: Session, seqs: Collection[EventSeq]) -> set[EventSeq]:
    """Those of the events that have ended a wait."""
    index = session.dialect.use_index("event_waits_of_event")
    chosen = session.dialect.in_list("event_seq", "bigint")
    rest = f"FROM onbeat.event_waits {index} WHERE {chosen}"
    return {EventSeq(seq) for (seq,) in await session.select("event_seq", rest, tuple(seqs))}


async def export_event_waits(
    session: Session, after: tuple[JobId, str] | None, limit: int
) -> Sequence[EventWaitExport]:
    above = "TRUE" if after is None else "(job_id > ? OR (job_id = ? AND step > ?))"
    values = () if after is None else (after[0], after[0], after[1])
    rest = f"FROM onbeat.event_waits WHERE {above} AND {OF_LIVE} ORDER BY job_id, step LIMIT ?"
    waits = list(map(read_wait, await session.select(NAMES, rest, *values, limit)))
    chosen = session.dialect.in_list("seq", "bigint")
    seqs = tuple({wait.seq for wait in waits if wait.seq is not None})
    rows = await session.select("seq, source, id", f"FROM onbeat.events WHERE {chosen}", seqs)
    events = {seq: (source, id) for seq, source, id in rows}
    return [EventWaitExport(wait=wait, event=events.get(wait.seq)) for wait in waits]


async def import_event_waits(session: Session, exports: Sequence[EventWaitExport]) -> int:
    live = await lock_live(session, {one.wait.job_id for one in exports})
    here = await waits_by_key(session, [(one.wait.job_id, one.wait.step) for one in exports])
    seqs = await seqs_of(session, {one.event for one in exports if one.event is not None})
    coming = [
        replace(one.wait, since=None, seq=None if one.event is None else seqs.get(one.event))
        for one in exports
        if one.wait.job_id in live
    ]
    new = [wait for wait in coming if is_later_wait(wait, here.get((wait.job_id, wait.step)))]
    await put_waits(session, new)
    return len(new)


async def seqs_of(
    session: Session, events: Collection[tuple[str, str]]
) -> dict[tuple[str, str], EventSeq]:
    """The seqs of the events with these sources and ids."""
    rest = "FROM onbeat.events WHERE id = params.id AND source = params.source"
    keys = sorted((id, source) for source, id in events)
    rows = await session.select_each("source, id, seq", rest, BY_ID, keys)
    return {(source, id): EventSeq(seq) for source, id, seq in rows}
