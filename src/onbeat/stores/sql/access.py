"""API keys and audit records as rows: indexed columns, and the rest as JSON text."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from onbeat.model.access import ApiKey, AuditFilter, AuditRecord
from onbeat.stores.sql.values import instant_or_none, micros, micros_or_none, to_json

KEY_COLUMNS = "name, digest, record, used_at"
AUDIT_COLUMNS = "id, at, actor, action, object, record"

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
