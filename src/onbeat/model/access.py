"""API keys in the store, and the audit log of changes."""

from datetime import datetime

import msgspec

from onbeat.model.limits import PAGE_LIMIT_DEFAULT
from onbeat.model.principal import Scope

BEGUN = "begun"
"""The outcome of a change whose process ended before it recorded another outcome."""


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A named key. `digest` is the SHA-256 of the key in hexadecimal; the key itself is not stored.

    `used_at` is coarse: a use within a minute of the last one is not recorded. A session of the
    dashboard is a key too: `session_of` names the key that logged in, and whose rights it has.
    """

    name: str
    digest: str
    scopes: tuple[Scope, ...]
    queues: tuple[str, ...] | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    used_at: datetime | None = None
    session_of: str | None = None


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One change: who (`actor`) did what (`action`) to which `object`, and its `outcome`.

    `object` is the kind and the id separated by a slash, such as `schedule/0199…`. `summary` is the
    request as JSON, without secrets and payloads. `outcome` is `begun`, `done`, `unchanged`, or the
    code of the error that ended it.
    """

    id: str
    at: datetime
    actor: str
    action: str
    object: str
    summary: str = "{}"
    outcome: str = BEGUN


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """None matches everything; `since` is inclusive, `until` is exclusive; `before` is an id."""

    actor: str | None = None
    action: str | None = None
    object: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: str | None = None
    limit: int = PAGE_LIMIT_DEFAULT
