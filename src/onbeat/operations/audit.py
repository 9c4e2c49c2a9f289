"""The audit log: one record for every change, written before the change and completed after it."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from onbeat.model.access import AuditFilter, AuditRecord
from onbeat.model.credentials import HIDDEN
from onbeat.model.errors import Unavailable
from onbeat.operations.context import OperationContext
from onbeat.rules.storable import storable_text
from onbeat.wire.access import AuditListAnswer, ListAudit, audit_answer
from onbeat.wire.errors import problem
from onbeat.wire.values import read_id, read_instant

Answer = TypeVar("Answer")

DONE: Final = "done"
UNCHANGED: Final = "unchanged"
SUMMARY_CHARS_MAX: Final = 2_000
OBJECT_CHARS_MAX: Final = 700
SECRET: Final = frozenset({"secret", "headers"})
PAYLOAD: Final = frozenset({"args", "kwargs", "body", "json"})


async def list_audit(context: OperationContext, request: ListAudit) -> AuditListAnswer:
    """Newest first."""
    result = await context.store.audit(
        AuditFilter(
            actor=request.actor or None,
            action=request.action or None,
            object=request.object or None,
            since=None if request.since is None else read_instant(request.since, "since"),
            until=None if request.until is None else read_instant(request.until, "until"),
            before=read_id(request.cursor, "audit record", "cursor") if request.cursor else None,
            limit=request.limit,
        )
    )
    return AuditListAnswer(
        records=tuple(map(audit_answer, result)),
        limit=request.limit,
        cursor=result[-1].id if len(result) == request.limit else None,
    )


async def run_audited(
    context: OperationContext,
    action: str,
    request: msgspec.Struct,
    change: Callable[[], Awaitable[Answer]],
) -> Answer:
    """Make the change between the two writes of its record.

    If the first write fails, nothing is changed. If the process dies between the writes, the record
    stays at `begun`: the change may have been made.
    """
    record = AuditRecord(
        id=context.fresh_id(),
        at=context.clock.now(),
        actor=context.principal.name,
        action=action,
        object=object_of(action, request),
        summary=summary_of(request),
    )
    await context.store.put_audit(record)
    try:
        answer = await change()
    except Exception as error:
        await complete(context, record, problem(error).code)
        raise
    outcome = UNCHANGED if getattr(answer, "changed", True) is False else DONE
    made = getattr(answer, "id", None) if record.object.endswith("/") else None
    named = msgspec.structs.replace(record, object=record.object + made) if made else record
    await complete(context, named, outcome)
    return answer


async def note_change(context: OperationContext, action: str, object: str) -> None:
    """Record a change after it was made.

    A declaration repeated at each start mostly changes nothing, which is known only afterwards.
    """
    await context.store.put_audit(
        AuditRecord(
            id=context.fresh_id(),
            at=context.clock.now(),
            actor=context.principal.name,
            action=action,
            object=object[:OBJECT_CHARS_MAX],
            outcome=DONE,
        )
    )


async def complete(context: OperationContext, record: AuditRecord, outcome: str) -> None:
    # The change is made, and the store already has its record as begun.
    with contextlib.suppress(Unavailable):
        await context.store.put_audit(msgspec.structs.replace(record, outcome=outcome))


def object_of(action: str, request: msgspec.Struct) -> str:
    """The kind and the id; nothing after the slash where the change creates the id.

    In a form that every store takes: the record of a refused change may not be refused itself.
    """
    kind = action.partition(".")[0]
    for field in ("id", "name", "key", "fault", "group"):
        value = getattr(request, field, None)
        if isinstance(value, str):
            return storable_text(f"{kind}/{value}")[:OBJECT_CHARS_MAX]
    draft = getattr(request, "key", None)
    return storable_text(f"{kind}/{getattr(draft, 'name', '')}")[:OBJECT_CHARS_MAX]


def summary_of(request: msgspec.Struct) -> str:
    """The request as JSON; secrets are hidden, payloads are replaced by their sizes."""
    plain = cast("object", msgspec.json.decode(msgspec.json.encode(request)))
    text = msgspec.json.encode(redact(plain)).decode()
    if len(text) <= SUMMARY_CHARS_MAX:
        return text
    names = sorted(cast("dict[str, Any]", plain)) if isinstance(plain, dict) else []
    return msgspec.json.encode({"fields": names, "bytes": len(text)}).decode()


def redact(value: object) -> object:
    if isinstance(value, dict):
        members = cast("Mapping[str, object]", value)
        return {name: redact_member(name, member) for name, member in members.items()}
    if isinstance(value, list):
        return [redact(item) for item in cast("list[object]", value)]
    return value


def redact_member(name: str, value: object) -> object:
    if value is None:
        return None
    if name in SECRET:
        return HIDDEN
    if name in PAYLOAD:
        return f"{len(msgspec.json.encode(value))} bytes"
    if name.endswith("url") and isinstance(value, str):
        return without_secrets(value)
    return redact(value)


def without_secrets(url: str) -> str:
    """Scheme, host and path: users, passwords and queries do not belong in a log."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return HIDDEN
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
