"""Queues that are watched for lateness. The rules of `onbeat.ports.store` apply."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from onbeat.model.queue import LatenessChange, WatchedQueue


class LatenessStore(Protocol):
    async def watched_queues(self, now: datetime) -> Sequence[WatchedQueue]:
        """Queues with `late_after`, by name; its cost does not grow with their waiting jobs."""
        ...

    async def note_lateness(self, changes: Sequence[LatenessChange], now: datetime) -> int:
        """Store from when queues are late or in time, with their events; returns how many changed.

        A queue that another process has noted already is left out, and so is one that is late
        where no schedule asks for such events. So each time that a queue becomes late has one.
        """
        ...
