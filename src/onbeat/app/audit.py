"""`beat.audit`: the audit log of changes."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict, Unpack

from onbeat.app.backend import Backend
from onbeat.operations.table import (
    AUDIT_LIST,
)
from onbeat.wire.access import AuditAnswer, ListAudit


class AuditFilters(TypedDict, total=False):
    """Filters for listed changes."""

    actor: str | None
    action: str | None
    object: str | None
    since: datetime | None
    until: datetime | None


class Audit:
    """The audit log of changes."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def list(self, *, limit: int = 100, **filters: Unpack[AuditFilters]) -> Sequence[AuditAnswer]:
        """Changes, newest first."""
        return self._backend.wait_for(self.alist(limit=limit, **filters))

    async def alist(
        self, *, limit: int = 100, **filters: Unpack[AuditFilters]
    ) -> Sequence[AuditAnswer]:
        return (await self._backend.call(AUDIT_LIST, ListAudit(limit=limit, **filters))).records
