"""`beat.audit`: the audit log of changes."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict, Unpack

from onbeat.app.backend import Backend
from onbeat.app.call import check_keywords, instants
from onbeat.app.pages import items_of_pages
from onbeat.operations.tables.administration import AUDIT_LIST
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
        check_keywords("audit.list", filters, AuditFilters.__annotations__)
        fields = instants(filters)

        async def ask(size: int, cursor: str | None) -> tuple[Sequence[AuditAnswer], str | None]:
            request = ListAudit(limit=size, cursor=cursor, **fields)
            page = await self._backend.call(AUDIT_LIST, request)
            return page.records, page.cursor

        return await items_of_pages(limit, ask)
