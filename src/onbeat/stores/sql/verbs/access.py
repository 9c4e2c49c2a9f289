"""API keys and the audit log."""

from collections.abc import Sequence

from onbeat.model.access import ApiKey, AuditFilter, AuditRecord
from onbeat.model.errors import Conflict
from onbeat.stores.sql.access import (
    AUDIT_COLUMNS,
    KEY_COLUMNS,
    AuditRow,
    KeyRow,
    audit_conditions,
    read_audit,
    read_key,
)
from onbeat.stores.sql.session import Session


async def add_key(session: Session, row: KeyRow) -> None:
    sql = f"""
        INSERT INTO onbeat.api_keys ({KEY_COLUMNS}) VALUES (?, ?, ?, ?)
        {session.dialect.unless_there("name")}
    """  # noqa: S608  values are bound
    if await session.execute(sql, *row) == 0:
        raise Conflict(f"a key is named {row[0]!r} already; revoke it, or choose another name")


async def keys(session: Session) -> Sequence[ApiKey]:
    rows = await session.select("record, used_at", "FROM onbeat.api_keys ORDER BY name")
    return tuple(read_key(record, used_at) for record, used_at in rows)


async def remove_key(session: Session, name: str) -> bool:
    return await session.execute("DELETE FROM onbeat.api_keys WHERE name = ?", name) > 0


async def note_key_use(session: Session, name: str, at: int) -> None:
    await session.execute(
        """
        UPDATE onbeat.api_keys SET used_at = ?
        WHERE name = ? AND (used_at IS NULL OR used_at < ?)
        """,
        at,
        name,
        at,
    )


async def put_audit(session: Session, row: AuditRow) -> None:
    sql = f"""
        INSERT INTO onbeat.audit ({AUDIT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)
        {session.dialect.or_change("id", ["object", "record"])}
    """  # noqa: S608  values are bound
    await session.execute(sql, *row)


async def audit(session: Session, filter: AuditFilter) -> Sequence[AuditRecord]:
    where, values = audit_conditions(filter)
    rest = f"FROM onbeat.audit WHERE {where} ORDER BY id DESC LIMIT ?"
    rows = await session.select("record", rest, *values, filter.limit)
    return read_audit(record for (record,) in rows)


async def prune_audit(session: Session, before: int, limit: int) -> int:
    sql = session.dialect.delete_first("audit", "id", "at < ?", "at")
    return await session.execute(sql, before, limit)
