"""Bulks."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

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
from onbeat.stores.memory import dependents, retry
from onbeat.stores.memory.listings import jobs_page
from onbeat.stores.memory.tables import Tables


def add_bulk(tables: Tables, bulk: Bulk) -> None:
    if sum(not one.is_over for one in tables.access.bulks.values()) >= BULKS_MAX:
        raise Conflict(f"{BULKS_MAX} bulks have not ended; wait for one, or stop one")
    put_bulk(tables, bulk)


def put_bulk(tables: Tables, bulk: Bulk) -> None:
    """Store the bulk as it is now, and its audit record where that changes."""
    tables.access.bulks[bulk.id] = bulk
    if bulk.is_over or bulk.next_at == bulk.starts_at:
        tables.access.audit[bulk.id] = audit_of(bulk)


def bulks(tables: Tables, before: BulkId | None, limit: int) -> Sequence[Bulk]:
    newest = sorted(tables.access.bulks.values(), key=lambda bulk: bulk.id, reverse=True)
    return tuple(islice((one for one in newest if before is None or one.id < before), limit))


def next_bulk(tables: Tables) -> Bulk | None:
    bulks = tables.access.bulks
    waiting = [(one.next_at, id) for id, one in bulks.items() if one.next_at is not None]
    return bulks[min(waiting)[1]] if waiting else None


def run_bulk(tables: Tables, id: BulkId, now: datetime, limit: int, *, skip: bool) -> Bulk | None:
    found = tables.access.bulks.get(id)
    if found is None or not is_due(found, now):
        return found
    page = jobs_page(tables, next_filter(found, limit))
    acted = Acted(failed=len(page.items)) if skip else act(tables, found, page.items, now)
    moved = after_chunk(found, chunk_of(page, acted), now)
    put_bulk(tables, moved)
    return moved


def act(tables: Tables, bulk: Bulk, jobs: Sequence[Job], now: datetime) -> Acted:
    chosen = [job for job in jobs if still_fits(bulk, job)]
    if bulk.do is BulkAction.RETRY:
        retry.retry(tables, [job.id for job in chosen], now)
        return Acted(len(chosen))
    if bulk.do is BulkAction.RESCHEDULE:
        due, refused = new_due_times(bulk, chosen, now)
        for id, due_at in due.items():
            retry.reschedule(tables, id, due_at, now, cause_of(bulk))
        return Acted(len(due), refused)
    dependents.cancel(tables, [job.id for job in chosen], reason_of(bulk), now)
    return Acted(len(chosen))


def stop_bulk(tables: Tables, id: BulkId, now: datetime) -> Bulk | None:
    found = tables.access.bulks.get(id)
    if found is not None and not found.is_over:
        put_bulk(tables, stopped(found, now))
    return tables.access.bulks.get(id)


def prune_bulks(tables: Tables, before: datetime, limit: int) -> int:
    ended = ((one.finished_at, id) for id, one in tables.access.bulks.items() if one.finished_at)
    old = sorted(one for one in ended if one[0] < before)[:limit]
    for _, id in old:
        del tables.access.bulks[id]
    return len(old)
