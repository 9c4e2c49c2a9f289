"""Re-encrypts stored data with the current key."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from onbeat.model.errors import Invalid, Malformed, Undecryptable
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.target import Target
from onbeat.operations.context import OperationContext
from onbeat.ports.access import TargetChange
from onbeat.ports.encryption import Cipher
from onbeat.rules.encryption import (
    decrypt_target,
    encrypt_target,
    has_plain_credentials,
    key_ids_of,
)
from onbeat.wire.secrets import Reencrypt, ReencryptedAnswer
from onbeat.wire.values import job_id, schedule_id

NO_KEY: Final = (
    "no encryption key is configured here: make one with `onbeat secrets new-key` and set it as"
    " `secrets.keys`"
)
SCHEDULES: Final = "schedule"
JOBS: Final = "job"

Replace = Callable[[Sequence[TargetChange]], Awaitable[int]]


class Part(msgspec.Struct, frozen=True):
    """A batch of schedules or jobs in order of id: id and target of each."""

    kind: str
    targets: Sequence[tuple[str, Target]]
    replace: Replace


async def reencrypt(context: OperationContext, request: Reencrypt) -> ReencryptedAnswer:
    """Encrypt one batch of stored data with the first key, schedules first, then jobs.

    Plain credentials are encrypted too. Data already encrypted with the first key stays unchanged,
    so a batch or the whole run may be repeated at any time and while jobs run. Raises `Invalid`
    where no key is configured.
    """
    cipher = context.cipher
    if cipher.key_id is None:
        raise Invalid(NO_KEY)
    body = request.part
    part = await read_part(context, body.cursor, body.limit)
    changes, unreadable = changes_of(cipher, part.targets)
    changed = await part.replace(changes) if changes else 0
    return ReencryptedAnswer(
        key=cipher.key_id,
        scanned=len(part.targets),
        changed=changed,
        unreadable=unreadable + len(changes) - changed,
        cursor=cursor_after(part, body.limit),
    )


async def read_part(context: OperationContext, cursor: str | None, limit: int) -> Part:
    kind, after = read_cursor(cursor)
    if kind == SCHEDULES:
        schedules = await context.store.export_schedules(
            ScheduleId(after) if after else None, limit
        )
        result = [(export.id, export.target) for export in schedules]
        return Part(SCHEDULES, result, context.store.replace_schedule_targets)
    exports = await context.store.export_jobs(JobId(after) if after else None, limit)
    targets = [(export.job.id, export.job.target) for export in exports]
    return Part(JOBS, targets, context.store.replace_job_targets)


def changes_of(
    cipher: Cipher, targets: Sequence[tuple[str, Target]]
) -> tuple[list[TargetChange], int]:
    """The targets to replace, and how many cannot be decrypted here."""
    changes: list[TargetChange] = []
    unreadable = 0
    for id, target in targets:
        try:
            if is_current(cipher, target):
                continue
            clear = decrypt_target(target, cipher.decrypt)
        except Undecryptable:
            unreadable += 1
        else:
            changes.append(TargetChange(id, target, encrypt_target(clear, cipher.encrypt)))
    return changes, unreadable


def is_current(cipher: Cipher, target: Target) -> bool:
    """Whether each credential is encrypted with the current key. Raises `Undecryptable`."""
    return key_ids_of(target) <= {cipher.key_id} and not has_plain_credentials(target)


def read_cursor(text: str | None) -> tuple[str, str]:
    """The kind and the id after which to continue, "" for the first."""
    if text is None:
        return SCHEDULES, ""
    kind, _, id = text.partition(":")
    if kind == SCHEDULES:
        return kind, schedule_id(id) if id else ""
    if kind == JOBS:
        return kind, job_id(id, "cursor") if id else ""
    raise Malformed("cursor must be the one of the answer before", "cursor")


def cursor_after(part: Part, limit: int) -> str | None:
    if len(part.targets) == limit:
        return f"{part.kind}:{part.targets[-1][0]}"
    return f"{JOBS}:" if part.kind == SCHEDULES else None
