"""`beat.alerts`: what is wrong, and silences."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from onbeat.app.backend import Backend
from onbeat.app.call import Span, instant
from onbeat.app.queues import in_seconds
from onbeat.operations.tables.alerts import ALERT_LIST, ALERT_SILENCE, ALERT_UNSILENCE
from onbeat.wire.alerts import (
    AlertAnswer,
    AlertSilenceBody,
    CreateSilence,
    ListAlerts,
    SilenceAnswer,
    SilenceById,
)
from onbeat.wire.values import value_or_unset


class Alerts:
    """What is wrong, as a process with the role `maintenance` sees it, and silences."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def list(
        self, state: Literal["open", "ended"] = "open", *, limit: int = 100
    ) -> Sequence[AlertAnswer]:
        """Open alerts or ended ones, the newest first."""
        return self._backend.wait_for(self.alist(state, limit=limit))

    async def alist(
        self, state: Literal["open", "ended"] = "open", *, limit: int = 100
    ) -> Sequence[AlertAnswer]:
        request = ListAlerts(state=state, limit=limit)
        return (await self._backend.call(ALERT_LIST, request)).alerts

    def silence(
        self, match: str, until: Span | datetime, *, start: datetime | None = None, note: str = ""
    ) -> SilenceAnswer:
        """Tell no alerts whose key is as `match`, until an instant or for a span.

        It begins now, or at `start`, as for a maintenance window. `match` may end with `*`. Raises
        `Invalid` naming what is wrong.
        """
        return self._backend.wait_for(self.asilence(match, until, start=start, note=note))

    async def asilence(
        self, match: str, until: Span | datetime, *, start: datetime | None = None, note: str = ""
    ) -> SilenceAnswer:
        begin = value_or_unset(instant("start", start))
        if isinstance(until, datetime):
            end = value_or_unset(instant("until", until))
            body = AlertSilenceBody(match=match, starts_at=begin, until=end, note=note)
        else:
            span = in_seconds(until)
            body = AlertSilenceBody(match=match, starts_at=begin, span=span, note=note)
        return await self._backend.call(ALERT_SILENCE, CreateSilence(body))

    def silences(self) -> Sequence[SilenceAnswer]:
        """Those that have not ended, the earliest to end first."""
        return self._backend.wait_for(self.asilences())

    async def asilences(self) -> Sequence[SilenceAnswer]:
        return (await self._backend.call(ALERT_LIST, ListAlerts(limit=1))).silences

    def unsilence(self, id: str) -> None:
        """End a silence. Raises `NotFound`."""
        self._backend.wait_for(self.aunsilence(id))

    async def aunsilence(self, id: str) -> None:
        await self._backend.call(ALERT_UNSILENCE, SilenceById(id))
