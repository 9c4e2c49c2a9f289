"""The operations of the API keys in the store."""

import secrets
from datetime import datetime, timedelta

from onbeat.model.access import ApiKey
from onbeat.model.errors import Conflict, NotFound
from onbeat.model.limits import SPAN_MAX
from onbeat.operations.context import OperationContext
from onbeat.rules.access import (
    SECRET_BYTES,
    check_key_queues,
    digest_of,
    new_key,
    read_key_name,
    read_scopes,
)
from onbeat.rules.sessions import is_session
from onbeat.wire.access import (
    CreatedKey,
    CreateKey,
    KeyByName,
    KeyDraft,
    KeysAnswer,
    key_answer,
)
from onbeat.wire.requests import Message, NoParams
from onbeat.wire.values import read_queue_name, read_span

ABSENT = "Key not found"
REVOKED = Message("Key revoked.")
SPAN_MIN = timedelta(seconds=1)


async def create(context: OperationContext, request: CreateKey) -> CreatedKey:
    """The only answer that contains the key.

    Raises `Conflict` where a key of the store or of the settings has the name, and `Invalid` for
    no queues, and for queues without the scope `work`.
    """
    draft, now = request.key, context.clock.now()
    # Not from the randomness port: a key must be unpredictable.
    text = new_key(secrets.token_bytes(SECRET_BYTES))
    key = ApiKey(
        name=free_name(context, draft.name),
        digest=digest_of(text),
        scopes=read_scopes(draft.scopes),
        queues=None if draft.queues is None else tuple(map(read_key_queue, draft.queues)),
        created_at=now,
        expires_at=expires_at(draft, now),
    )
    check_key_queues(key.queues, key.scopes)
    await context.store.add_key(key)
    return CreatedKey(name=key.name, key=text, expires_at=key.expires_at)


def free_name(context: OperationContext, text: str) -> str:
    """The audit log and limits know keys by their names, so no two may share one."""
    name = read_key_name(text)
    if name in context.configured_keys:
        raise Conflict(f"a key of the settings (api.keys) is named {name!r}; choose another name")
    return name


def read_key_queue(text: str) -> str:
    return read_queue_name(text, "queues")


def expires_at(draft: KeyDraft, now: datetime) -> datetime | None:
    if not draft.expires:
        return None
    return now + read_span(draft.expires, "expires", least=SPAN_MIN, most=SPAN_MAX)


async def list_keys(context: OperationContext, _request: NoParams) -> KeysAnswer:
    """All keys by name, without the sessions of the dashboard."""
    keys = await context.store.keys()
    return KeysAnswer(tuple(key_answer(key) for key in keys if not is_session(key)))


async def revoke(context: OperationContext, request: KeyByName) -> Message:
    """Delete the key; every process rejects it within seconds."""
    if not await context.store.remove_key(request.name):
        raise NotFound(ABSENT)
    return REVOKED
