"""Wire records of API keys and audit records."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.access import ApiKey, AuditRecord
from onbeat.model.limits import KEY_CHARS_MAX, NAME_CHARS_MAX, PAGE_LIMIT_DEFAULT
from onbeat.model.principal import Scope
from onbeat.wire.answer import AnswerRecord, plain_value
from onbeat.wire.requests import LimitForm
from onbeat.wire.values import ANY_OBJECT, InstantForm, SpanForm

NameForm = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
SCOPES_MAX = 10  # more than the number of scopes
KEY_QUEUES_MAX = 1_000  # as many as one worker serves


class KeyDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to create. `queues` are those whose jobs it may work on, by default all; they go with
    the scope `work`. `expires` is how long it is valid, by default without end.
    """

    name: NameForm
    scopes: Annotated[tuple[str, ...], Meta(max_length=SCOPES_MAX)]
    queues: Annotated[tuple[NameForm, ...], Meta(max_length=KEY_QUEUES_MAX)] | None = None
    expires: SpanForm | UnsetType | None = UNSET


class CreateKey(msgspec.Struct, frozen=True):
    key: KeyDraft


class KeyByName(msgspec.Struct, frozen=True):
    name: NameForm


class KeyAnswer(AnswerRecord, frozen=True, kw_only=True):
    """A key without its secret. `used_at` is its last use, to about a minute."""

    name: str
    scopes: tuple[Scope, ...]
    queues: tuple[str, ...] | None
    created_at: datetime | None
    expires_at: datetime | None
    used_at: datetime | None


class CreatedKey(AnswerRecord, frozen=True, kw_only=True):
    """`key` is shown only once: the store keeps only its SHA-256."""

    name: str
    key: str
    expires_at: datetime | None


class KeysAnswer(msgspec.Struct, frozen=True):
    """Keys of the store, by name, without those of the settings."""

    keys: tuple[KeyAnswer, ...]


class ListAudit(msgspec.Struct, frozen=True, kw_only=True):
    actor: NameForm | None = None
    action: Annotated[str, Meta(max_length=NAME_CHARS_MAX, examples=["queue.pause"])] | None = None
    object: (
        Annotated[str, Meta(max_length=KEY_CHARS_MAX + NAME_CHARS_MAX, examples=["queue/default"])]
        | None
    ) = None
    since: InstantForm | None = None
    until: InstantForm | None = None
    limit: LimitForm = PAGE_LIMIT_DEFAULT
    cursor: Annotated[str, Meta(description="Where the page before ended")] | None = None


class AuditAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Who (`actor`, the name of a key) did what to which object (kind/id), and the outcome: `done`,
    `unchanged`, the code of an error, or `begun` if the process ended meanwhile.
    """

    id: str
    at: datetime
    actor: str
    action: str
    object: str
    request_json: Annotated[msgspec.Raw, Meta(extra_json_schema=ANY_OBJECT)] = msgspec.field(
        name="request"
    )
    outcome: str

    @property
    def request(self) -> dict[str, Any]:
        """What was asked for, in plain JSON values."""
        values: dict[str, Any] = plain_value(self.request_json)
        return values


class AuditListAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Newest first; `cursor` leads to the next page and is null on the last."""

    records: tuple[AuditAnswer, ...]
    limit: int
    cursor: str | None


def key_answer(key: ApiKey) -> KeyAnswer:
    return KeyAnswer(
        name=key.name,
        scopes=key.scopes,
        queues=key.queues,
        created_at=key.created_at,
        expires_at=key.expires_at,
        used_at=key.used_at,
    )


def audit_answer(record: AuditRecord) -> AuditAnswer:
    return AuditAnswer(
        id=record.id,
        at=record.at,
        actor=record.actor,
        action=record.action,
        object=record.object,
        request_json=msgspec.Raw(record.summary.encode()),
        outcome=record.outcome,
    )
