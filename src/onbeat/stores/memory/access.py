"""The store's secret, API keys, and the audit log."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from onbeat.model.access import ApiKey, AuditFilter, AuditRecord
from onbeat.model.errors import Conflict
from onbeat.stores.memory.tables import AccessTables


def add_key(tables: AccessTables, key: ApiKey) -> None:
    if key.name in tables.keys:
        raise Conflict(f"a key is named {key.name!r} already; revoke it, or choose another name")
    tables.keys[key.name] = key


def keys(tables: AccessTables) -> Sequence[ApiKey]:
    return tuple(key for _, key in sorted(tables.keys.items()))


def note_key_use(tables: AccessTables, name: str, at: datetime) -> None:
    key = tables.keys.get(name)
    if key is not None and (key.used_at is None or key.used_at < at):
        tables.keys[name] = replace(key, used_at=at)


def audit(tables: AccessTables, filter: AuditFilter) -> Sequence[AuditRecord]:
    records = (tables.audit[id] for id in sorted(tables.audit, reverse=True))
    matching: Iterator[AuditRecord] = (record for record in records if matches(record, filter))
    return tuple(islice(matching, filter.limit))


def matches(record: AuditRecord, filter: AuditFilter) -> bool:
    return (
        filter.actor in {None, record.actor}
        and filter.action in {None, record.action}
        and filter.object in {None, record.object}
        and (filter.since is None or record.at >= filter.since)
        and (filter.until is None or record.at < filter.until)
        and (filter.before is None or record.id < filter.before)
    )


def prune_audit(tables: AccessTables, before: datetime, limit: int) -> int:
    old = sorted((record.at, id) for id, record in tables.audit.items() if record.at < before)
    for _, id in old[:limit]:
        del tables.audit[id]
    return len(old[:limit])
