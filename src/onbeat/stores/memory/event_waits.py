"""Waits of running jobs for events: registered, ended by events, pruned and copied."""

from collections.abc import Collection, Sequence
from datetime import datetime
from operator import attrgetter

from msgspec.structs import replace

from onbeat.model.event_wait import AwaitedKey, EventWait, FreedWait, WaitResult
from onbeat.model.ids import EventSeq, JobId, Token
from onbeat.model.job import JobState
from onbeat.ports.events import EventWaitExport
from onbeat.rules.event_waits import (
    after_look,
    ends_wait,
    fitting,
    is_awaiting,
    is_later_wait,
    keys_of_waits,
)
from onbeat.stores.memory.leases import find_leased
from onbeat.stores.memory.tables import Tables
from onbeat.stores.memory.wait_table import WaitKey

# The handler's side


def await_event(tables: Tables, wait: EventWait, token: Token, now: datetime) -> WaitResult | None:
    if find_leased(tables, wait.job_id, token) is None:
        return None
    waits, events = tables.events.waits, tables.events
    after = waits.rows.get((wait.job_id, wait.step), wait)
    if after.is_open:
        found = None if after.since is None else first_since(tables, after, after.since)
        after = after_look(after, found, now)
    waits.put(after)
    return WaitResult(after.is_open, None if after.seq is None else events.rows.get(after.seq))


def first_since(tables: Tables, wait: EventWait, since: EventSeq) -> EventSeq | None:
    """The first event after `since` that the wait is for."""
    newer = (one for one in tables.events.rows.values() if one.seq > since)
    return next((one.seq for one in newer if ends_wait(wait, one.event)), None)


def wake_ended(tables: Tables, key: WaitKey, at: datetime) -> None:
    """A job that was just put off until an event is due now, where that wait has ended."""
    wait = tables.events.waits.rows.get(key)
    if wait is not None and not wait.is_open:
        wake(tables, key[0], at)


def wake(tables: Tables, id: JobId, at: datetime) -> None:
    """A job that is put off until an event is due now."""
    job = tables.jobs.get(id)
    if job is None or job.state is not JobState.WAITING or not is_awaiting(job.reason):
        return
    if job.due_at > at:
        tables.put_job(replace(job, due_at=at))


# The router's side


def open_waits(tables: Tables, keys: Collection[AwaitedKey], limit: int) -> Sequence[EventWait]:
    waits = tables.events.waits
    if not waits.open:
        return ()
    wanted = keys_of_waits(keys, fitting(keys, waits.open))
    found = [one for key in wanted for one in waits.open_for(*key) if tables.is_live(one.job_id)]
    return sorted(found, key=attrgetter("job_id", "step"))[:limit]


def have_open(tables: Tables, freed: Sequence[FreedWait]) -> bool:
    rows = tables.events.waits.rows
    waits = (rows.get((one.job_id, one.step)) for one in freed)
    return all(wait is not None and wait.is_open for wait in waits)


def free(tables: Tables, freed: Sequence[FreedWait], at: datetime) -> None:
    waits = tables.events.waits
    for one in freed:
        wait = waits.rows[one.job_id, one.step]
        waits.put(replace(wait, is_open=False, seq=one.seq, since=None))
        wake(tables, one.job_id, at)


# Pruning and copying


def prune_waits(tables: Tables, limit: int) -> None:
    """Delete waits of jobs that are no longer live."""
    waits = tables.events.waits
    gone = [key for key in waits.rows if not tables.is_live(key[0])]
    for key in gone[:limit]:
        waits.remove(key)


def export_event_waits(
    tables: Tables, after: WaitKey | None, limit: int
) -> Sequence[EventWaitExport]:
    rows, events = tables.events.waits.rows, tables.events.rows
    keys = sorted(key for key in rows if tables.is_live(key[0]) and (after is None or key > after))
    waits = [rows[key] for key in keys[:limit]]
    ended_by = [None if wait.seq is None else events.get(wait.seq) for wait in waits]
    return tuple(
        EventWaitExport(wait=wait, event=None if one is None else (one.event.source, one.event.id))
        for wait, one in zip(waits, ended_by, strict=True)
    )


def import_event_waits(tables: Tables, exports: Sequence[EventWaitExport]) -> int:
    waits = tables.events.waits
    changed = 0
    for one in exports:
        source, id = one.event or ("", "")
        seq = tables.events.by_id.get(id, {}).get(source)
        wait = replace(one.wait, since=None, seq=seq)
        here = waits.rows.get((wait.job_id, wait.step))
        if tables.is_live(wait.job_id) and is_later_wait(wait, here):
            waits.put(wait)
            changed += 1
    return changed
