"""Alerts and silences. The rules of `onbeat.ports.store` apply."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from onbeat.model.alert import Alert, AlertChange, AlertSilence


class AlertStore(Protocol):
    async def alerts(self, *, is_open: bool, limit: int) -> Sequence[Alert]:
        """Open ones, or ended ones; the newest first."""
        ...

    async def note_alerts(
        self, changes: Sequence[AlertChange], now: datetime
    ) -> Sequence[AlertChange]:
        """Make the changes in order, with their events; returns those by which an alert began, was
        told or ended.

        Any number of processes may note the same: an alert begins once, and is told once.
        """
        ...

    async def prune_alerts(self, before: datetime, limit: int) -> int:
        """Delete alerts and silences that ended before; returns how many."""
        ...

    async def silences(self, now: datetime) -> Sequence[AlertSilence]:
        """Those that have not ended, also those that have not begun; the earliest to end first."""
        ...

    async def add_silence(self, silence: AlertSilence) -> None: ...

    async def end_silence(self, id: str) -> bool:
        """Whether there was one."""
        ...
