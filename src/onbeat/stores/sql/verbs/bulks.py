"""Bulks: one row each, whose lock orders the chunks."""

from collections.abc import Sequence

import msgspec

from onbeat.model.bulk import Bulk, BulkAction, BulkId
from onbeat.model.errors import Conflict
from onbeat.model.job import Job
from onbeat.model.limits import BULKS_MAX
from onbeat.rules.bulks import (
    Acted,
    after_chunk,
    audit_of,
    cause_of,
    chunk_of,
    is_due,
    new_due_times,
    next_filter,
    reason_of,
    still_fits,
    stopped,
)
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, micros_or_none, to_json
from onbeat.stores.sql.verbs.access import audit_row, put_audit
from onbeat.stores.sql.verbs.cancel_and_retry import cancel, lock_unsuccessful, retry
from onbeat.stores.sql.verbs.dependents import lock_jobs
from onbeat.stores.sql.verbs.job_search import find_jobs
from onbeat.stores.sql.verbs.jobs import jobs_by_id
from onbeat.stores.sql.verbs.reschedule import give_due_times

READ = msgspec.json.Decoder(Bulk)


async def add_bulk(session: Session, bulk: Bulk) -> None:
    unfinished = "SELECT id FROM onbeat.bulks WHERE next_at IS NOT NULL LIMIT ?"
    rows = await session.select("id", f"FROM ({unfinished}) AS unfinished", BULKS_MAX)
    if len(rows) == BULKS_MAX:
        raise Conflict(f"{BULKS_MAX} bulks have not ended; wait for one, or stop one")
    await put_bulk(session, bulk)


async def put_bulk(session: Session, bulk: Bulk) -> None:
    """Store the bulk as it is now, and its audit record where that changes."""
    sql = f"""
        INSERT INTO onbeat.bulks (id, next_at, finished_at, record) VALUES (?, ?, ?, ?)
        {session.dialect.or_change("id", ["next_at", "finished_at", "record"])}
    """  # noqa: S608  values are bound
    times = micros_or_none(bulk.next_at), micros_or_none(bulk.finished_at)
    await session.execute(sql, bulk.id, *times, to_json(bulk))
    if bulk.is_over or bulk.next_at == bulk.starts_at:
        await put_audit(session, audit_row(audit_of(bulk)))


async def bulk(session: Session, id: BulkId) -> Bulk | None:
    return await one_bulk(session, "WHERE id = ?", id)


async def one_bulk(session: Session, rest: str, *values: str) -> Bulk | None:
    rows = await session.select("record", f"FROM onbeat.bulks {rest}", *values)
    return next((READ.decode(record) for (record,) in rows), None)


async def bulks(session: Session, before: BulkId | None, limit: int) -> Sequence[Bulk]:
    bound, values = ("TRUE", ()) if before is None else ("id < ?", (before,))
    rest = f"FROM onbeat.bulks WHERE {bound} ORDER BY id DESC LIMIT ?"
    rows = await session.select("record", rest, *values, limit)
    return tuple(READ.decode(record) for (record,) in rows)


async def next_bulk(session: Session) -> Bulk | None:
    return await one_bulk(session, "WHERE next_at IS NOT NULL ORDER BY next_at, id LIMIT 1")


async def run_bulk(
    session: Session, id: BulkId, now: int, limit: int, *, skip: bool = False
) -> Bulk | None:
    found = await one_bulk(session, f"WHERE id = ? {session.dialect.for_update}", id)
    at = instant(now)
    if found is None or not is_due(found, at):
        return found
    page = await find_jobs(session, next_filter(found, limit))
    acted = Acted(failed=len(page.items))
    if not skip:
        acted = await act(session, found, page.items, now)
    moved = after_chunk(found, chunk_of(page, acted), at)
    await put_bulk(session, moved)
    return moved


async def act(session: Session, bulk: Bulk, jobs: Sequence[Job], now: int) -> Acted:
    """Judged while they are locked, since a search locks nothing."""
    ids = [job.id for job in jobs]
    if bulk.do is BulkAction.RETRY:
        locked = await lock_unsuccessful(session, ids)
        chosen = [job for job in locked if still_fits(bulk, job)]
        await retry(session, [job.id for job in chosen], now)
        return Acted(len(chosen))
    await lock_jobs(session, ids)
    known = await jobs_by_id(session, ids)
    chosen = [job for job in known.values() if still_fits(bulk, job)]
    if bulk.do is BulkAction.RESCHEDULE:
        due, refused = new_due_times(bulk, chosen, instant(now))
        await give_due_times(
            session, [(known[id], at) for id, at in due.items()], cause_of(bulk), now
        )
        return Acted(len(due), refused)
    await cancel(session, [job.id for job in chosen], reason_of(bulk), now)
    return Acted(len(chosen))


async def stop_bulk(session: Session, id: BulkId, now: int) -> Bulk | None:
    found = await one_bulk(session, f"WHERE id = ? {session.dialect.for_update}", id)
    if found is None or found.is_over:
        return found
    ended = stopped(found, instant(now))
    await put_bulk(session, ended)
    return ended


async def prune_bulks(session: Session, before: int, limit: int) -> int:
    sql = session.dialect.delete_first("bulks", "id", "finished_at < ?", "finished_at")
    return await session.execute(sql, before, limit)
