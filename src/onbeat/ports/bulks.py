"""Bulks. The rules of `onbeat.ports.store` apply."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from onbeat.model.bulk import Bulk, BulkId
from onbeat.model.idempotency import KeyedRequest


class BulkStore(Protocol):
    async def add_bulk(self, bulk: Bulk, keyed: KeyedRequest | None = None) -> None:
        """Store it with its audit record. Raises `Conflict` where `BULKS_MAX` have not ended."""
        ...

    async def bulk(self, id: BulkId) -> Bulk | None: ...

    async def bulks(self, before: BulkId | None, limit: int) -> Sequence[Bulk]:
        """Bulks with an id below `before`, newest first."""
        ...

    async def next_bulk(self) -> Bulk | None:
        """Of the bulks that have not ended, the one whose next chunk is due first."""
        ...

    async def run_bulk(
        self, id: BulkId, now: datetime, limit: int, *, skip: bool = False
    ) -> Bulk | None:
        """Act on up to `limit` more jobs, each judged anew; returns the bulk after that.

        The jobs, the place of the bulk and, at its end, its audit record are one transaction, so
        no job is met twice. Nothing happens before `next_at`. With `skip` the jobs are counted as
        failed instead. Raises `Conflict` where one of them cannot be changed.
        """
        ...

    async def stop_bulk(self, id: BulkId, now: datetime) -> Bulk | None:
        """End it as it is; one that is over stays unchanged."""
        ...

    async def prune_bulks(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` bulks that ended before `before`; returns how many."""
        ...
