"""API keys, the secret and the audit log over several cells."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final

from onbeat.model.access import ApiKey, AuditFilter, AuditRecord
from onbeat.rules.cell_merges import newest
from onbeat.stores.cells.fleet import Fleet

REMOVE_FIRST: Final = "remove the key once that cell answers, and add it again"


class AccessCells:
    """See `onbeat.ports.access.AccessStore`; what is said here is what differs."""

    fleet: Fleet

    async def secret(self, fresh: bytes) -> bytes:
        """That of the first cell, which the sessions of a front depend on."""
        return await self.fleet.ask(self.fleet.cells[0], lambda store: store.secret(fresh))

    async def add_key(self, key: ApiKey) -> None:
        """In every cell. Where one is away others may have it: remove it, and repeat."""
        await self.fleet.change_all(lambda store: store.add_key(key), REMOVE_FIRST)

    async def keys(self) -> Sequence[ApiKey]:
        """Those of the first cell that answers: each has all of them."""
        return await self.fleet.ask_first(lambda store: store.keys())

    async def remove_key(self, name: str) -> bool:
        """From every cell. Where one is away it may be left there: repeat it."""
        return any(await self.fleet.change_all(lambda store: store.remove_key(name)))

    async def note_key_use(self, name: str, at: datetime) -> None:
        await self.fleet.ask_first(lambda store: store.note_key_use(name, at))

    async def put_audit(self, record: AuditRecord) -> None:
        """In the cell of its id, or else in one that answers: what it tells of has been done."""
        home = self.fleet.of_id(record.id)
        await self.fleet.ask_first(lambda store: store.put_audit(record), home=home)

    async def audit(self, filter: AuditFilter) -> Sequence[AuditRecord]:
        """Each record once, though two cells may have one where the first was slow to take it."""
        found = await self.fleet.ask_all(lambda store: store.audit(filter))
        known = {record.id: record for part in found for record in part}
        return newest([list(known.values())], attrgetter("id"), filter.limit)
