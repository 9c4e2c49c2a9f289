"""The store's part of access control: its secret, API keys, audit log, and re-encrypted targets."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from onbeat.model.access import ApiKey, AuditFilter, AuditRecord
from onbeat.model.target import Target


class TargetChange(msgspec.Struct, frozen=True):
    """The target of one job or schedule, before and after the change."""

    id: str
    before: Target
    after: Target


class AccessStore(Protocol):
    async def secret(self, fresh: bytes) -> bytes:
        """The store's own secret; `fresh` becomes the secret where the store has none yet.

        Every process on the store gets the same secret.
        """
        ...

    async def note_map_version(self, version: int) -> int:
        """The highest version of a map of cells that this store was told of, with this one."""
        ...

    async def add_key(self, key: ApiKey) -> None:
        """Raises `Conflict` where a key has this name."""
        ...

    async def keys(self) -> Sequence[ApiKey]:
        """All keys, by name."""
        ...

    async def remove_key(self, name: str) -> bool:
        """Returns whether the key existed."""
        ...

    async def note_key_use(self, name: str, at: datetime) -> None:
        """Record the instant of the key's last use; an earlier instant changes nothing."""
        ...

    async def put_audit(self, record: AuditRecord) -> None:
        """Store a record; replaces the record with the same id."""
        ...

    async def audit(self, filter: AuditFilter) -> Sequence[AuditRecord]:
        """Matching records, newest first."""
        ...

    async def prune_audit(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` records older than `before`, oldest first. Returns how many."""
        ...

    async def replace_job_targets(self, changes: Sequence[TargetChange]) -> int:
        """Replace each target that is unchanged since it was read, in live and ended jobs.

        Atomic. Returns how many were replaced. The rest of each job stays the same.
        """
        ...

    async def replace_schedule_targets(self, changes: Sequence[TargetChange]) -> int:
        """The same for schedules; their version and their waiting jobs stay the same."""
        ...
