"""How processes on one store tell each other what happens. The rules of `ports.store` apply."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from onbeat.model.live import StreamBatch


class LiveStore(Protocol):
    async def watch_stream(self, process: str, until: datetime) -> None:
        """Note that the process has readers of the live stream, until then."""
        ...

    async def stream_watchers(self, now: datetime) -> Sequence[str]:
        """The processes that have readers now, by name."""
        ...

    async def add_stream_batch(self, batch: StreamBatch) -> None:
        """Store what one process saw. A batch that is there already is kept as it is."""
        ...

    async def stream_batches(
        self, since: datetime, besides: str, limit: int
    ) -> Sequence[StreamBatch]:
        """The oldest batches from `since` on, by time, without those of the process `besides`."""
        ...

    async def prune_stream(self, before: datetime, limit: int) -> int:
        """Delete the oldest batches from before then, and watchers whose time ended before then.

        Returns how many batches there were.
        """
        ...
