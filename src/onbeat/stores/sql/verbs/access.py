"""API keys, the audit log, the secret of tokens, and the encryption of targets."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from onbeat.model.access import ApiKey, AuditFilter, AuditRecord
from onbeat.model.errors import Conflict
from onbeat.ports.access import TargetChange
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant_or_none, micros, micros_or_none, to_json, with_target

KEY_COLUMNS = "name, digest, record, used_at"
AUDIT_COLUMNS = "id, at, actor, action, object, record"
TOKENS: Final = "tokens"
CELLS: Final = "cells"
"""Names of rows beside which there are no others; the second has the version of a map."""

READ_KEY = msgspec.json.Decoder(ApiKey)
READ_AUDIT = msgspec.json.Decoder(AuditRecord)

KeyRow = tuple[str, str, str, int | None]
AuditRow = tuple[str, int, str, str, str, str]


def key_row(key: ApiKey) -> KeyRow:
    return key.name, key.digest, to_json(key), micros_or_none(key.used_at)


def read_key(record: str, used_at: int | None) -> ApiKey:
    return msgspec.structs.replace(READ_KEY.decode(record), used_at=instant_or_none(used_at))


def audit_row(record: AuditRecord) -> AuditRow:
    return (
        record.id,
        micros(record.at),
        record.actor,
        record.action,
        record.object,
        to_json(record),
    )


def read_audit(records: Iterable[str]) -> Sequence[AuditRecord]:
    return tuple(map(READ_AUDIT.decode, records))


def audit_conditions(filter: AuditFilter) -> tuple[str, list[Any]]:
    """The WHERE condition of a listing, and its parameters."""
    request: dict[str, Any] = {
        "actor =": filter.actor,
        "action =": filter.action,
        "object =": filter.object,
        "at >=": micros_or_none(filter.since),
        "at <": micros_or_none(filter.until),
        "id <": filter.before,
    }
    used = {text: value for text, value in request.items() if value is not None}
    return " AND ".join(["TRUE", *(f"{text} ?" for text in used)]), list(used.values())


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


async def known_secret(session: Session) -> bytes | None:
    """None if the store has none yet."""
    return await stored_value(session, TOKENS, "")


async def secret(session: Session, fresh: bytes) -> bytes:
    """The stored secret, or else the fresh one."""
    await add_value(session, TOKENS, fresh)
    # A locking read: a plain one may miss another process's commit.
    return await stored_value(session, TOKENS, session.dialect.for_update) or fresh


async def known_map_version(session: Session) -> int:
    """0 if the store was told of none yet."""
    return int(await stored_value(session, CELLS, "") or b"0")


async def note_map_version(session: Session, version: int) -> int:
    """The highest version, which this one becomes where none is higher."""
    value, dialect = str(version).encode(), session.dialect
    await add_value(session, CELLS, value)
    known = int(await stored_value(session, CELLS, dialect.for_update) or value)
    if known >= version:
        return known
    sql = f"UPDATE onbeat.secrets SET value = {dialect.in_json('?')} WHERE name = ?"  # noqa: S608
    await session.execute(sql, value, CELLS)
    return version


async def add_value(session: Session, name: str, value: bytes) -> None:
    """Store the value unless there is one of this name."""
    dialect = session.dialect
    sql = f"""
        INSERT INTO onbeat.secrets (name, value) VALUES ('{name}', {dialect.in_json("?")})
        {dialect.unless_there("name")}
    """  # noqa: S608  values are bound
    await session.execute(sql, value)


async def stored_value(session: Session, name: str, ending: str) -> bytes | None:
    rows = await session.select("value", f"FROM onbeat.secrets WHERE name = '{name}' {ending}")
    return next((session.dialect.read_bytes(value) for (value,) in rows), None)


async def replace_job_targets(session: Session, changes: Sequence[TargetChange]) -> int:
    """For new encryption keys. A target that has changed since it was read is kept."""
    replace = session.forms.with_job_target
    live = await replace_targets(session, "jobs", changes, replace)
    return live + await replace_targets(session, "finished", changes, replace)


async def replace_schedule_targets(session: Session, changes: Sequence[TargetChange]) -> int:
    return await replace_targets(session, "schedules", changes, with_target)


async def replace_targets(
    session: Session,
    table: str,
    changes: Sequence[TargetChange],
    replace: Callable[[str, TargetChange], str | None],
) -> int:
    dialect = session.dialect
    wanted = {change.id: change for change in changes}
    rest = f"""
        FROM onbeat.{table} WHERE {dialect.in_list("id", "uuid")} ORDER BY id {dialect.for_update}
    """
    rows = await session.select("id, spec", rest, tuple(wanted))
    specs = [(id, replace(spec, wanted[str(id)])) for id, spec in rows]
    changed = [(id, spec) for id, spec in specs if spec is not None]
    await session.update_rows(table, {"id": "uuid"}, {"spec": "text"}, changed)
    return len(changed)
